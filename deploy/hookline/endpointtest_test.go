package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/retrytiers/tier"
)

// TestTestDelivery sends one test to an endpoint that is disabled: signed by its key, with its
// headers, noted in audit, and nothing of it in attempts.
func TestTestDelivery(t *testing.T) {
	t.Parallel()
	r := startRig(t, brokertest.Start(t)) // needs no dispatcher
	c := startCustomer(t)
	made := r.want(r.call("POST", "/v1/endpoints", `{"id":"e","url":"`+c.URL+`/healthy","events":["a.b"],"headers":{"X-Env":"prod"},"enabled":false}`), 201, "").json(t)
	secret := made["secret"].(string)
	out := r.want(r.call("POST", "/v1/endpoints/e/test", ""), 200, "").json(t)
	if out["delivered"] != true || out["status"] != 200.0 || out["error_class"] != "" || out["total_ms"].(float64) <= 0 || out["http_version"] != "1.1" {
		t.Errorf("answer %v", out)
	}
	second := r.want(r.call("POST", "/v1/endpoints/e/test", ""), 200, "").json(t)
	id, _ := out["event_id"].(string)
	hooks := c.chain("/healthy", id)
	if len(hooks) != 1 || second["event_id"] == id || c.count("") != 2 {
		t.Fatalf("%d requests for %s, %d in all", len(hooks), id, c.count(""))
	}
	h := hooks[0]
	h.verify(t, secret, "whsec_AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=")
	if h.attempt(t) != 1 || h.header.Get("X-Env") != "prod" || h.header.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", h.header)
	}
	if later := c.chain("/healthy", second["event_id"].(string)); later[0].header.Get("Webhook-Sequence") < h.header.Get("Webhook-Sequence") {
		t.Errorf("the second test is older than the first")
	}
	var body map[string]any
	if err := json.Unmarshal(h.body, &body); err != nil {
		t.Fatal(err)
	}
	if body["event"] != testEvent || body["event_id"] != id || body["endpoint_id"] != "e" || body["message_id"] != "e" {
		t.Errorf("body %s", h.body)
	}
	if at, err := time.Parse(time.RFC3339, body["occurred_at"].(string)); err != nil || time.Since(at) > time.Minute {
		t.Errorf("occurred_at %v", body["occurred_at"])
	}
	var last auditRecord
	records := r.topic(tier.AuditTopic().Name(r.node.cfg.Kafka.Prefix))
	if err := json.Unmarshal(records[len(records)-1].Value, &last); err != nil || len(records) != 3 {
		t.Fatalf("%d audit records, %v", len(records), err)
	}
	if last.Action != "endpoint.test" || last.EndpointID != "e" || last.Tenant != "dev" || last.Remote == "" {
		t.Errorf("audit %+v", last)
	}
	if n := len(r.topic(r.node.cfg.Kafka.Prefix + attempt.Suffix)); n != 0 {
		t.Errorf("%d attempt records", n)
	}
	r.want(r.call("POST", "/v1/endpoints/none/test", ""), 404, "not_found")
}

// What a test that failed tells holds nothing of what the endpoint answered.
func TestTestDeliveryThatFails(t *testing.T) {
	t.Parallel()
	r := startRig(t, brokertest.Start(t))
	posts := make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		posts <- struct{}{}
		w.Header().Set("Location", "/private-place")
		w.WriteHeader(http.StatusFound)
		_, _ = w.Write([]byte("private-text"))
	}))
	t.Cleanup(server.Close)
	r.want(r.call("POST", "/v1/endpoints", `{"id":"e","url":"`+server.URL+`/h?t=private-query"}`), 201, "")
	stdout, stderr, code := r.cli("", "endpoints", "test", "e")
	if code != exitFailed || !strings.Contains(stdout, `"error_class": "http_3xx"`) || !strings.Contains(stderr, "302") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("code %d, stdout %s, stderr %s", code, stdout, stderr)
	}
	if strings.Contains(stdout+stderr, "private") {
		t.Errorf("it tells what the endpoint answered: %s %s", stdout, stderr)
	}
	if len(posts) != 1 {
		t.Errorf("%d requests: a redirect was followed, or the test repeated", len(posts))
	}
	server.Close()
	out := r.want(r.call("POST", "/v1/endpoints/e/test", ""), 200, "").json(t)
	if out["delivered"] != false || out["status"] != 0.0 || out["error_class"] != "connect_refused" {
		t.Errorf("answer %v", out)
	}
}

