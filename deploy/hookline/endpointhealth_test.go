package main

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/hookline/hookline/deploy/local/brokertest"
)

// TestEndpointHealth delivers to an endpoint that takes and to one that refuses, and asks.
func TestEndpointHealth(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t)
	r := startRig(t, b, roleDispatcher, roleIngest)
	c := startCustomer(t)
	for _, id := range []string{"healthy", "dead"} {
		r.want(r.call("POST", "/v1/endpoints", `{"id":"`+id+`","url":"`+c.URL+`/`+id+`","max_in_flight":3}`), 201, "")
	}
	ask := func(id string) map[string]any {
		t.Helper()
		return r.want(r.call("GET", "/v1/endpoints/"+id+"/health", ""), 200, "").json(t)
	}
	fresh := ask("healthy")
	if got := slices.Sorted(maps.Keys(fresh)); !slices.Equal(got, []string{"breaker", "endpoint_id", "in_flight", "last_error_class", "last_failure_at", "last_success_at", "limit", "parked", "state"}) {
		t.Errorf("members %v", got)
	}
	if fresh["state"] != "healthy" || fresh["breaker"] != "closed" || fresh["last_success_at"] != nil || fresh["last_failure_at"] != nil || fresh["limit"] != 3.0 {
		t.Errorf("nothing known: %v", fresh)
	}
	since := time.Now().Add(-time.Second)
	if _, stderr, code := r.cli(`{"event":"message.sent","message_id":"m-1"}`, "events", "publish"); code != exitOK {
		t.Fatalf("publish: %s", stderr)
	}
	poll(t, func() bool { return ask("healthy")["last_success_at"] != nil && ask("dead")["last_failure_at"] != nil })
	good, bad := ask("healthy"), ask("dead")
	at, err := time.Parse(time.RFC3339, good["last_success_at"].(string))
	if err != nil || at.Before(since) || at.After(time.Now()) {
		t.Errorf("last success %v: %v", good["last_success_at"], err)
	}
	if good["state"] != "healthy" || good["last_error_class"] != "" || good["in_flight"] != 0.0 {
		t.Errorf("healthy: %v", good)
	}
	if bad["state"] != "degraded" || bad["breaker"] != "closed" || bad["last_error_class"] != "http_4xx" || bad["last_success_at"] != nil {
		t.Errorf("dead: %v", bad)
	}
	r.want(r.call("POST", "/v1/endpoints/dead/disable", ""), 200, "")
	if got := ask("dead"); got["state"] != "disabled" || got["last_error_class"] != "http_4xx" {
		t.Errorf("disabled: %v", got)
	}
	r.want(r.call("GET", "/v1/endpoints/none/health", ""), 404, "not_found")

	other := startRig(t, b)
	other.want(other.call("GET", "/v1/endpoints/healthy/health", ""), 503, "no_dispatcher")
	other.want(other.call("GET", "/v1/endpoints/none/health", ""), 404, "not_found")
}
