// Package apitest holds what a server answers against its OpenAPI document, for tests. Every
// answer must be in the document: operation, status, content type, headers, and a body that its
// schema allows. In the other direction Missing tells what is in the document and was never
// answered.
//
// A problem's codes belong to a status: the schema of its content says which, as an enum (or a
// const) of the property code, directly or in an allOf.
//
//	apitest.go  the document, Check
//	seen.go     what was answered, Missing
//
// Does not: check requests, or follow references to other documents.
package apitest
