package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/hookline/hookline/analytics/clickhouse"
	"github.com/hookline/hookline/analytics/report"
	"github.com/hookline/hookline/analytics/schema"
	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/deploy/local/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// desk is an admin listener that answers questions from an engine of its own.
type desk struct {
	t      *testing.T
	engine *enginetest.Engine
	conn   driver.Conn
	url    string
	admin  *admin
}

func startDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, engine: enginetest.Start(t)}
	var err error
	if d.conn, err = clickhouse.Open(d.engine.DSN(), 4); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.conn.Close() })
	d.admin = &admin{
		gate: newTokenGate("dev"), log: slog.New(slog.DiscardHandler), gatherer: newNode(&Config{}, nil, nil).reg, health: &health{},
		questions: &questions{slots: make(chan struct{}, 1), log: slog.New(slog.DiscardHandler),
			reporter: report.New(report.Deps{Conn: d.conn, Lag: func(context.Context) (time.Duration, error) { return 1500 * time.Millisecond, nil }})},
	}
	server := httptest.NewServer(d.admin.handler())
	t.Cleanup(server.Close)
	d.url = server.URL
	return d
}

// fill makes the tables and one event that was retried and delivered to a, and waits at b.
func (d *desk) fill() time.Time {
	d.t.Helper()
	if _, err := schema.Migrate(d.t.Context(), d.conn, clickhouse.Database); err != nil {
		d.t.Fatal(err)
	}
	accepted := time.Now().UTC().Add(-5 * time.Minute).Truncate(time.Second)
	at := func(after time.Duration) string { return accepted.Add(after).Format("'2006-01-02 15:04:05.000'") }
	columns := "(attempted_at, occurred_at, accepted_at, tenant_id, endpoint_id, event_type, event_id, message_id, attempt, deliveries, trigger, outcome, status_code, error_class, circuit, next_retry_at, queue_wait_us, total_us, src_offset)"
	row := func(after time.Duration, endpoint, rest string) string {
		return "(" + at(after) + "," + at(0) + "," + at(0) + ",'dev','" + endpoint + "','message.sent','evt_1','m_1'," + rest + ")"
	}
	for _, sql := range []string{
		"INSERT INTO hookline.events (accepted_at, occurred_at, tenant_id, event_type, event_id, message_id) VALUES (" + at(0) + "," + at(0) + ",'dev','message.sent','evt_1','m_1')",
		"INSERT INTO hookline.attempts " + columns + " VALUES " +
			row(time.Second, "a", "1,2,'auto','retry',500,'http_5xx','closed',"+at(3*time.Second)+",1500,2000,0") + "," +
			row(3*time.Second, "a", "2,2,'auto','delivered',200,'','closed',0,10,3000,1") + "," +
			row(time.Second, "b", "1,2,'auto','retry',503,'http_503','closed',"+at(time.Hour)+",1500,2000,2"),
	} {
		if err := d.conn.Exec(d.t.Context(), sql); err != nil {
			d.t.Fatalf("%v in %s", err, sql)
		}
	}
	return accepted
}

func (d *desk) get(path string) answer {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), "GET", d.url+path, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer dev")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, raw}
}

func (d *desk) cli(args ...string) (stdout, stderr string, code int) {
	d.t.Helper()
	return command(d.t, nil, append(args, "--admin", d.url, "--token", "dev")...)
}

