package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// params makes the parameters of a question about the window of the sample.
func params(pairs ...string) url.Values {
	v := url.Values{"since": {base.Format(time.RFC3339)}, "until": {at(3 * time.Hour).Format(time.RFC3339)}}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v
}

func (d *db) ask(name string, v url.Values) *Result {
	d.t.Helper()
	q, err := Parse(name, v, time.Now())
	if err != nil {
		d.t.Fatal(err)
	}
	res, err := d.reporter().Run(d.t.Context(), q)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Logf("%s %v\n%s", name, v, tableOf(d.t, res))
	for _, row := range res.Rows {
		if len(row) != len(res.Columns) {
			d.t.Fatalf("%s: %d columns are named, %d selected", name, len(res.Columns), len(row))
		}
	}
	return res
}

func tableOf(t testing.TB, r *Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b, Table); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// want compares the named columns of all rows as text.
func want(t *testing.T, r *Result, columns string, lines ...string) {
	t.Helper()
	var got []string
	for _, row := range r.Rows {
		var cells []string
		for _, c := range strings.Fields(columns) {
			i := slices.Index(r.Columns, c)
			if i < 0 {
				t.Fatalf("no column %s in %v", c, r.Columns)
			}
			cells = append(cells, or(text(row[i], 3), "-"))
		}
		got = append(got, strings.Join(cells, " "))
	}
	if !slices.Equal(got, lines) {
		t.Errorf("%s %s:\n got %s\nwant %s", r.Report, columns, strings.Join(got, "\n     "), strings.Join(lines, "\n     "))
	}
}

