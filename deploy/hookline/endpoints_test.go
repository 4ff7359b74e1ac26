package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/ingest/event/scan"
	"github.com/hookline/hookline/retrytiers/tier"
)

const acme = `{"id":"acme","tenant":"dev","url":"http://127.0.0.1:9/hook?t=tok","events":["message.*"],"headers":{"X-Env":"prod"}}`

func TestEndpointLifecycle(t *testing.T) {
	t.Parallel()
	r := startRig(t, brokertest.Start(t))
	made := r.want(r.call("POST", "/v1/endpoints", acme), 201, "")
	secret, _ := made.json(t)["secret"].(string)
	if !strings.HasPrefix(secret, "whsec_") || made.header.Get("ETag") == "" || made.header.Get("Location") != "/v1/endpoints/acme" {
		t.Errorf("created: %s %v", made.body, made.header)
	}
	r.want(r.call("POST", "/v1/endpoints", acme), 409, "exists")

	got := r.want(r.call("GET", "/v1/endpoints/acme", ""), 200, "")
	m := got.json(t)
	if m["secret"] != secret[len(secret)-4:] || m["timeout"] != "5s" || m["max_in_flight"] != 64.0 {
		t.Errorf("got %s", got.body)
	}
	if got.header.Get("ETag") != made.header.Get("ETag") {
		t.Errorf("tag of GET %s, of POST %s", got.header.Get("ETag"), made.header.Get("ETag"))
	}

	patched := r.want(r.call("PATCH", "/v1/endpoints/acme", `{"retry":{"cap":"10m"},"headers":{"X-Env":null,"X-New":"1"}}`, "If-Match", got.header.Get("ETag")), 200, "")
	m = patched.json(t)
	if retry := m["retry"].(map[string]any); retry["cap"] != "10m" || retry["base"] != "2s" {
		t.Errorf("patched: %s", patched.body)
	}
	if h := m["headers"].(map[string]any); len(h) != 1 || h["X-New"] != "1" {
		t.Errorf("patched headers: %s", patched.body)
	}
	r.want(r.call("PATCH", "/v1/endpoints/acme", `{"enabled":false}`, "If-Match", got.header.Get("ETag")), 412, "precondition_failed")
	r.want(r.call("DELETE", "/v1/endpoints/acme", "", "If-Match", `"0"`), 412, "precondition_failed")

	// What was read can be sent back; the four characters are not a new secret.
	replaced := r.want(r.call("PUT", "/v1/endpoints/acme", string(r.call("GET", "/v1/endpoints/acme", "").body), "If-Match", "*"), 200, "")
	if replaced.json(t)["secret"] != secret[len(secret)-4:] {
		t.Errorf("replaced: %s", replaced.body)
	}
	if e, _ := r.node.store.get("acme"); len(e.Keys) != 1 || e.Keys[0].Secret != secret {
		t.Errorf("keys after PUT: %d", len(e.Keys))
	}

	if m := r.want(r.call("POST", "/v1/endpoints/acme/disable", ""), 200, "").json(t); m["enabled"] != false {
		t.Errorf("disabled: %v", m)
	}
	if m := r.want(r.call("POST", "/v1/endpoints/acme/enable", ""), 200, "").json(t); m["enabled"] != true {
		t.Errorf("enabled: %v", m)
	}
	rotated := r.want(r.call("POST", "/v1/endpoints/acme/rotate-secret", `{"grace":"1h"}`), 200, "").json(t)
	if s, _ := rotated["secret"].(string); !strings.HasPrefix(s, "whsec_") || s == secret {
		t.Errorf("rotated: %v", rotated)
	}
	if a := r.call("DELETE", "/v1/endpoints/acme", ""); a.status != 204 || len(a.body) > 0 {
		t.Errorf("deleted: %d %s", a.status, a.body)
	}
	r.want(r.call("GET", "/v1/endpoints/acme", ""), 404, "not_found")
	r.want(r.call("DELETE", "/v1/endpoints/acme", ""), 404, "not_found")
	r.want(r.call("PATCH", "/v1/endpoints/acme", `{}`), 404, "not_found")
	r.checkAudit(secret)
}

