package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/analytics/clickhouse"
	groups "github.com/hookline/hookline/analytics/progress"
	"github.com/hookline/hookline/analytics/reconcile"
	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/deploy/local/enginetest"
	"github.com/hookline/hookline/ingest/event"
)

// TestEverythingIsAccountedFor sends all kinds of events through all roles, and then takes a
// row away.
func TestEverythingIsAccountedFor(t *testing.T) {
	t.Parallel()
	b, engine := brokertest.Start(t), enginetest.Start(t)
	r := startRigWith(t, b, flagValues{"clickhouse.dsn": engine.DSN()}, allRoles()...)
	var flaky = make(chan struct{}, 1)
	flaky <- struct{}{}
	customer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/flaky":
			select {
			case <-flaky: // the first
				w.WriteHeader(503)
			default:
			}
		case "/gone":
			w.WriteHeader(404)
		case "/down":
			w.WriteHeader(500)
		}
	}))
	t.Cleanup(customer.Close)
	endpoint := func(id, path, events, more string) {
		t.Helper()
		r.want(r.call("POST", "/v1/endpoints", fmt.Sprintf(`{"id":%q,"url":%q,"events":[%q]%s}`, id, customer.URL+path, events, more)), 201, "")
	}
	endpoint("ok", "/ok", "fan.*", "")
	endpoint("flaky", "/flaky", "fan.*", `,"retry":{"base":"20ms"}`)
	endpoint("gone", "/gone", "fan.*", `,"retry":{"base":"10ms","unclear_attempts":2}`)
	endpoint("down", "/down", "late.*", `,"retry":{"base":"30m","cap":"1h"}`)
	endpoint("off", "/ok", "parked.*", `,"enabled":false`)
	post := func(body, key string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "POST", r.node.ingestURL()+"/v1/events", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer dev")
		req.Header.Set("Content-Type", "application/json")
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // read
		var got accepted
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || resp.StatusCode != 202 {
			t.Fatalf("publish: %d %v", resp.StatusCode, err)
		}
		return got.ID
	}
	fan := post(`{"event":"fan.out","message_id":"m1"}`, "")
	post(`{"event":"nobody.cares","message_id":"m2"}`, "")
	post(`{"event":"late.one","message_id":"m3"}`, "")
	post(`{"event":"parked.one","message_id":"m4"}`, "")
	keyed := `{"event":"parked.two","message_id":"m5"}`
	post(keyed, "k")
	post(keyed, "k")                                                // dropped
	post(`{"event":"parked.two","message_id":"m5","other":1}`, "k") // id_conflict
	if err := b.Client(t).ProduceSync(t.Context(), &kgo.Record{Topic: b.Prefix + event.EventsSuffix, Key: []byte("m6"), Value: []byte("{}")}).FirstErr(); err != nil {
		t.Fatal(err) // poison: no event
	}

	conn, err := clickhouse.Open(engine.DSN(), 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	cfg := r.node.reconcileConfig()
	cfg.Wait = time.Minute
	counter, err := reconcile.New(cfg, reconcile.Deps{Conn: conn, Offsets: groups.NewReader(r.node.cluster.adm, b.Opts)})
	if err != nil {
		t.Fatal(err)
	}
	// Never is anything unaccounted for, at whatever moment it is counted.
	want := reconcile.Sums{Accepted: 9, Delivered: 2, Dead: 2, Unrouted: 1, Dropped: 1, Pending: 3}
	var last reconcile.Sums
	t.Cleanup(func() { t.Logf("last count %+v", last) })
	until(t, "all is final or waits", func() bool {
		totals, err := counter.Round(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if totals.All.Unaccounted != 0 {
			t.Fatalf("unaccounted while it runs: %+v", totals.All)
		}
		last = totals.All
		return last == want
	})
	// The pull half and the lag, over the listeners.
	req, err := http.NewRequestWithContext(t.Context(), "GET", r.node.ingestURL()+"/v1/messages/m1", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer dev")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read
	var pull struct {
		Events []struct {
			ID, State  string
			Sequence   uint64
			Deliveries []struct {
				EndpointID string `json:"endpoint_id"`
				State      string
				Attempts   int
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&pull); err != nil || len(pull.Events) != 1 || pull.Events[0].ID != fan || pull.Events[0].State != "dead" || pull.Events[0].Sequence == 0 ||
		fmt.Sprint(pull.Events[0].Deliveries) != "[{flaky delivered 2} {gone dead 2} {ok delivered 1}]" {
		t.Errorf("%v %+v", err, pull)
	}
	until(t, "ClickHouse is not behind", func() bool {
		var health struct {
			Lag *float64 `json:"lag_seconds"`
		}
		a := r.call("GET", "/v1/reports/health?since=1h", "")
		return a.status == 200 && json.Unmarshal(a.body, &health) == nil && health.Lag != nil && *health.Lag == 0
	})
	if stdout, stderr, code := r.cli("", "events", "trace", fan); code != exitOK || !strings.Contains(stdout, "accepted") || strings.Count(stdout, "delivered  200") != 2 {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}

	if err := conn.Exec(t.Context(), "ALTER TABLE hookline.attempts DELETE WHERE event_id = '"+fan+"' AND endpoint_id = 'ok' SETTINGS mutations_sync = 1"); err != nil {
		t.Fatal(err)
	}
	totals, err := counter.Round(t.Context())
	if err != nil || totals.All.Unaccounted != 1 || totals.All.Delivered != 1 {
		t.Errorf("a row is lost: %+v %v", totals, err)
	}
}