// TestReports counts the sample by hand.
func TestReports(t *testing.T) {
	d := open(t).migrate()
	t.Run("nothing", func(t *testing.T) { d := &db{t, d.conn}; empty(t, d) })
	d.sample()
	t.Run("health", func(t *testing.T) {
		d := &db{t, d.conn}
		r := d.ask("health", params())
		if want := split("tenant_id, endpoint_id, attempts, delivered_share, dead, p50_ms, p90_ms, p99_ms, state"); !slices.Equal(r.Columns, want) {
			t.Errorf("columns %v", r.Columns)
		}
		want(t, r, "tenant_id endpoint_id attempts delivered_share dead state",
			"acme z 1 0 1 failing", "dev b 2 0.5 0 failing", "dev a 4 0.75 0 failing", "dev c 2 1 0 healthy")
		want(t, d.ask("health", params("endpoint", "c")), "p50_ms p90_ms p99_ms", "7 7 7")
		want(t, d.ask("health", params("tenant", "acme")), "endpoint_id p50_ms", "z 1")
		want(t, d.ask("health", params("type", "message.read")), "endpoint_id")
	})
	t.Run("failures", func(t *testing.T) {
		d := &db{t, d.conn}
		lines := []string{"- 0 1 0.25 1 " + stamp(at(60*time.Second)), "http_410 410 1 0.25 1 " + stamp(at(41*time.Second)),
			"http_503 503 1 0.25 0 " + stamp(at(11*time.Second)), "http_5xx 500 1 0.25 0 " + stamp(at(time.Second))}
		columns := "error_class status_code failures share dead last_at"
		want(t, d.ask("failures", params()), columns, lines...)               // from the rows
		want(t, d.ask("failures", params("since", "47h")), columns, lines...) // from the rollup
		want(t, d.ask("failures", params("tenant", "dev")), columns, "http_503 503 1 0.5 0 "+stamp(at(11*time.Second)), "http_5xx 500 1 0.5 0 "+stamp(at(time.Second)))
		want(t, d.ask("failures", params("since", at(15*time.Second).Format(time.RFC3339), "tenant", "dev")), columns) // rows are exact
	})
	t.Run("pending", func(t *testing.T) {
		d := &db{t, d.conn}
		want(t, d.ask("pending", params()), "tenant_id endpoint_id pending first retry parked overdue next_retry_at oldest_accepted_at",
			"dev - 2 2 0 0 0 - "+stamp(at(30*time.Second)), "dev b 1 0 0 1 0 "+stamp(later)+" "+stamp(at(10*time.Second)))
		want(t, d.ask("pending", params("endpoint", "b")), "tenant_id endpoint_id pending", "dev b 1")
		want(t, d.ask("pending", params("tenant", "acme")), "tenant_id endpoint_id pending")
	})
	t.Run("trace", func(t *testing.T) {
		d := &db{t, d.conn}
		columns := "endpoint_id attempt outcome status_code error_class total_us next_retry_at"
		lines := []string{"a 1 retry 500 http_5xx 1000 " + stamp(at(3*time.Second)), "a 2 delivered 200 - 3000 -", "b 1 delivered 200 - 2000 -"}
		want(t, d.ask("trace", params("event_id", "evt_1")), columns, lines...)
		want(t, d.ask("trace", params("message_id", "m1", "tenant", "dev")), "event_id endpoint_id attempt", "evt_1 a 1", "evt_1 a 2", "evt_1 b 1", "evt_6 a 1")
		want(t, d.ask("trace", params("message_id", "m1")), "tenant_id event_id endpoint_id", "dev evt_1 a", "dev evt_1 a", "dev evt_1 b", "acme evt_5 z", "dev evt_6 a")
		want(t, d.ask("trace", params("event_id", "evt_404")), columns)
		r := d.ask("trace", params("message_id", "m1", "limit", "2"))
		if !r.Truncated || len(r.Rows) != 2 {
			t.Errorf("%d rows, truncated %v", len(r.Rows), r.Truncated)
		}
		if r = d.ask("trace", params("event_id", "evt_1", "limit", "3")); r.Truncated {
			t.Error("all rows are there, and it says truncated")
		}
	})
	t.Run("others", func(t *testing.T) { others(t, &db{t, d.conn}) })
	t.Run("a row that was inserted again counts once", func(t *testing.T) {
		d := &db{t, d.conn}
		d.attempts(7, row{event: "evt_6", message: "m1", tenant: "dev", endpoint: "a", accepted: at(time.Hour + 5*time.Second), at: at(time.Hour + 6*time.Second),
			attempt: 1, outcome: "delivered", status: 200, deliveries: 2, totalUs: 4000})
		want(t, d.ask("trace", params("event_id", "evt_6")), "endpoint_id attempt", "a 1")
		want(t, d.ask("audit", params()), "topic partition first_offset last_offset rows repeats missing", "attempts 0 0 12 14 1 0", "events 0 0 8 9 0 0")
		f, err := d.reporter().Lookup(t.Context(), Subject{EventID: "evt_6"})
		if err != nil || len(f.Events) != 1 || f.Events[0].Deliveries[0].Attempts != 1 {
			t.Errorf("%+v %v", f, err)
		}
	})
	t.Run("values are never SQL", func(t *testing.T) {
		d := &db{t, d.conn}
		ids := []string{`'`, `\`, `\'`, `';DROP`, `{a:String}`, `--`, `\n`, `%27`, `"`, `m1'OR'1'='1`, `\N`, `\\N`}
		var rows []row
		for _, id := range ids {
			rows = append(rows, row{event: "evt_q", message: id, tenant: "quote", endpoint: "a", accepted: at(0), at: at(time.Second), attempt: 1, outcome: "delivered", deliveries: 1})
		}
		d.attempts(1000, rows...)
		for _, id := range ids {
			want(t, d.ask("trace", params("message_id", id)), "message_id", id)
		}
	})
}

// What was due within the lag is not overdue: its outcome may only not be here yet.
func TestOverdueCountsFromTheLag(t *testing.T) {
	d := open(t).migrate()
	due := time.Now().UTC().Add(-5 * time.Minute)
	d.events(0, row{event: "evt_1", message: "m", tenant: "dev", accepted: at(0)})
	d.attempts(0, row{event: "evt_1", message: "m", tenant: "dev", endpoint: "a", accepted: at(0), at: at(time.Second), attempt: 1, outcome: "retry", deliveries: 1, next: due})
	for lag, overdue := range map[time.Duration]string{0: "1", time.Minute: "1", 10 * time.Minute: "0"} {
		q, err := Parse("pending", params(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		r, err := New(Deps{Conn: d.conn, Lag: func(context.Context) (time.Duration, error) { return lag, nil }}).Run(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		want(t, r, "endpoint_id retry overdue", "a 1 "+overdue)
	}
}

// A record that was forwarded to its partition, and a repeat, leave a row that says dropped: it
// ends nothing and has a sequence that no delivery carries.
func TestDroppedEndsNothing(t *testing.T) {
	d := open(t).migrate()
	e := func(id string) row { return row{event: id, message: id, tenant: "dev", accepted: at(0)} }
	ruled := func(id, outcome string, sequence int) row {
		r := e(id)
		r.at, r.outcome, r.sequence = at(time.Second), outcome, sequence
		return r
	}
	moved, both, repeated, done := e("evt_moved"), e("evt_both"), e("evt_repeated"), ruled("evt_done", "delivered", 5)
	done.endpoint, done.attempt, done.deliveries = "a", 1, 1
	d.events(0, moved, both, both, repeated, e("evt_done"), e("evt_done"), e("evt_unrouted"))
	d.attempts(0, ruled("evt_moved", "dropped", 9), // its copy has not come yet: nothing of this record is owed
		ruled("evt_both", "dropped", 9),     // its copy waits for its first attempt
		ruled("evt_repeated", "dropped", 9), // of an event before the window
		done, ruled("evt_done", "dropped", 9), ruled("evt_unrouted", "unrouted", 7))
	want(t, d.ask("pending", params()), "tenant_id endpoint_id pending first", "dev - 1 1")
	for id, want := range map[string]string{"evt_both": "received 0", "evt_done": "delivered 5", "evt_unrouted": "unrouted 7"} {
		f, err := d.reporter().Lookup(t.Context(), Subject{Tenant: "dev", EventID: id})
		if err != nil || len(f.Events) != 1 {
			t.Fatalf("%s: %+v %v", id, f, err)
		}
		if got := fmt.Sprint(f.Events[0].State, " ", f.Events[0].Sequence); got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
}

// empty asks everything of tables without rows.
func empty(t *testing.T, d *db) {
	for _, name := range Names() {
		v := params()
		if name == "trace" {
			v.Set("event_id", "evt_1")
		}
		r := d.ask(name, v)
		if len(r.Rows) != 0 || r.Truncated {
			t.Errorf("%s has %d rows", name, len(r.Rows))
		}
		raw, err := json.Marshal(r)
		if err != nil || !bytes.HasSuffix(raw, []byte(`"rows":[]}`)) {
			t.Errorf("%s %v", raw, err)
		}
	}
	f, err := d.reporter().Lookup(t.Context(), Subject{Tenant: "dev", EventID: "evt_1"})
	if err != nil || len(f.Events) != 0 || f.Truncated {
		t.Errorf("%+v %v", f, err)
	}
}

func others(t *testing.T, d *db) {
	want(t, d.ask("latency", params("step", "1h")), "at attempts delivered max_ms", stamp(at(0))+" 8 5 7", stamp(at(time.Hour))+" 1 1 4")
	want(t, d.ask("latency", params("since", "100h", "endpoint", "c")), "attempts p50_ms p999_ms", "2 7 7") // from the rollup by hour
	want(t, d.ask("e2e", params("endpoint", "c")), "event_type delivered p50_ms", "message.sent 2 1007")
	want(t, d.ask("funnel", params("tenant", "dev")), "attempt delivered retried dead delivered_share_so_far", "1 5 2 0 0.833", "2 1 0 0 1")
	want(t, d.ask("top-failing", params("tenant", "dev")), "endpoint_id failures dead classes last_at",
		"a 1 0 http_5xx "+stamp(at(time.Second)), "b 1 0 http_503 "+stamp(at(11*time.Second)))
	want(t, d.ask("dead-letters", params("tenant", "acme")), "day dead first_attempts dead_per_million", stamp(base.Truncate(24*time.Hour))+" 1 1 1000000")
	want(t, d.ask("queue-wait", params("step", "1h", "endpoint", "c")), "attempts p50_ms p99_ms", "2 2 2")
	want(t, d.ask("phases", params("endpoint", "a")), "attempts reused_share total_ms", "4 0 3.25")
	want(t, d.ask("circuit", params()), "endpoint_id")
	want(t, d.ask("audit", params()), "topic partition first_offset last_offset rows repeats missing", "attempts 0 0 12 13 0 0", "events 0 0 8 9 0 0")
}

func TestCircuitRunsAndGaps(t *testing.T) {
	d := open(t).migrate()
	var rows []row
	for i, state := range strings.Fields("closed open open half_open closed open") {
		rows = append(rows, row{event: fmt.Sprint("evt_", i), message: "m", tenant: "dev", endpoint: "a", accepted: at(0), at: at(time.Duration(i) * time.Second),
			attempt: 1, outcome: "retry", circuit: state, deliveries: 1})
	}
	d.attempts(0, rows...)
	want(t, d.ask("circuit", params()), "circuit first_at last_at rows",
		"open "+stamp(at(5*time.Second))+" "+stamp(at(5*time.Second))+" 1",
		"half_open "+stamp(at(3*time.Second))+" "+stamp(at(3*time.Second))+" 1",
		"open "+stamp(at(time.Second))+" "+stamp(at(2*time.Second))+" 2")
	d.attempts(8, rows[0]) // 6 and 7 are lost
	want(t, d.ask("audit", params()), "first_offset last_offset rows missing", "0 8 7 2")
}

func TestFailuresOfAQuestion(t *testing.T) {
	d := open(t)
	q, err := Parse("health", params(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.reporter().Run(t.Context(), q); !errors.Is(err, ErrNoTables) {
		t.Errorf("without tables: %v", err)
	}
	many := d.reporter()
	many.settings["max_rows_to_group_by"] = 1000
	groups := &statement{text: "SELECT number FROM numbers(5000) GROUP BY number", args: map[string]any{}}
	if _, err := many.ask(t.Context(), groups); !errors.Is(err, ErrTooMuch) {
		t.Errorf("over a limit: %v", err)
	}
	write := &statement{text: "CREATE DATABASE other", args: map[string]any{}}
	if _, err := d.reporter().ask(t.Context(), write); err == nil || !strings.Contains(err.Error(), "164") { // READONLY
		t.Errorf("a write: %v", err)
	}
	r := New(Deps{Conn: dial(t, "http://127.0.0.1:1")})
	if _, err := r.Run(t.Context(), q); err == nil || errors.Is(err, ErrTooMuch) || errors.Is(err, ErrNoTables) {
		t.Errorf("away: %v", err)
	}
}

func TestLookup(t *testing.T) {
	d := open(t).migrate()
	d.sample()
	d.events(20, row{event: "evt_c", message: "mc", tenant: "dev", accepted: at(0)}, row{event: "evt_c", message: "mc", tenant: "dev", accepted: at(time.Second)})
	d.attempts(20, row{event: "evt_c", message: "mc", tenant: "dev", accepted: at(time.Second), at: at(2 * time.Second), outcome: "dead"}) // a conflict, the first is under way
	find := func(s Subject) *Found {
		t.Helper()
		f, err := d.reporter().Lookup(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	states := func(f *Found) string {
		var out []string
		for _, e := range f.Events {
			line := e.ID + "=" + e.State
			for _, v := range e.Deliveries {
				line += fmt.Sprintf(" %s:%s/%d/%d", v.EndpointID, v.State, v.Attempts, v.LastStatus)
			}
			out = append(out, line)
		}
		return strings.Join(out, "; ")
	}
	for subject, want := range map[Subject]string{
		{Tenant: "dev", MessageID: "m1"}:   "evt_1=delivered a:delivered/2/200 b:delivered/1/200; evt_6=delivering a:delivered/1/200",
		{Tenant: "acme", MessageID: "m1"}:  "evt_5=dead z:dead/1/410",
		{MessageID: "m1"}:                  "evt_1=delivered a:delivered/2/200 b:delivered/1/200; evt_5=dead z:dead/1/410; evt_6=delivering a:delivered/1/200",
		{Tenant: "acme", EventID: "evt_1"}: "",
		{Tenant: "dev", EventID: "evt_2"}:  "evt_2=delivering b:parked/1/503",
		{Tenant: "dev", EventID: "evt_3"}:  "evt_3=unrouted",
		{Tenant: "dev", EventID: "evt_4"}:  "evt_4=received",
		{Tenant: "dev", EventID: "evt_7"}:  "evt_7=delivered a:delivered/1/200",
		{Tenant: "dev", EventID: "evt_9"}:  "evt_9=delivered c:delivered/1/204",
		{Tenant: "dev", EventID: "evt_c"}:  "evt_c=dead",
		{Tenant: "dev", EventID: "evt_"}:   "",
	} {
		if got := states(find(subject)); got != want {
			t.Errorf("%+v:\n got %s\nwant %s", subject, got, want)
		}
	}
	f := find(Subject{Tenant: "dev", EventID: "evt_2"})
	if v := f.Events[0].Deliveries[0]; v.NextRetryAt == nil || !v.NextRetryAt.Equal(later) || !v.AcceptedAt.Equal(at(10*time.Second)) || v.LastErrorClass != "rate_limited" {
		t.Errorf("%+v", v)
	}
	if v := find(Subject{EventID: "evt_1"}).Events[0].Deliveries[0]; v.NextRetryAt != nil {
		t.Errorf("a delivered one waits: %+v", v)
	}
	raw, err := json.Marshal(f.Pull("m2"))
	wantJSON := `{"message_id":"m2","events":[{"id":"evt_2","event":"message.sent","accepted_at":"` + at(10*time.Second).Format(time.RFC3339) +
		`","sequence":1005,"state":"delivering","deliveries":[{"endpoint_id":"b","state":"parked","attempts":1,"last_status":503,"next_retry_at":"` +
		later.Format(time.RFC3339) + `"}]}],"as_of":"` + stamp(f.AsOf) + `","lag_seconds":1.235,"truncated":false}`
	if string(raw) != wantJSON || err != nil {
		t.Errorf("\n got %s %v\nwant %s", raw, err, wantJSON)
	}
	// More events than an answer takes: the newest are kept.
	var many []row
	for i := range MaxEvents + 5 {
		many = append(many, row{event: fmt.Sprintf("evt_m%04d", i), message: "many", tenant: "dev", accepted: at(time.Hour + time.Duration(i)*time.Millisecond)})
	}
	d.events(100, many...)
	f = find(Subject{Tenant: "dev", MessageID: "many"})
	if !f.Truncated || len(f.Events) != MaxEvents || f.Events[0].ID != "evt_m0005" || f.Events[MaxEvents-1].ID != "evt_m1004" {
		t.Errorf("%d events from %s to %s, truncated %v", len(f.Events), f.Events[0].ID, f.Events[len(f.Events)-1].ID, f.Truncated)
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	r := &Result{Report: "health", AsOf: time.Date(2026, 7, 19, 9, 15, 25, 123e6, time.UTC), Lag: 1200 * time.Millisecond, Columns: []string{"a", "share", "at", "n"},
		Rows: [][]any{{"x<y,\"", 0.98765, time.Date(2026, 7, 19, 9, 15, 25, 0, time.UTC), uint64(3)}, {"", nil, nil, int64(-1)}}}
	for f, want := range map[Format]string{
		JSON: `{"report":"health","as_of":"2026-07-19T09:15:25.123Z","lag_seconds":1.2,"truncated":false,"columns":["a","share","at","n"],"rows":[{"a":"x<y,\"","share":0.98765,"at":"2026-07-19T09:15:25.000Z","n":3},{"a":"","share":null,"at":null,"n":-1}]}` + "\n",
		CSV:  "a,share,at,n\n\"x<y,\"\"\",0.98765,2026-07-19T09:15:25.000Z,3\n,,,-1\n",
		Table: "A      SHARE  AT                        N\nx<y,\"  0.988  2026-07-19T09:15:25.000Z  3\n-      -      -                         -1\n" +
			"2 rows as of 2026-07-19T09:15:25.123Z, ClickHouse is 1.2 s behind\n",
	} {
		var b bytes.Buffer
		if err := r.Write(&b, f); err != nil || b.String() != want {
			t.Errorf("%s:\n got %q %v\nwant %q", f, b.String(), err, want)
		}
	}
	r.Lag, r.Truncated, r.Rows = -1, true, nil
	var back map[string]any
	if raw, err := json.Marshal(r); err != nil || json.Unmarshal(raw, &back) != nil || back["lag_seconds"] != nil || back["truncated"] != true || !reflect.DeepEqual(back["rows"], []any{}) {
		t.Errorf("%s %v", raw, err)
	}
}