// A test reaches no address that a delivery may not reach: neither by a URL that the policy
// refuses since, nor by a name that resolves to one.
func TestTestDeliveryIsGuarded(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t)
	open := startRig(t, b)
	c := startCustomer(t)
	u, err := url.Parse(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	open.want(open.call("POST", "/v1/endpoints", `{"id":"literal","url":"`+c.URL+`/healthy"}`), 201, "")
	open.want(open.call("POST", "/v1/endpoints", `{"id":"name","url":"http://localhost:`+u.Port()+`/healthy"}`), 201, "")
	closed := startRigWith(t, b, flagValues{"egress.allow": "::1/128"})
	closed.want(closed.call("POST", "/v1/endpoints/literal/test", ""), 422, "refused_url")
	out := closed.want(closed.call("POST", "/v1/endpoints/name/test", ""), 200, "").json(t)
	if out["delivered"] != false || out["error_class"] != "blocked_ssrf" || c.count("") != 0 {
		t.Errorf("answer %v, %d requests", out, c.count(""))
	}
	other := startRigWith(t, b, flagValues{"secret_key": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="})
	other.want(other.call("POST", "/v1/endpoints/literal/test", ""), 422, "unusable_endpoint")
	if c.count("") != 0 {
		t.Errorf("%d requests", c.count(""))
	}
}

func TestRotateSecretCommand(t *testing.T) {
	t.Parallel()
	r := startRig(t, brokertest.Start(t))
	secret := r.want(r.call("POST", "/v1/endpoints", acme), 201, "").json(t)["secret"].(string)
	stdout, stderr, code := r.cli("", "endpoints", "rotate-secret", "acme", "--grace", "1h")
	if code != exitOK || !strings.Contains(stdout, "whsec_") || strings.Contains(stdout, secret) {
		t.Errorf("code %d, stdout %s, stderr %s", code, stdout, stderr)
	}
	if e, _ := r.node.store.get("acme"); len(e.Keys) != 2 || time.Until(e.Keys[1].NotAfter) > time.Hour {
		t.Errorf("keys %d", len(e.Keys))
	}
	if _, stderr, code := r.cli("", "endpoints", "rotate-secret", "acme", "--grace", "1y"); code != exitFailed || !strings.Contains(stderr, "grace") {
		t.Errorf("code %d, stderr %s", code, stderr)
	}
}

// A test that leaves no trace of who asked for it is not made.
func TestTestDeliveryNeedsItsAuditRecord(t *testing.T) {
	t.Parallel()
	r := startRig(t, brokertest.Start(t))
	c := startCustomer(t)
	r.want(r.call("POST", "/v1/endpoints", `{"id":"e","url":"`+c.URL+`/healthy"}`), 201, "")
	topic := tier.AuditTopic().Name(r.node.cfg.Kafka.Prefix)
	if _, err := r.node.cluster.adm.DeleteTopics(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	poll(t, func() bool { // a real broker deletes behind its answer
		topics, err := r.node.cluster.adm.ListTopics(t.Context(), topic)
		return err == nil && !topics.Has(topic)
	})
	r.want(r.call("POST", "/v1/endpoints/e/test", ""), 503, "unavailable")
	if n := c.count(""); n != 0 {
		t.Errorf("%d requests", n)
	}
}
