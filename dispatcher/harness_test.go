package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/ingest/event/scan"
	"github.com/hookline/hookline/retrytiers/tier"
)

const (
	patience   = 40 * time.Second
	testSecret = "whsec_AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
	testKey    = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
)

// rig is a broker with all topics and a receiver, for one test.
type rig struct {
	t     *testing.T
	b     *brokertest.Broker
	cl    *kgo.Client // manual partitions
	lanes int32
	ring  endpoint.Keyring
	recv  *receiver
	send  Sender // nil = posts to recv
	off   func(before, after *endpoint.Endpoint)
	log   *slog.Logger // nil = errors go to the test
}

// newRig lets the test run beside others: nearly all of their time is waiting.
func newRig(t *testing.T, lanes int32) *rig {
	t.Helper()
	t.Parallel()
	b := brokertest.Start(t)
	specs := append([]event.Topic{event.EventsTopic(lanes), attempt.Topic(2), endpoint.Topic()},
		tier.Topics(testLadder(t), lanes)...)
	b.CreateTopics(t, specs...)
	ring, err := endpoint.NewKeyring(testKey)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, b: b, lanes: lanes, ring: ring, recv: newReceiver(t)}
	r.cl = b.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	return r
}

// testLadder has few partitions: a real broker takes 30 ms to make each.
func testLadder(t *testing.T) tier.Ladder {
	t.Helper()
	l, err := tier.NewLadder([]tier.Step{
		{Suffix: "retry.15s", Width: 15 * time.Second, Slots: 1, Shards: 2},
		{Suffix: "retry.2m", Floor: 15 * time.Second, Width: 15 * time.Second, Slots: 3, Shards: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// endpoint stores an endpoint that points at the rig's receiver under /ID.
func (r *rig) endpoint(id string, change func(*endpoint.Endpoint)) {
	r.t.Helper()
	e := endpoint.Default()
	e.ID, e.Tenant, e.URL, e.Secret = id, "dev", r.recv.URL+"/"+id, testSecret
	if change != nil {
		change(&e)
	}
	value, err := endpoint.Seal(&e, r.ring)
	if err != nil {
		r.t.Fatal(err)
	}
	r.produce(&kgo.Record{Topic: r.topic(endpoint.Suffix), Key: []byte(id), Value: value})
}

func (r *rig) topic(suffix string) string { return r.b.Prefix + suffix }

func (r *rig) produce(recs ...*kgo.Record) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.cl.ProduceSync(ctx, recs...).FirstErr(); err != nil {
		r.t.Fatalf("produce: %v", err)
	}
}

// publish writes an event as ingest would and returns it.
func (r *rig) publish(messageID string, change func(*event.Event)) event.Event {
	r.t.Helper()
	ev := event.Event{
		ID: event.NewID(), Type: "message.delivered", Source: "/hookline/dev", MessageID: messageID, Tenant: "dev",
		Schema: "1", AcceptedMs: time.Now().UnixMilli(), ContentType: "application/json", Sequence: -1,
		Body: fmt.Appendf(nil, `{"event":"message.delivered", "message_id":%q,"big":9007199254740993}`, messageID),
	}
	if change != nil {
		change(&ev)
	}
	r.produce(&kgo.Record{
		Topic: r.topic(event.EventsSuffix), Partition: event.Partition(messageID, r.lanes),
		Key: []byte(messageID), Value: ev.Body, Headers: ev.Headers(nil),
	})
	return ev
}

// due writes a copy of an event that has come due, as the retry tiers would.
func (r *rig) due(ev *event.Event, t tier.Ticket) {
	r.t.Helper()
	r.produce(&kgo.Record{
		Topic: r.topic(tier.DueSuffix), Partition: t.Orig.Partition,
		Key: []byte(ev.MessageID), Value: ev.Body, Headers: t.AppendHeaders(ev.Headers(nil)),
	})
}

// process is a dispatcher that runs; kill cuts it from the broker as a dead machine would be.
type process struct {
	*Dispatcher
	cut  *cutter
	stop context.CancelFunc
	done chan error
}

func (r *rig) start(instance string, change func(*Config)) *process {
	r.t.Helper()
	cfg := DefaultConfig()
	cfg.Ladder = testLadder(r.t)
	cfg.EndpointInFlight = 1000 // what an endpoint is given is its max_in_flight alone
	cfg.InstanceID, cfg.Worker, cfg.Keyring = instance, "w-"+instance, r.ring
	cfg.EgressAllow, cfg.EgressHTTP = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, true
	if change != nil {
		change(&cfg)
	}
	log := r.log
	if log == nil {
		log = testLog(r.t)
	}
	p := &process{cut: &cutter{}, done: make(chan error, 1)}
	d, err := New(cfg, Deps{
		Kafka:  append(append([]kgo.Opt{}, r.b.Opts...), kgo.Dialer(p.cut.dial)),
		Prefix: r.b.Prefix, Log: log, Metrics: prometheus.NewRegistry(),
		Sender: r.send,
		Disabled: func(_ context.Context, before, after *endpoint.Endpoint) error {
			if r.off != nil {
				r.off(before, after)
			}
			return nil
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	p.Dispatcher = d
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() { p.done <- d.Run(ctx) }()
	r.t.Cleanup(func() { cancel(); p.cut.kill() })
	return p
}

// end stops cleanly.
func (p *process) end(t *testing.T) {
	t.Helper()
	p.stop()
	select {
	case err := <-p.done:
		if err != nil {
			t.Fatalf("dispatcher ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("dispatcher does not stop")
	}
}

// cutter is a dialer whose connections can all be cut for good.
type cutter struct {
	mu    sync.Mutex
	dead  bool
	conns []net.Conn
}

var errCut = errors.New("cut from the broker")

func (c *cutter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	dead := c.dead
	c.mu.Unlock()
	if dead {
		return nil, errCut
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		_ = conn.Close()
		return nil, errCut
	}
	c.conns = append(c.conns, conn)
	return conn, nil
}

func (c *cutter) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// receiver records posts by path and answers as told.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	posts  []post
	answer func(p post) int
	more   chan struct{}
}

type post struct {
	path, id, attempt, sequence string
	header                      http.Header
	body                        string
	at                          time.Time
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{more: make(chan struct{}, 1)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return
		}
		p := post{
			path: q.URL.Path[1:], id: q.Header.Get("Webhook-Id"), attempt: q.Header.Get("Webhook-Attempt"),
			sequence: q.Header.Get("Webhook-Sequence"), header: q.Header.Clone(), body: string(body), at: time.Now(),
		}
		r.mu.Lock()
		r.posts = append(r.posts, p)
		answer := r.answer
		r.mu.Unlock()
		select {
		case r.more <- struct{}{}:
		default:
		}
		status := http.StatusOK
		if answer != nil {
			status = answer(p)
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answers(fn func(p post) int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = fn
}

func (r *receiver) all() []post {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]post(nil), r.posts...)
}

// wait blocks until n posts came in and returns them.
func (r *receiver) wait(t *testing.T, n int) []post {
	t.Helper()
	deadline := time.After(patience)
	for {
		if posts := r.all(); len(posts) >= n {
			return posts
		}
		select {
		case <-r.more:
		case <-deadline:
			t.Fatalf("%d posts arrived, want %d", len(r.all()), n)
		}
	}
}

// eventually polls until ok, for state that only the broker holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s does not come true", what)
		}
	}
}

// read returns all records of a topic as of now.
func (r *rig) read(suffix string) []*kgo.Record {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	topic := r.topic(suffix)
	listed, err := kadm.NewClient(r.cl).ListTopics(ctx, topic)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []*kgo.Record
	for p := range int32(len(listed[topic].Partitions)) {
		from, err := scan.Start(ctx, r.cl, topic, p)
		if err != nil {
			r.t.Fatal(err)
		}
		end, err := scan.End(ctx, r.cl, topic, p, false)
		if err != nil {
			r.t.Fatal(err)
		}
		_, err = scan.Range(ctx, r.cl, scan.Spec{Topic: topic, Partition: p, From: from, Until: end}, func(rec *kgo.Record) error {
			out = append(out, rec)
			return nil
		})
		if err != nil {
			r.t.Fatal(err)
		}
	}
	return out
}

// rowsOf returns all attempt records.
func (r *rig) rowsOf() []attempt.Record {
	r.t.Helper()
	var out []attempt.Record
	for _, rec := range r.read(attempt.Suffix) {
		var row attempt.Record
		if err := attempt.Decode(rec.Value, &row); err != nil {
			r.t.Fatalf("attempt record: %v", err)
		}
		out = append(out, row)
	}
	return out
}

// copies returns all records in the retry topics.
func (r *rig) copies() []*kgo.Record {
	var out []*kgo.Record
	for _, step := range testLadder(r.t).Steps() {
		out = append(out, r.read(step.Suffix)...)
	}
	return out
}

// committed returns the group's offset of one partition.
func (r *rig) committed(suffix string, partition int32) int64 {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	all, err := kadm.NewClient(r.cl).FetchOffsets(ctx, event.GroupName(r.b.Prefix, "dispatcher"))
	if errors.Is(err, kerr.GroupIDNotFound) {
		return -1
	}
	if err != nil {
		r.t.Fatal(err)
	}
	o, ok := all.Lookup(r.topic(suffix), partition)
	if !ok {
		return -1
	}
	return o.At
}

func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelError}))
}

// testWriter drops what is logged after the test: a client may still say goodbye.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	defer func() { _ = recover() }()
	w.t.Logf("%s", b)
	return len(b), nil
}

func (r *rig) topicID(suffix string) [16]byte {
	r.t.Helper()
	listed, err := kadm.NewClient(r.cl).ListTopics(context.Background(), r.topic(suffix))
	if err != nil {
		r.t.Fatal(err)
	}
	return [16]byte(listed[r.topic(suffix)].ID)
}

// metricValue sums a counter of the room over its labels.
func metricValue(t *testing.T, p *process, name string) float64 {
	t.Helper()
	families, err := p.deps.Metrics.(*prometheus.Registry).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var sum float64
	for _, f := range families {
		if f.GetName() != "hookline_dispatcher_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}
