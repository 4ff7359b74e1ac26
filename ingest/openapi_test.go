package ingest

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookline/hookline/deploy/local/apitest"
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

// anywhere are the problems that the description of the document has for any path.
var anywhere = []apitest.Answer{
	{Status: 400, Code: codeInvalidRequest}, {Status: 404, Code: codeNotFound}, {Status: 405, Code: codeNotAllowed},
	{Status: 408, Code: codeTimeout}, {Status: 429, Code: codeRateLimited}, {Status: 431, Code: codeTooLarge}, {Status: 500, Code: codeInternal},
}

// document is what all answers of the tests are held against.
var document = sync.OnceValues(func() (*apitest.Doc, error) { return apitest.Load(openAPI, anywhere...) })

// documented fails if an answer to a post is not in the document.
func documented(t testing.TB, path string, a answer) {
	t.Helper()
	checkAnswer(t, "POST", path, a)
}

func checkAnswer(t testing.TB, method, path string, a answer) {
	t.Helper()
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Check(apitest.Response{Method: method, Path: path, Status: a.status, Header: a.header, Body: a.body}); err != nil {
		t.Error(err)
	}
}

// Everything that the document says of publishing and of the paths that want no key is answered:
// no status and no code is there for nothing.
func TestEveryDocumentedAnswerIsGiven(t *testing.T) {
	doc, err := apitest.Load(openAPI, anywhere...)
	if err != nil {
		t.Fatal(err)
	}
	r, fake := startFake(t, func(c *Config) {
		c.MaxBody, c.MaxBacklogAge = 1000, time.Minute
		c.APIKeys = append(c.APIKeys, "dev:slow rate=0.001 burst=1")
	})
	var behind atomic.Bool
	r.server.backlogAge = func() time.Duration { // only read, and not before the first request
		if behind.Load() {
			return time.Hour
		}
		return 0
	}
	starting := launch(t, seeds("127.0.0.1:1"), "x.")
	send := func(r *room, method, path, body string, headers ...string) {
		t.Helper()
		a := r.do(method, path, body, headers...)
		if err := doc.Check(apitest.Response{Method: method, Path: path, Status: a.status, Header: a.header, Body: a.body}); err != nil {
			t.Error(err)
		}
	}
	const slow = "Bearer slow"
	send(r, "POST", PathEvents, goodBody, "Authorization", "", "Authorization", slow)
	for _, path := range []string{PathEvents, PathBatch} {
		body := map[string]string{PathEvents: "{}", PathBatch: "[{}]"}[path]
		good := map[string]string{PathEvents: goodBody, PathBatch: "[" + goodBody + "]"}[path]
		send(r, "POST", path, good)
		send(r, "POST", path, body)
		send(r, "POST", path, "")
		send(r, "POST", path, "x")
		send(r, "POST", path, strings.Replace(good, "message.delivered", "a b", 1))
		send(r, "POST", path, good, "Idempotency-Key", strings.Repeat("k", 256))
		send(r, "POST", path, good, "Content-Encoding", "gzip")
		send(r, "POST", path, good, "Authorization", "")
		send(r, "POST", path, strings.Repeat(" ", maxBatchBody+1))
		send(r, "POST", path, good, "Content-Encoding", "br")
		send(starting, "POST", path, good)
		send(r, "POST", path, good, "Authorization", "", "Authorization", slow)
		behind.Store(true)
		send(r, "POST", path, good)
		behind.Store(false)
	}
	for _, op := range doc.Operations() {
		if method, path, _ := strings.Cut(op, " "); method != "POST" && !strings.HasPrefix(path, "/v1/") {
			send(r, method, path, "")
			send(starting, method, path, "")
		}
	}
	_, release := hold(t, fake)
	send(r, "POST", PathEvents, goodBody)
	release()
	for _, a := range doc.Missing() {
		_, path, _ := strings.Cut(a.Operation, " ")
		if path == PathEvents || path == PathBatch || !strings.HasPrefix(path, "/v1/") { // the others have tests of their own
			t.Errorf("%s is documented and was not given", a)
		}
	}
}
