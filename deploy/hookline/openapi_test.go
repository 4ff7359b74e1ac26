package main

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/hookline/hookline/deploy/local/apitest"
	"github.com/hookline/hookline/deploy/local/brokertest"
)

// document is what all answers of the tests are held against. Any path may answer the few
// problems that its description has.
var document = sync.OnceValues(func() (*apitest.Doc, error) {
	return apitest.Load(openapiJSON, anywhere...)
})

var anywhere = []apitest.Answer{
	{Status: 401, Code: "unauthenticated"}, {Status: 404, Code: "not_found"}, {Status: 405, Code: "method_not_allowed"}, {Status: 500, Code: "internal"},
}

// documented fails unless an answer of the admin listener is in the document.
func (r *rig) documented(method, path string, a answer) {
	r.t.Helper()
	if strings.HasPrefix(path, "/debug/pprof/") && a.status == http.StatusOK {
		return // for the pprof tool
	}
	doc, err := document()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := doc.Check(apitest.Response{Method: method, Path: path, Status: a.status, Header: a.header, Body: a.body}); err != nil {
		r.t.Error(err)
	}
}

// Everything that the document says of endpoints, dead letters and the open paths is answered. Not
// walked here: what a broker or ClickHouse that is away makes of them, reports, and a dead letter
// that is there; those answers are checked where they are tested. A rotation or a test is 422 only
// when the policy for URLs was tightened after the endpoint was made.
func TestEveryDocumentedAnswerIsGiven(t *testing.T) {
	t.Parallel()
	doc, err := apitest.Load(openapiJSON, anywhere...)
	if err != nil {
		t.Fatal(err)
	}
	r := startRig(t, brokertest.Start(t), roleIngest, roleDispatcher)
	send := func(method, path, body string, header ...string) {
		t.Helper()
		a := r.call(method, path, body, header...)
		if err := doc.Check(apitest.Response{Method: method, Path: path, Status: a.status, Header: a.header, Body: a.body}); err != nil {
			t.Error(err)
		}
	}
	const one, form = "/v1/endpoints/e", `{"id":"e","url":"http://127.0.0.1:1/x"}`
	send("POST", "/v1/endpoints", form)
	send("POST", "/v1/endpoints", form)
	for _, op := range doc.Operations() {
		method, path, _ := strings.Cut(op, " ")
		path = strings.NewReplacer("{id}", "e", "{partition}/{offset}", "0/9", "{name}", "health").Replace(path)
		send(method, path, "", "Authorization", "Bearer nobody")
		if strings.HasPrefix(path, one) {
			body := map[bool]string{true: "", false: form}[strings.HasSuffix(path, "rotate-secret")]
			send(method, strings.Replace(path, one, "/v1/endpoints/none", 1), strings.Replace(body, `"e"`, `"none"`, 1))
			if method != "GET" {
				send(method, path, body, "If-Match", `"stale"`)
			}
		}
		if method == "DELETE" {
			continue
		}
		send(method, path, "")
		if method != "GET" {
			bad := map[bool]string{true: `{"grace":"1h","secret":"x"}`, false: `{"url":"http://127.0.0.1:1/x","timeout":"16s"}`}[strings.HasSuffix(path, "rotate-secret")]
			for _, body := range []string{form, "{", `{"id":"f","url":"ftp://x"}`, `{"id":"f","url":"http://10.0.0.1/x"}`, bad, strings.Repeat(" ", maxAdminBody+1)} {
				send(method, path, body)
			}
			send(method, path, form, "Content-Type", "text/plain")
		}
	}
	send("GET", "/v1/endpoints?limit=x", "")
	send("GET", "/v1/dead-letters?limit=x", "")
	send("DELETE", one, "")
	r.node.health.stopping()
	send("GET", "/readyz", "")
	for _, a := range doc.Missing() {
		elsewhere := a.Status == 200 && strings.Contains(a.Operation, "{offset}") || a.Status == 422 && (strings.Contains(a.Operation, "rotate") || strings.HasSuffix(a.Operation, "/test"))
		if a.Status < 500 && !elsewhere && !strings.Contains(a.Operation, "reports") && !strings.Contains(a.Operation, "deliveries") {
			t.Errorf("%s is documented and was not given", a)
		}
	}
}
