package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hookline/hookline/deploy/local/brokertest"
)

func TestAdminNeedsTheToken(t *testing.T) {
	t.Parallel()
	r := startRig(t, brokertest.Start(t))
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		r.want(r.call("GET", path, "", "Authorization", ""), 200, "")
	}
	for _, path := range []string{"/v1/endpoints", "/v1/dead-letters", "/openapi.json", "/debug/pprof/", "/console/", "/nothing", "/metrics/x"} {
		for _, auth := range []string{"", "Bearer", "Bearer devv", "Bearer de", "Basic ZGV2OmRldg==x", "dev"} {
			a := r.want(r.call("GET", path, "", "Authorization", auth), 401, "unauthenticated")
			if a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s: no challenge", path)
			}
		}
	}
	// A browser's credential opens the page and nothing else.
	basic := "Basic eDpkZXY=" // x:dev
	if a := r.want(r.call("GET", "/console/", "", "Authorization", basic), 200, ""); !strings.Contains(string(a.body), "hookline") {
		t.Errorf("console: %s", a.body)
	}
	r.want(r.call("GET", "/v1/endpoints", "", "Authorization", basic), 401, "unauthenticated")
	r.want(r.call("POST", "/console/", "", "Authorization", basic), 401, "unauthenticated")
	r.want(r.call("GET", "/debug/pprof/cmdline", ""), 200, "")
}

func TestAdminUnknownPathsAreProblems(t *testing.T) {
	t.Parallel()
	r := startRig(t, brokertest.Start(t))
	r.want(r.call("GET", "/v1/nothing", ""), 404, "not_found")
	a := r.want(r.call("DELETE", "/v1/endpoints", ""), 405, "method_not_allowed")
	if allow := a.header.Get("Allow"); !strings.Contains(allow, "POST") || !strings.Contains(allow, "GET") {
		t.Errorf("Allow: %q", allow)
	}
}

// The document and the routes name the same operations.
func TestOpenAPINamesEveryRoute(t *testing.T) {
	t.Parallel()
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(openapiJSON, &doc); err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for path, item := range doc.Paths {
		for method := range item {
			if method != "parameters" {
				documented[strings.ToUpper(method)+" "+path] = true
			}
		}
	}
	s := &admin{log: newLogger(&strings.Builder{}, logConfig{}), gatherer: newNode(&Config{}, nil, nil).reg}
	for pattern := range s.routes() {
		pattern = strings.TrimSuffix(pattern, "{$}")
		if !documented[pattern] {
			t.Errorf("%s is not documented", pattern)
		}
		delete(documented, pattern)
	}
	for op := range documented {
		t.Errorf("%s is documented and does not exist", op)
	}
}

func TestReadyzSaysWhatIsNotReady(t *testing.T) {
	t.Parallel()
	h := &health{}
	if _, ok := h.report(); ok {
		t.Error("a process without parts is ready")
	}
	var err error
	h.add("a", func() error { return nil })
	h.add("b", func() error { return err })
	if _, ok := h.report(); !ok {
		t.Error("not ready")
	}
	err = errSilent
	if parts, ok := h.report(); ok || parts["b"] != errSilent.Error() || parts["a"] != "ok" {
		t.Errorf("report %v", parts)
	}
	err = nil
	h.stopping()
	if _, ok := h.report(); ok {
		t.Error("ready while stopping")
	}
}
