package apitest

import (
	"slices"
	"strconv"
	"strings"
)

// note remembers an answer, also as one of its status: a document need not name codes.
func (d *Doc) note(a Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[a] = true
	d.seen[Answer{a.Operation, a.Status, ""}] = true
}

// Operations are all operations of the document, as "POST /v1/events".
func (d *Doc) Operations() []string {
	var out []string
	for _, path := range keys(d.paths) {
		for _, method := range keys(object(d.paths[path])) {
			if method != "parameters" && method != "summary" && method != "description" {
				out = append(out, strings.ToUpper(method)+" "+path)
			}
		}
	}
	return out
}

// Answers are all answers that the document has for an operation.
func (d *Doc) Answers(operation string) []Answer {
	method, path, _ := strings.Cut(operation, " ")
	var out []Answer
	responses := object(object(object(d.paths[path])[strings.ToLower(method)])["responses"])
	for _, status := range keys(responses) {
		n, err := strconv.Atoi(status)
		if err != nil {
			continue
		}
		schema := object(object(object(object(responses[status])["content"])[problemType])["schema"])
		codes := codesOf(schema)
		if len(codes) == 0 {
			codes = []string{""}
		}
		for _, code := range codes {
			out = append(out, Answer{operation, n, code})
		}
	}
	return out
}

// Missing are the documented answers that Check has not seen.
func (d *Doc) Missing() []Answer {
	var out []Answer
	for _, op := range d.Operations() {
		for _, a := range d.Answers(op) {
			d.mu.Lock()
			seen := d.seen[a]
			d.mu.Unlock()
			if !seen {
				out = append(out, a)
			}
		}
	}
	return out
}

// codesOf are the codes that a schema of a problem allows.
func codesOf(schema map[string]any) []string {
	var out []string
	code := object(object(schema["properties"])["code"])
	if c, ok := code["const"].(string); ok {
		out = append(out, c)
	}
	values, _ := code["enum"].([]any)
	for _, v := range values {
		if c, ok := v.(string); ok {
			out = append(out, c)
		}
	}
	all, _ := schema["allOf"].([]any)
	for _, part := range all {
		out = append(out, codesOf(object(part))...)
	}
	slices.Sort(out)
	return out
}
