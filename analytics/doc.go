// Package analytics streams the topics attempts, events and dead into ClickHouse, each record
// exactly once, into the raw tables and into every rollup.
package analytics
