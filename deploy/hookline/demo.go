package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hookline/hookline/bench/receiver"
)

// demoEndpoint is one sample endpoint.
type demoEndpoint struct {
	id, path, about string
	retry           map[string]any
	whenOpen        string
}

// demoEndpoints have short schedules, so that a visitor sees a retry and a dead letter
// within seconds.
func demoEndpoints() []demoEndpoint {
	return []demoEndpoint{
		{"demo-healthy", receiver.PathHealthy, "always answers 200", nil, ""},
		{"demo-flaky", receiver.PathFlaky, "fails three of ten requests", map[string]any{"base": "1s", "cap": "5s"}, ""},
		{"demo-dead", receiver.PathDead, "always answers 500: dead after 3 attempts, at once while its breaker is open", map[string]any{"max_attempts": 3, "base": "1s", "cap": "3s"}, "fail"},
	}
}

// demoEvery is the pace of the sample events.
const demoEvery = 400 * time.Millisecond

// runDemo starts the sample receiver, makes its endpoints and publishes until ctx is done.
func runDemo(ctx context.Context, a *app, n *node) error {
	r, err := receiver.Start(receiver.Config{Paths: receiver.DemoPaths()})
	if err != nil {
		return fmt.Errorf("start sample receiver: %w", err)
	}
	defer r.Close() //nolint:errcheck // the program ends
	api, err := newAPIClient(n.adminURL(), n.cfg.Admin.Token, "--admin")
	if err != nil {
		return err
	}
	tenant := tenantsOf(n.cfg.Ingest.APIKeys)[0]
	for _, e := range demoEndpoints() {
		if err := applyDemo(ctx, api, r, tenant, e); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("make sample endpoint %s: %w", e.id, err)
		}
	}
	pub, err := n.demoPublisher(tenant)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "demo: sample events flow to three endpoints at %s: one healthy, one flaky, one dead\n", r.URL())
	fmt.Fprintf(a.stdout, "demo: look at %s%s (any user, the admin token as password), hookline endpoints list, hookline dlq list, %s/metrics\n",
		n.adminURL(), consolePath, n.adminURL())
	if n.questions == nil {
		return publishDemo(ctx, a, pub)
	}
	told := make(chan struct{})
	go func() { defer close(told); tellHealth(ctx, a, api) }()
	err = publishDemo(ctx, a, pub)
	<-told
	return err
}

// applyDemo makes an endpoint, or points the one of an earlier run at this run's receiver.
func applyDemo(ctx context.Context, api *apiClient, r *receiver.Receiver, tenant string, e demoEndpoint) error {
	form := map[string]any{"id": e.id, "tenant": tenant, "url": r.URL() + e.path}
	if e.retry != nil {
		form["retry"] = e.retry
	}
	if e.whenOpen != "" {
		form["when_open"] = e.whenOpen
	}
	var made endpointForm
	err := api.do(ctx, "POST", "/v1/endpoints", nil, form, &made)
	if refused, ok := errors.AsType[*apiError](err); ok && refused.Code == "exists" {
		if err = api.do(ctx, "PUT", endpointPath(e.id), nil, form, nil); err == nil {
			err = api.do(ctx, "POST", endpointPath(e.id)+"/rotate-secret", nil, map[string]any{"grace": "0s"}, &made)
		}
	}
	if err != nil {
		return err
	}
	return r.SetSecrets(e.path, made.Secret)
}

// demoPublisher publishes with a key of the settings; hashes cannot be sent.
func (n *node) demoPublisher(tenant string) (*apiClient, error) {
	for _, k := range n.cfg.Ingest.APIKeys {
		if k.Tenant == tenant && k.Key != "" {
			c, err := newAPIClient(n.ingestURL(), k.Key, "--ingest")
			if err == nil && n.cfg.Ingest.TLS.enabled() {
				err = c.pin(n.cfg.Ingest.TLS.Cert)
			}
			return c, err
		}
	}
	return nil, fmt.Errorf("the demo publishes as %s and the settings hold only hashes of its keys; set HOOKLINE_API_KEYS=%s:KEY", tenant, tenant)
}

// demoHealthWait bounds the wait for rows of every sample endpoint: the dead one fails within
// seconds, and the sink takes some more.
const demoHealthWait = 30 * time.Second

// tellHealth prints the health report once all sample endpoints are in it, as the last word of the
// start.
func tellHealth(ctx context.Context, a *app, api *apiClient) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	end := time.Now().Add(demoHealthWait)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var table rawAnswer
		err := api.do(ctx, http.MethodGet, "/v1/reports/health?since=15m&format=table", nil, nil, &table)
		late := time.Now().After(end)
		if err == nil && (late || inDemo(string(table))) {
			fmt.Fprintf(a.stdout, "demo: hookline report health --since 15m\n%s", table)
			fmt.Fprintln(a.stdout, "demo: hookline report failures, hookline report pending, hookline events trace EVENT_ID tell more; hookline report --help lists all")
			return
		}
		if late {
			fmt.Fprintln(a.stderr, "demo: no health report yet; ask for it with hookline report health")
			return
		}
	}
}

// inDemo says whether a report names every sample endpoint.
func inDemo(text string) bool {
	for _, e := range demoEndpoints() {
		if !strings.Contains(text, e.id) {
			return false
		}
	}
	return true
}

func publishDemo(ctx context.Context, a *app, pub *apiClient) error {
	steps := []string{"message.accepted", "message.sent", "message.delivered"}
	tick := time.NewTicker(demoEvery)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		event := map[string]any{
			"event": steps[i%len(steps)], "message_id": fmt.Sprintf("demo-%d", i/len(steps)),
			"status": steps[i%len(steps)][len("message."):], "occurred_at": time.Now().UTC().Format(time.RFC3339Nano),
		}
		var out accepted
		if err := pub.do(ctx, http.MethodPost, "/v1/events", nil, event, &out); err != nil && ctx.Err() == nil {
			fmt.Fprintln(a.stderr, "demo: a sample event was not accepted: "+err.Error())
		}
	}
}