// checkAudit reads the audit topic: one record per change, in order, with nothing secret.
func (r *rig) checkAudit(secret string) {
	r.t.Helper()
	var actions []string
	for _, rec := range r.topic(tier.AuditTopic().Name(r.node.cfg.Kafka.Prefix)) {
		var a auditRecord
		if err := json.Unmarshal(rec.Value, &a); err != nil {
			r.t.Fatal(err)
		}
		actions = append(actions, a.Action)
		for _, text := range []string{secret, "t=tok", `"prod"`} {
			if strings.Contains(string(rec.Value), text) {
				r.t.Errorf("audit record holds %s: %s", text, rec.Value)
			}
		}
	}
	want := []string{"endpoint.create", "endpoint.update", "endpoint.replace", "endpoint.disable", "endpoint.enable", "endpoint.rotate_secret", "endpoint.delete"}
	if !slices.Equal(actions, want) {
		r.t.Errorf("audit %v, want %v", actions, want)
	}
}

// topic reads partition 0 of a topic.
func (r *rig) topic(name string) []*kgo.Record {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cl := r.node.cluster.cl
	from, err := scan.Start(ctx, cl, name, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	until, err := scan.End(ctx, cl, name, 0, true)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []*kgo.Record
	if _, err := scan.Range(ctx, cl, scan.Spec{Topic: name, From: from, Until: until, ReadCommitted: true}, func(rec *kgo.Record) error {
		out = append(out, rec)
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
	return out
}

func TestEndpointRefusals(t *testing.T) {
	t.Parallel()
	r := startRig(t, brokertest.Start(t))
	form := func(fields string) string {
		return `{"id":"x","tenant":"dev","url":"http://127.0.0.1:9/"` + fields + `}`
	}
	for _, c := range []struct {
		body   string
		status int
		code   string
	}{
		{``, 400, "empty_body"},
		{`{`, 400, "invalid_json"},
		{`[]`, 400, "invalid_json"},
		{`null`, 400, "invalid_json"},
		{`{"url":"http://127.0.0.1/"}`, 400, "missing_field"},
		{`{"id":"x"}`, 400, "missing_field"},
		{form(`,"bogus":1`), 400, "invalid_field"},
		{form(`,"timeout":5`), 400, "invalid_field"},
		{form(`,"timeout":"16s"`), 422, "invalid_field"},
		{form(`,"events":["a..b"]`), 400, "invalid_field"},
		{form(`,"secret":"whsec_c2hvcnQ="`), 400, "invalid_field"},
		{form(`,"headers":{"Host":"x"}`), 400, "invalid_field"},
		{`{"id":"a b","tenant":"dev","url":"http://127.0.0.1:9/"}`, 400, "invalid_field"},
		{`{"id":"x","tenant":"dev","url":"ftp://example.com/"}`, 422, "refused_url"},
		{`{"id":"x","tenant":"dev","url":"http://u:p@127.0.0.1/"}`, 422, "refused_url"},
		{`{"id":"x","tenant":"dev","url":"http://169.254.169.254/latest"}`, 422, "refused_url"},
	} {
		a := r.want(r.call("POST", "/v1/endpoints", c.body), c.status, c.code)
		if t.Failed() {
			t.Fatalf("body %s: %s", c.body, a.body)
		}
	}
	r.want(r.call("POST", "/v1/endpoints", form(``), "Content-Type", "text/plain"), 415, "unsupported_media_type")
	r.want(r.call("POST", "/v1/endpoints", `{"id":"`+strings.Repeat("x", maxAdminBody)+`"}`), 413, "too_large")
	r.want(r.call("GET", "/v1/endpoints?limit=0", ""), 400, "invalid_field")
	r.want(r.call("GET", "/v1/endpoints?cursor=*", ""), 400, "invalid_field")
	if n := len(r.node.store.all()); n != 0 {
		t.Errorf("%d endpoints were made", n)
	}
	// One tenant is configured, so it need not be named; and it never changes.
	made := r.want(r.call("POST", "/v1/endpoints", `{"id":"y","url":"http://127.0.0.1:9/"}`), 201, "")
	if made.json(t)["tenant"] != "dev" {
		t.Errorf("tenant: %s", made.body)
	}
	r.want(r.call("PATCH", "/v1/endpoints/y", `{"tenant":"other"}`), 400, "invalid_field")
	r.want(r.call("PUT", "/v1/endpoints/y", `{"id":"z","url":"http://127.0.0.1:9/"}`), 400, "invalid_field")
}

func TestEndpointPages(t *testing.T) {
	t.Parallel()
	r := startRig(t, brokertest.Start(t))
	var want []string
	for i := range 5 {
		id := fmt.Sprintf("e%d", i)
		r.want(r.call("POST", "/v1/endpoints", fmt.Sprintf(`{"id":%q,"url":"http://127.0.0.1:9/"}`, id)), 201, "")
		want = append(want, id)
	}
	var got []string
	cursor, pages := "", 0
	for {
		var page struct {
			Items []struct{ ID string }
			Next  string
		}
		if err := json.Unmarshal(r.want(r.call("GET", "/v1/endpoints?limit=2&cursor="+cursor, ""), 200, "").body, &page); err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Items {
			got = append(got, e.ID)
		}
		if pages++; page.Next == "" || pages > 10 {
			break
		}
		cursor = page.Next
	}
	if !slices.Equal(got, want) || pages != 3 {
		t.Errorf("got %v in %d pages", got, pages)
	}
}

// Of many writers that read the same version, one wins.
func TestEndpointCompareAndSet(t *testing.T) {
	t.Parallel()
	r := startRig(t, brokertest.Start(t))
	tag := r.want(r.call("POST", "/v1/endpoints", acme), 201, "").header.Get("ETag")
	var mu sync.Mutex
	statuses := map[int]int{}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			a := r.call("PATCH", "/v1/endpoints/acme", fmt.Sprintf(`{"max_in_flight":%d}`, i+1), "If-Match", tag)
			mu.Lock()
			statuses[a.status]++
			mu.Unlock()
		})
	}
	wg.Wait()
	if statuses[200] != 1 || statuses[412] != 7 {
		t.Errorf("statuses %v", statuses)
	}
}

