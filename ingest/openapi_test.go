package ingest

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
)

type openAPIDoc struct {
	OpenAPI string
	Paths   map[string]map[string]struct {
		OperationID string
		Responses   map[string]struct {
			Description string
			Headers     map[string]any
			Content     map[string]struct{ Schema map[string]any }
		}
	}
	Components struct {
		Schemas map[string]struct {
			Required   []string
			Properties map[string]struct {
				Enum      []any
				MaxLength int
				Maximum   int64
			}
		}
	}
}

func readOpenAPI(t testing.TB) openAPIDoc {
	t.Helper()
	var doc openAPIDoc
	if err := json.Unmarshal(openAPI, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestOpenAPIIsWhatTheServerDoes(t *testing.T) {
	doc := readOpenAPI(t)
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("openapi is %q", doc.OpenAPI)
	}
	s, err := New(testConfig(), Deps{Prefix: "x."})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for path, r := range s.routes {
		for method := range r {
			op, ok := doc.Paths[path][strings.ToLower(method)]
			if !ok || op.OperationID == "" || ids[op.OperationID] {
				t.Errorf("%s %s is not in the document, or its operationId is not its own", method, path)
			}
			ids[op.OperationID] = true
		}
		if len(doc.Paths[path]) != len(r) {
			t.Errorf("%s has %d operations in the document, %d in the server", path, len(doc.Paths[path]), len(r))
		}
	}
	if len(doc.Paths) != len(s.routes) {
		t.Errorf("%d paths in the document, %d in the server", len(doc.Paths), len(s.routes))
	}
	var codes []string
	for _, code := range doc.Components.Schemas["Problem"].Properties["code"].Enum {
		codes = append(codes, code.(string))
	}
	if want := slices.Sorted(slices.Values(problemCodes)); !slices.Equal(slices.Sorted(slices.Values(codes)), want) {
		t.Errorf("codes in the document %v, in the server %v", codes, want)
	}
	for code := range s.metrics.requests {
		if code != codeAccepted && code != codePartial && code != codeOK && !slices.Contains(codes, code) {
			t.Errorf("code %s is counted but not documented", code)
		}
	}
	accepted := doc.Components.Schemas["Accepted"]
	if !slices.Equal(slices.Sorted(slices.Values(accepted.Required)), []string{"id", "message_id", "offset", "partition"}) {
		t.Errorf("a 202 has %v in the document", accepted.Required)
	}
}

// documented fails if an answer to a post is not in the document: its status, the code in the
// description of the status, its headers, its content type.
func documented(t testing.TB, path string, a answer) {
	t.Helper()
	if a.status == 404 || a.status == 405 || a.status == 408 || a.status == 431 || a.status == 500 {
		return // of any path: in the description of the document
	}
	resp, ok := readOpenAPI(t).Paths[path]["post"].Responses[strconv.Itoa(a.status)]
	if !ok || !strings.Contains(resp.Description, a.Code) {
		t.Errorf("answer is not documented: %s", a)
	}
	for name := range resp.Headers {
		if a.header.Get(name) == "" {
			t.Errorf("answer has no header %s, the document has: %s", name, a)
		}
	}
	if _, ok := resp.Content[a.header.Get("Content-Type")]; !ok {
		t.Errorf("content type %s is not documented: %s", a.header.Get("Content-Type"), a)
	}
}
