package analytics

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/analytics/clickhouse"
	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/deploy/local/enginetest"
	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		os.Exit(childMain(os.Args[2:]))
	}
	enginetest.Main(m)
}

const (
	attemptsN = 4
	eventsN   = 3
	deadN     = 2
)

// waitLimit bounds what a test waits for; nothing healthy needs it.
const waitLimit = 2 * 60 * time.Second

// rig is a broker with the three topics and an engine.
type rig struct {
	t      testing.TB
	broker *brokertest.Broker
	engine *enginetest.Engine
	client *kgo.Client
	conn   driver.Conn
	db     string
}

// newRig makes a rig over an engine that others use too, in a database of its own.
func newRig(t testing.TB, e *enginetest.Engine) *rig {
	t.Helper()
	r := &rig{t: t, broker: brokertest.Start(t), engine: e, db: "hookline_" + strings.ToLower(crand.Text()[:8])}
	r.broker.CreateTopics(t, attempt.Topic(attemptsN), event.EventsTopic(eventsN), tier.DeadTopic(deadN), tier.ControlTopic())
	r.client = r.broker.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	r.conn = r.open()
	return r
}

// open makes a connection pool to the engine.
func (r *rig) open() driver.Conn {
	r.t.Helper()
	conn, err := clickhouse.Open(r.engine.DSN(), 6)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			r.t.Error(err)
		}
	})
	return conn
}

// testConfig is quick: small batches, short pauses.
func testConfig() Config {
	cfg := DefaultConfig()
	cfg.LingerMin, cfg.LingerMax = 100*time.Millisecond, 400*time.Millisecond
	cfg.RetryMin, cfg.RetryMax = 20*time.Millisecond, 500*time.Millisecond
	cfg.BatchRows = 500
	cfg.InsertRate = 1000
	return cfg
}

// running is a sink that runs.
type running struct {
	*Sink
	reg  *prometheus.Registry
	stop context.CancelFunc
	done chan error
}