func TestReportsOverHTTP(t *testing.T) {
	t.Parallel()
	d := startDesk(t)
	problem := func(path string, status int, code, text string) answer {
		t.Helper()
		a := d.get(path)
		if a.status != status || a.header.Get("Content-Type") != "application/problem+json" || !strings.Contains(string(a.body), `"code":"`+code+`"`) || !strings.Contains(string(a.body), text) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		return a
	}
	problem("/v1/reports/health", 503, "unavailable", "hookline analytics migrate")
	accepted := d.fill()
	problem("/v1/reports/nonsense", 404, "not_found", "health, latency")
	problem("/v1/reports/trace", 400, "missing_field", "event_id")
	problem("/v1/reports/health?since=yesterday", 400, "invalid_field", `"field":"since"`)
	problem("/v1/reports/health?since=1h;x", 400, "invalid_field", "well-formed")
	problem("/v1/reports/health?event_id=evt_1", 400, "invalid_field", `"field":"event_id"`)
	problem("/v1/deliveries", 400, "missing_field", "event_id")
	problem("/v1/deliveries?event_id=a.b", 400, "invalid_field", `"field":"event_id"`)
	problem("/v1/deliveries?event_id=evt_1&limit=3", 400, "invalid_field", "limit")

	a := d.get("/v1/reports/health?since=1h")
	var res struct {
		Report    string
		AsOf      time.Time `json:"as_of"`
		Lag       float64   `json:"lag_seconds"`
		Truncated *bool
		Columns   []string
		Rows      []map[string]any
	}
	if err := json.Unmarshal(a.body, &res); err != nil || a.header.Get("Content-Type") != "application/json" || res.Report != "health" || res.Lag != 1.5 || res.Truncated == nil || time.Since(res.AsOf) > time.Minute {
		t.Fatalf("%s %v", a.body, err)
	}
	if len(res.Rows) != 2 || res.Rows[0]["endpoint_id"] != "b" || res.Rows[1]["delivered_share"] != 0.5 || res.Rows[1]["p99_ms"] != 3.0 || res.Rows[0]["state"] != "failing" {
		t.Errorf("%s", a.body)
	}
	if a = d.get("/v1/reports/failures?format=csv"); a.header.Get("Content-Type") != "text/csv; charset=utf-8" || !strings.HasPrefix(string(a.body), "error_class,status_code,failures,share,dead,last_at\nhttp_503,503,1,0.5,0,") {
		t.Errorf("%s", a.body)
	}
	if a = d.get("/v1/reports/health?tenant=dev&format=sql"); !strings.Contains(string(a.body), "SET param_tenant_id = 'dev';") || !strings.Contains(string(a.body), "FROM hookline.attempts_1m") {
		t.Errorf("%s", a.body)
	}
	if a = d.get("/v1/deliveries?event_id=evt_1"); !strings.Contains(string(a.body), `"endpoint_id":"a","state":"delivered","attempts":2,"last_status":200`) ||
		!strings.Contains(string(a.body), `"endpoint_id":"b","state":"retry","attempts":1,"last_status":503`) || !strings.Contains(string(a.body), `"state":"delivering","deliveries":2`) ||
		!strings.Contains(string(a.body), `"next_retry_at":"`+accepted.Add(time.Hour).Format(time.RFC3339)) || !strings.Contains(string(a.body), `"lag_seconds":1.5,"truncated":false`) {
		t.Errorf("%s", a.body)
	}
	if a = d.get("/v1/deliveries?message_id=nothing"); a.status != 200 || !strings.HasPrefix(string(a.body), `{"items":[],"events":[],`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	// The only place is taken: who waits too long is told to come again.
	leave, err := d.admin.questions.enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.admin.questions.enter(ctx); err == nil {
		t.Error("a second question was let in")
	}
	leave()
	d.engine.Kill()
	if a = problem("/v1/reports/health", 503, "unavailable", "deliveries are not affected"); a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	problem("/v1/deliveries?event_id=evt_1", 503, "unavailable", "deliveries are not affected")
	if table := d.admin.consoleHealth(t.Context()); !strings.Contains(table.Note, "cannot be asked") {
		t.Errorf("%+v", table)
	}
}

func TestReportCommands(t *testing.T) {
	t.Parallel()
	d := startDesk(t)
	accepted := d.fill()
	stdout, stderr, code := d.cli("report", "health", "--since", "1h")
	if code != exitOK || !strings.HasPrefix(stdout, "TENANT_ID  ENDPOINT_ID") || !strings.Contains(stdout, "2 rows as of") || stderr != "" {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	if stdout, _, code = d.cli("report", "health", "--json"); code != exitOK || !json.Valid([]byte(stdout)) {
		t.Errorf("%d %s", code, stdout)
	}
	if stdout, _, code = d.cli("report", "trace", "--event-id", "evt_1", "--format", "csv"); code != exitOK || strings.Count(stdout, "\n") != 4 {
		t.Errorf("%d %s", code, stdout)
	}
	for _, args := range [][]string{{"report", "nonsense"}, {"report", "trace"}, {"report", "health", "--since", "x"}, {"events", "trace"}, {"events", "trace", "evt_1", "--message-id", "m"}, {"events", "trace", "a.b"}, {"report", "health", "--format", "xml"}} {
		if _, stderr, code = d.cli(args...); code != exitUsage || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: %d %s", args, code, stderr)
		}
	}
	want := strings.Join([]string{
		"evt_1 delivering  message.sent  message_id=m_1 tenant=dev",
		"  TIME                      AFTER  ENDPOINT  ATTEMPT  OUTCOME    STATUS  ERROR     WAITED  TOOK  NEXT",
		"  " + clockAt(accepted, 0) + "  0s     -         -        accepted   -       -         -       -     -",
		"  " + clockAt(accepted, time.Second) + "  1s     a         1        retry      500     http_5xx  1.5ms   2ms   in 2s",
		"  " + clockAt(accepted, 3*time.Second) + "  3s     a         2        delivered  200     -         0.01ms  3ms   -",
		"  " + clockAt(accepted, time.Second) + "  1s     b         1        retry      503     http_503  1.5ms   2ms   in 59m59s",
		"", "as of "}, "\n")
	if stdout, stderr, code = d.cli("events", "trace", "evt_1"); code != exitOK || !strings.HasPrefix(stdout, want) {
		t.Errorf("%d\n%s%s\nwant\n%s", code, stdout, stderr, want)
	}
	var out traced
	stdout, _, code = d.cli("events", "trace", "evt_1", "--json")
	if err := json.Unmarshal([]byte(stdout), &out); code != exitOK || err != nil || len(out.Events) != 1 || len(out.Items) != 2 || !strings.Contains(string(out.Attempts), "http_503") {
		t.Errorf("%d %v %s", code, err, stdout)
	}
	if _, stderr, code = d.cli("events", "trace", "evt_2"); code != exitFailed || !strings.Contains(stderr, "1.5 s behind") {
		t.Errorf("%d %s", code, stderr)
	}
	if table := d.admin.consoleHealth(t.Context()); len(table.Rows) != 2 || table.Columns[0] != "tenant_id" {
		t.Errorf("%+v", table)
	}
	// What producers are told: their own, and of when it is.
	l := lookups{d.admin.questions.reporter}
	if raw, _, err := l.LookupEvent(t.Context(), "dev", "evt_1"); err != nil || !strings.Contains(string(raw), `"message_id":"m_1","events":[{"id":"evt_1"`) {
		t.Errorf("%s %v", raw, err)
	}
	if raw, asOf, err := l.LookupMessage(t.Context(), "acme", "m_1"); err != nil || raw != nil || time.Since(asOf) < 1500*time.Millisecond {
		t.Errorf("%s %s %v", raw, asOf, err)
	}
	if _, _, err := l.LookupEvent(t.Context(), "", "evt_1"); err == nil {
		t.Error("a look-up without a tenant was answered")
	}
}

func clockAt(t time.Time, after time.Duration) string { return t.Add(after).Format(clockForm) }

func TestReportsWithoutClickHouse(t *testing.T) {
	t.Parallel()
	r := startRig(t, brokertest.Start(t), roleIngest)
	r.want(r.call("GET", "/v1/reports/health", ""), 501, "analytics_off")
	r.want(r.call("GET", "/v1/deliveries?event_id=evt_1", ""), 501, "analytics_off")
	r.want(r.call("GET", "/v1/reports/health", "", "Authorization", ""), 401, "unauthenticated")
	if a := r.call("GET", "/console/", ""); a.status != 200 || !strings.Contains(string(a.body), "analytics is off") {
		t.Errorf("%d %s", a.status, a.body)
	}
	_, stderr, code := r.cli("", "report", "health")
	if code != exitFailed || !strings.Contains(stderr, "analytics_off") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("%d %s", code, stderr)
	}
	var off *apiError
	if err := (&admin{}).ask(t.Context(), nil); !errors.As(err, &off) {
		t.Error(err)
	}
}
