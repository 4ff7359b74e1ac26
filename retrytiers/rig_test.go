package retrytiers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

const (
	dueParts  = 3
	rigWithin = 90 * time.Second // a loaded machine, a real broker, a race build
)

// testLadder has slots of fractions of a second and spans 4 s.
func testLadder() tier.Ladder {
	l, err := tier.NewLadder([]tier.Step{
		{Suffix: "retry.a", Floor: 0, Width: 400 * time.Millisecond, Slots: 1, Shards: 2},
		{Suffix: "retry.b", Floor: 400 * time.Millisecond, Width: 400 * time.Millisecond, Slots: 3, Shards: 1},
		{Suffix: "retry.c", Floor: 1600 * time.Millisecond, Width: 800 * time.Millisecond, Slots: 3, Shards: 1},
	})
	if err != nil {
		panic(err)
	}
	return l
}

func testConfig() Config {
	c := DefaultConfig()
	c.Ladder = testLadder()
	return c
}

// rig is a broker with the topics of this room, a dispatcher's part in appending, and a
// reader of due.
type rig struct {
	t        *testing.T
	b        *brokertest.Broker
	producer *kgo.Client
	adm      *kadm.Client

	mu       sync.Mutex // guards arrivals, changed
	arrivals map[string][]*kgo.Record
	total    int
	changed  chan struct{} // closed and replaced when a record arrives
}

func newRig(t *testing.T) *rig {
	t.Parallel() // these tests mostly wait
	return rigOn(t, brokertest.Start(t))
}

func rigOn(t *testing.T, b *brokertest.Broker) *rig {
	b.CreateTopics(t, append(testLadder().Topics(), tier.DueTopic(dueParts), tier.DeadTopic(2))...)
	r := &rig{
		t: t, b: b,
		producer: b.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0)),
		arrivals: map[string][]*kgo.Record{}, changed: make(chan struct{}),
	}
	r.adm = kadm.NewClient(r.producer)
	consumer := b.Client(t,
		kgo.ConsumeTopics(b.Prefix+tier.DueSuffix),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100*time.Millisecond),
	)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.consume(ctx, consumer)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

func (r *rig) consume(ctx context.Context, consumer *kgo.Client) {
	for ctx.Err() == nil {
		fetches := consumer.PollFetches(ctx)
		r.mu.Lock()
		fetches.EachRecord(func(rec *kgo.Record) {
			id := idOf(rec.Headers)
			r.arrivals[id] = append(r.arrivals[id], rec)
			r.total++
		})
		if fetches.NumRecords() > 0 {
			close(r.changed)
			r.changed = make(chan struct{})
		}
		r.mu.Unlock()
	}
}

// append writes a record to the slot for delay, as a dispatcher does.
func (r *rig) append(rec *kgo.Record, delay time.Duration) {
	r.t.Helper()
	suffix, partition := testLadder().Place(delay, string(rec.Key))
	rec.Topic, rec.Partition = r.b.Prefix+suffix, partition
	if err := r.producer.ProduceSync(context.Background(), rec).FirstErr(); err != nil {
		r.t.Fatalf("append to %s/%d: %v", rec.Topic, partition, err)
	}
}

// place appends n deliveries "PREFIX-i" whose delays are given by delay, in one go.
func (r *rig) place(prefix string, n int, delay func(i int) time.Duration) []string {
	r.t.Helper()
	ids := make([]string, n)
	recs := make([]*kgo.Record, n)
	for i := range n {
		ids[i] = fmt.Sprintf("%s-%d", prefix, i)
		d := delay(i)
		recs[i] = newRecord(ids[i], time.Now().Add(d), int32(i%dueParts))
		suffix, partition := testLadder().Place(d, string(recs[i].Key))
		recs[i].Topic, recs[i].Partition = r.b.Prefix+suffix, partition
	}
	if err := r.producer.ProduceSync(context.Background(), recs...).FirstErr(); err != nil {
		r.t.Fatalf("append: %v", err)
	}
	return ids
}

// until waits until ok holds; it is asked again at each arrival and 20 times a second.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.NewTimer(rigWithin)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-deadline.C:
			r.t.Fatalf("waited %s in vain: %s", rigWithin, what)
		}
	}
}

