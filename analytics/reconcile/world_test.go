package reconcile

import (
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/analytics/clickhouse"
	"github.com/hookline/hookline/analytics/progress"
	"github.com/hookline/hookline/analytics/schema"
	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/deploy/local/enginetest"
	"github.com/hookline/hookline/ingest/event"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// world is a log of which only the offsets matter, and tables whose rows are put there as
// dispatchers and sink would.
type world struct {
	t      *testing.T
	client *kgo.Client
	adm    *kadm.Client
	prefix string
	conn   driver.Conn
	reg    *prometheus.Registry
	r      *Reconciler
	clock  time.Time
	next   map[int]int // next offset of events by partition
	rows   int         // next offset of attempts/0
}

// base is when the events of the tests are accepted: long enough ago to be over an hour old.
var base = time.Now().UTC().Truncate(time.Hour).Add(-30 * time.Minute)

func start(t *testing.T) *world {
	t.Helper()
	b := brokertest.Start(t)
	topic := func(suffix string, n int32) event.Topic {
		return event.Topic{Suffix: suffix, Partitions: n, Configs: map[string]string{}}
	}
	b.CreateTopics(t, topic("events", 3), topic("due", 3), topic("attempts", 2), topic("retry.15s", 2), topic("retry.1h", 1))
	cl, err := kgo.NewClient(append(append([]kgo.Opt{}, b.Opts...), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	w := &world{t: t, client: cl, adm: kadm.NewClient(cl), prefix: b.Prefix, reg: prometheus.NewRegistry(), clock: time.Now(), next: map[int]int{}}
	if w.conn, err = clickhouse.Open(enginetest.Start(t).DSN(), 4); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.conn.Close() })
	if _, err := schema.Migrate(t.Context(), w.conn, clickhouse.Database); err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.Events, cfg.Due, cfg.Attempts, cfg.Retry = b.Prefix+"events", b.Prefix+"due", b.Prefix+"attempts", []string{b.Prefix + "retry.15s", b.Prefix + "retry.1h"}
	cfg.Dispatcher, cfg.Movers, cfg.Analytics = b.Prefix+"dispatcher", b.Prefix+"retrytiers", b.Prefix+"analytics"
	cfg.AttemptsOf = func(p, n int32) int32 { return p % n }
	cfg.Wait, cfg.Grace, cfg.OpenEvery = 2*time.Second, time.Minute, 1
	w.r, err = New(cfg, Deps{Conn: w.conn, Offsets: progress.NewReader(w.adm, b.Opts), Metrics: w.reg, Now: func() time.Time { return w.clock }})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) exec(sql string) {
	w.t.Helper()
	if err := w.conn.Exec(w.t.Context(), sql); err != nil {
		w.t.Fatalf("%v in %s", err, sql)
	}
}

// grow appends n records without meaning.
func (w *world) grow(topic string, p int32, n int) {
	w.t.Helper()
	for range n {
		if err := w.client.ProduceSync(w.t.Context(), &kgo.Record{Topic: w.prefix + topic, Partition: p, Value: []byte("x")}).FirstErr(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// commit commits for a group.
func (w *world) commit(group, topic string, p int32, at int) {
	w.t.Helper()
	o := kadm.Offsets{}
	o.AddOffset(w.prefix+topic, p, int64(at), -1)
	if err := w.adm.CommitAllOffsets(w.t.Context(), w.prefix+group, o); err != nil {
		w.t.Fatal(err)
	}
}

// accepted puts an event into the log and its row into ClickHouse, and lets dispatcher and
// sink commit it.
func (w *world) accepted(id string, p int, after time.Duration) time.Time {
	w.t.Helper()
	at := base.Add(after)
	w.eventRow(id, p, w.next[p], at)
	w.next[p]++
	w.grow("events", int32(p), 1)
	w.commit("dispatcher", "events", int32(p), w.next[p])
	w.commit("analytics", "events", int32(p), w.next[p])
	return at
}

func (w *world) eventRow(id string, p, offset int, at time.Time) {
	w.t.Helper()
	b, err := w.conn.PrepareBatch(w.t.Context(), "INSERT INTO hookline.events (accepted_at, occurred_at, tenant_id, event_type, event_id, message_id, src_partition, src_offset)")
	if err == nil {
		err = b.Append(at, at, "dev", "message.sent", id, "m", uint16(p), uint64(offset))
	}
	if err == nil {
		err = b.Send()
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// row is an attempt record of an event of partition 0 or 2 (attempts/0), or 1 (attempts/1).
type row struct {
	id, endpoint, outcome, trigger string
	accepted, waits                time.Time
	owed, attempt, part            int
}

// told writes an attempt record, into the log and into ClickHouse.
func (w *world) told(r row) {
	w.t.Helper()
	w.rowAt(r, w.rows)
	w.rows++
	w.grow("attempts", int32(r.part), 1)
	w.commit("analytics", "attempts", int32(r.part), w.rows)
}

func (w *world) rowAt(r row, offset int) {
	w.t.Helper()
	waits := r.waits
	if waits.IsZero() {
		waits = time.UnixMilli(0)
	}
	if r.trigger == "" {
		r.trigger = "auto"
	}
	b, err := w.conn.PrepareBatch(w.t.Context(), `INSERT INTO hookline.attempts (attempted_at, occurred_at, accepted_at, tenant_id, endpoint_id, event_type, event_id, message_id,
		attempt, deliveries, trigger, outcome, circuit, next_retry_at, src_partition, src_offset)`)
	if err == nil {
		err = b.Append(r.accepted.Add(time.Second), r.accepted, r.accepted, "dev", r.endpoint, "message.sent", r.id, "m", uint16(r.attempt), uint16(r.owed), r.trigger, r.outcome, "closed",
			waits, uint16(r.part), uint64(offset))
	}
	if err == nil {
		err = b.Send()
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// round counts and compares.
func (w *world) round(what string, want Sums) {
	w.t.Helper()
	totals, err := w.r.Round(w.t.Context())
	if err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
	if totals.All != want {
		w.t.Errorf("%s:\n got %+v\nwant %+v", what, totals.All, want)
	}
	if s := totals.All; s.Accepted != s.Delivered+s.Dead+s.Unrouted+s.Dropped+s.Pending+s.Unaccounted {
		w.t.Errorf("%s: %+v do not add up", what, s)
	}
	if got := w.gauge("hookline_analytics_unaccounted_deliveries"); got != float64(want.Unaccounted) {
		w.t.Errorf("%s: the metric says %g", what, got)
	}
}

// gauge sums a metric over its labels.
func (w *world) gauge(name string) float64 {
	w.t.Helper()
	families, err := w.reg.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	var sum float64
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