// A change is answered at once when this process has the only dispatcher, and every process
// reads it by then.
func TestChangeIsInUseWhenAnswered(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t)
	r := startRig(t, b, roleDispatcher)
	poll(t, func() bool { return r.node.fleet.alone(context.Background()) })
	// Committed in an hour: a wait for the spread time would not end within the test.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := r.node.fleet.wait(ctx, 0, time.Now().Add(time.Hour)); err != nil {
		t.Errorf("the only dispatcher waits: %v", err)
	}
	other := startRig(t, b, roleDispatcher)
	r.want(r.call("POST", "/v1/endpoints", acme), 201, "")
	if _, ok := other.node.store.get("acme"); !ok {
		t.Error("a second process does not see the endpoint")
	}
}

func TestFleetWaitsWhenItCannotAsk(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t)
	r := startRig(t, b, roleDispatcher)
	// Without a dispatcher of its own a process cannot know what the others have applied.
	f := newFleet(r.node.cluster.adm, b.Prefix, nil, "", r.node.log)
	poll(t, func() bool { return !f.alone(context.Background()) })
	committed := time.Now()
	if err := f.wait(context.Background(), 1<<40, committed); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(committed); took < spreadTime || took > 2*time.Second {
		t.Errorf("waited %s", took)
	}
}

func TestDefaultsApplyToNewEndpoints(t *testing.T) {
	t.Parallel()
	e, err := endpointDefaults(map[string]any{"timeout": "9s", "retry": map[string]any{"max_attempts": 3}})
	if err != nil {
		t.Fatal(err)
	}
	if e.Timeout != endpoint.Duration(9*time.Second) || e.Retry.MaxAttempts != 3 || e.Retry.Base == 0 {
		t.Errorf("got %+v", e)
	}
}