func (r *rig) have(ids []string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, id := range ids {
		if len(r.arrivals[id]) > 0 {
			n++
		}
	}
	return n
}

// all waits for every id and returns how many came more than once.
func (r *rig) all(ids []string) (duplicates int) {
	r.t.Helper()
	r.until(fmt.Sprintf("%d deliveries in due", len(ids)), func() bool { return r.have(ids) == len(ids) })
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		duplicates += len(r.arrivals[id]) - 1
	}
	return duplicates
}

// lateness checks that nothing of ids was released early and returns how late each first
// release was: the record's timestamp is the instant at which it was given to the producer.
func (r *rig) lateness(ids []string) []time.Duration {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []time.Duration
	for _, id := range ids {
		for i, rec := range r.arrivals[id] {
			ticket, err := tier.DecodeTicket(rec.Headers)
			if err != nil {
				r.t.Fatalf("ticket of %s: %v", id, err)
			}
			late := rec.Timestamp.UnixMilli() - ticket.DueMs
			if late < 0 {
				r.t.Errorf("%s was released %d ms early", id, -late)
			}
			if i == 0 {
				out = append(out, time.Duration(late)*time.Millisecond)
			}
		}
	}
	slices.Sort(out)
	return out
}

// process is a running Mover.
type process struct {
	*Mover
	t    *testing.T
	stop context.CancelFunc
	done chan struct{}
	err  error // of Run, once done is closed
}

// start runs a Mover until the test ends or halt is called.
func (r *rig) start(cfg Config, opts ...kgo.Opt) *process {
	r.t.Helper()
	m, err := New(cfg, Deps{
		Kafka: append(slices.Clone(r.b.Opts), opts...), Prefix: r.b.Prefix, Metrics: prometheus.NewPedanticRegistry(),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{Mover: m, t: r.t, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = m.Run(ctx)
	}()
	r.t.Cleanup(func() { cancel(); <-p.done })
	return p
}

func (r *rig) ready(ps ...*process) {
	r.t.Helper()
	r.until("readiness", func() bool {
		for _, p := range ps {
			select {
			case <-p.done:
				r.t.Fatalf("Run ended: %v", p.err)
			default:
			}
			if p.Ready() != nil {
				return false
			}
		}
		return true
	})
}

// halt stops a Mover cleanly.
func (p *process) halt() {
	p.t.Helper()
	p.stop()
	<-p.done
	if p.err != nil {
		p.t.Errorf("Run ended with %v", p.err)
	}
}

// fails waits for Run to end by itself.
func (p *process) fails(within time.Duration) error {
	p.t.Helper()
	select {
	case <-p.done:
		if p.err == nil {
			p.err = errors.New("no error")
		}
		return p.err
	case <-time.After(within):
		p.t.Fatalf("Run still runs after %s", within)
		return nil
	}
}

// value reads a counter.
func value(c prometheus.Counter) float64 {
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		panic(err)
	}
	return m.GetCounter().GetValue()
}

// committed returns what the group has committed for a slot, -1 when nothing.
func (r *rig) committed(suffix string, partition int32) int64 {
	r.t.Helper()
	resp, err := r.adm.FetchOffsets(context.Background(), event.GroupName(r.b.Prefix, role))
	if err != nil {
		r.t.Fatal(err)
	}
	o, ok := resp.Lookup(r.b.Prefix+suffix, partition)
	if !ok {
		return -1
	}
	return o.At
}

// ends returns first and next offset of a slot.
func (r *rig) ends(suffix string, partition int32) (start, end int64) {
	r.t.Helper()
	ctx, topic := context.Background(), r.b.Prefix+suffix
	starts, err := r.adm.ListStartOffsets(ctx, topic)
	if err != nil {
		r.t.Fatal(err)
	}
	ends, err := r.adm.ListEndOffsets(ctx, topic)
	if err != nil {
		r.t.Fatal(err)
	}
	return starts[topic][partition].Offset, ends[topic][partition].Offset
}

// eachSlot calls fn for every slot of the test ladder.
func eachSlot(fn func(suffix string, partition int32)) {
	for _, topic := range testLadder().Topics() {
		for p := range topic.Partitions {
			fn(topic.Suffix, p)
		}
	}
}