// start runs a sink until the test ends or end is called.
func (r *rig) start(change func(*Config, *Sink)) *running {
	r.t.Helper()
	cfg := testConfig()
	cfg.Database = r.db
	if change != nil {
		change(&cfg, nil)
	}
	reg := prometheus.NewRegistry()
	s, err := New(cfg, Deps{OnlyTenant: func() string { return "t1" },
		Kafka: r.broker.Opts, Prefix: r.broker.Prefix, Metrics: reg, ClickHouse: r.conn,
		Log: slog.New(slog.NewTextHandler(r.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if change != nil {
		change(&cfg, s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	run := &running{Sink: s, reg: reg, stop: cancel, done: make(chan error, 1)}
	go func() { run.done <- s.Run(ctx) }()
	r.t.Cleanup(func() { run.end(r.t) })
	return run
}

var errEnded = fmt.Errorf("ended before")

// end stops a sink and waits for it.
func (run *running) end(t testing.TB) {
	t.Helper()
	run.stop()
	select {
	case err := <-run.done:
		if err != nil && err != errEnded { //nolint:errorlint // our own value
			t.Errorf("sink: %v", err)
		}
		run.done <- errEnded
	case <-time.After(waitLimit):
		t.Fatal("the sink does not end")
	}
}

// metric is the sum of a metric over its labels.
func (run *running) metric(t testing.TB, name string) (sum float64) {
	t.Helper()
	families, err := run.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "hookline_analytics_"+name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(waitLimit)
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("waited %s for %s", waitLimit, what)
		case <-tick.C:
		}
	}
}

// testRow makes a row of no meaning but a possible one.
func testRow(rng *rand.Rand, i int) attempt.Record {
	at := time.Now().UnixMilli() - rng.Int64N(3*3600*1000)
	r := attempt.Record{
		AttemptedMs: at, OccurredMs: at - rng.Int64N(5000), AcceptedMs: at - rng.Int64N(1000),
		Tenant: fmt.Sprintf("t%d", rng.IntN(3)), Endpoint: fmt.Sprintf("ep-%d", rng.IntN(7)), EventType: []string{"message.sent", "message.read"}[rng.IntN(2)],
		EventID: fmt.Sprintf("evt_u%020d", i), MessageID: fmt.Sprintf("msg-%d", i/3), Worker: "w1", Sequence: uint64(i),
		Attempt: uint16(1 + rng.IntN(3)), MaxAttempts: 16, Deliveries: 1, Trigger: attempt.Auto, Circuit: attempt.Closed,
		Outcome: attempt.Outcome(1 + rng.IntN(6)), StatusCode: 200, QueueWaitUs: uint64(rng.IntN(5000)), TTFBUs: 5, TotalUs: uint32(rng.IntN(100_000)),
		ConnReused: true, HTTPVersion: "1.1", RequestBytes: uint32(rng.IntN(900)), ResponseBytes: 2,
	}
	switch r.Outcome {
	case attempt.Delivered:
	case attempt.Unrouted:
		r.Endpoint, r.Attempt, r.StatusCode = "", 0, 0
	default:
		r.StatusCode, r.ErrorClass = 503, attempt.HTTP503
	}
	return r
}

// attempts produces n rows over all partitions.
func (r *rig) attempts(seed uint64, n int) {
	r.t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	recs := make([]*kgo.Record, 0, n)
	for i := range n {
		row := testRow(rng, int(seed)*1_000_000+i)
		recs = append(recs, &kgo.Record{
			Topic: r.broker.Prefix + attempt.Suffix, Partition: int32(rng.IntN(attemptsN)), Key: []byte(row.EventID), Value: attempt.AppendRecord(nil, &row),
		})
	}
	for len(recs) > 0 {
		n := min(len(recs), 5000)
		r.produce(recs[:n]...)
		recs = recs[n:]
	}
}

// events produces n accepted events.
func (r *rig) events(seed, n int) {
	r.t.Helper()
	recs := make([]*kgo.Record, 0, n)
	for i := range n {
		e := event.Event{
			ID: fmt.Sprintf("evt_u%d-%d", seed, i), Type: "message.sent", Source: event.PublishSource("t1"), MessageID: fmt.Sprintf("m%d", i),
			Tenant: "t1", Schema: "1", AcceptedMs: time.Now().UnixMilli(), Sequence: -1, Body: []byte(`{"secret":"of the customer"}`),
		}
		recs = append(recs, &kgo.Record{
			Topic: r.broker.Prefix + event.EventsSuffix, Partition: int32(i % eventsN), Key: e.Key(), Value: e.Body, Headers: e.Headers(nil),
		})
	}
	r.produce(recs...)
}

func (r *rig) produce(recs ...*kgo.Record) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	if err := r.client.ProduceSync(ctx, recs...).FirstErr(); err != nil {
		r.t.Fatal(err)
	}
}

// log returns all records of a topic.
func (r *rig) log(suffix string) (out []*kgo.Record) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	topic := r.broker.Prefix + suffix
	adm := kadm.NewClient(r.client)
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err != nil {
		r.t.Fatal(err)
	}
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err != nil {
		r.t.Fatal(err)
	}
	left := 0
	ends.Each(func(o kadm.ListedOffset) {
		if s, ok := starts.Lookup(topic, o.Partition); ok && o.Offset > s.Offset {
			left++
		}
	})
	cl := r.broker.Client(r.t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for left > 0 {
		f := cl.PollFetches(ctx)
		if err := f.Err0(); err != nil {
			r.t.Fatal(err)
		}
		f.EachRecord(func(rec *kgo.Record) {
			out = append(out, rec)
			if o, ok := ends.Lookup(topic, rec.Partition); ok && rec.Offset == o.Offset-1 {
				left--
			}
		})
	}
	return out
}

// scalar asks for one number; -1 while it cannot be told.
func (r *rig) scalar(sql string) int64 {
	var n int64
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.conn.QueryRow(ctx, "SELECT toInt64("+sql+")").Scan(&n); err != nil {
		return -1
	}
	return n
}

// committed returns what the group has committed of a topic.
func (r *rig) committed(suffix string) map[int32]kadm.Offset {
	r.t.Helper()
	resp, err := kadm.NewClient(r.client).FetchOffsets(context.Background(), event.GroupName(r.broker.Prefix, role))
	out := make(map[int32]kadm.Offset)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return out
	}
	if err != nil {
		r.t.Fatal(err)
	}
	for p, o := range resp[r.broker.Prefix+suffix] {
		out[p] = o.Offset
	}
	return out
}

// drained waits until everything of a topic is committed.
func (r *rig) drained(suffix string) {
	r.t.Helper()
	adm := kadm.NewClient(r.client)
	eventually(r.t, suffix+" to be drained", func() bool {
		ends, err := adm.ListEndOffsets(context.Background(), r.broker.Prefix+suffix)
		if err != nil {
			return false
		}
		at := r.committed(suffix)
		all := true
		ends.Each(func(o kadm.ListedOffset) { all = all && (o.Offset == 0 || at[o.Partition].At == o.Offset) })
		return all
	})
}
