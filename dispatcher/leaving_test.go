package dispatcher

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/dispatcher/ledger"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

// senderFunc is a Sender for tests that post nothing.
type senderFunc func(ctx context.Context, req *Request) Result

func (f senderFunc) Send(ctx context.Context, req *Request) Result { return f(ctx, req) }

// TestASlotTooOldForAnAttemptParks: the attempt of a delivery that waited for its permit
// would end beyond the slot's deadline.
func TestASlotTooOldForAnAttemptParks(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("e", nil)
	entered, release := make(chan struct{}, 10), make(chan struct{})
	r.send = senderFunc(func(context.Context, *Request) Result {
		entered <- struct{}{}
		<-release
		return Result{Status: http.StatusOK}
	})
	p := r.start("a", func(c *Config) { c.InFlight = 1 })
	r.publish("m-1", nil)
	<-entered
	r.publish("m-2", nil) // waits for the permit
	lane := p.partition(0)
	eventually(t, "its slot", func() bool {
		lane.mu.Lock()
		defer lane.mu.Unlock()
		sl := lane.fresh.slots[1]
		if sl != nil {
			sl.read = sl.read.Add(-slotDeadline)
		}
		return sl != nil
	})
	close(release)
	eventually(t, "commit", func() bool { return r.committed(event.EventsSuffix, 0) == 2 })
	copies := r.copies()
	if len(copies) != 1 {
		t.Fatalf("%d copies, want 1", len(copies))
	}
	if tk, err := tier.DecodeTicket(copies[0].Headers); err != nil || tk.Attempt != 0 || tk.Parks != 1 {
		t.Errorf("ticket %+v: %v", tk, err)
	}
	if !slices.ContainsFunc(r.rowsOf(), func(row attempt.Record) bool { return row.Outcome == attempt.Parked }) {
		t.Error("no row tells of the park")
	}
	p.end(t)
	if n := len(entered); n != 0 {
		t.Errorf("%d attempts beyond the deadline", n)
	}
}

// TestADeliveryOlderThanItsMaxAgeDies, for an endpoint that works and for one that is
// disabled and would park it.
func TestADeliveryOlderThanItsMaxAgeDies(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("on", nil)
	r.endpoint("off", func(e *endpoint.Endpoint) { e.Enabled = false })
	p := r.start("a", nil)
	now := time.Now()
	for _, id := range []string{"on", "off"} {
		ev := event.Event{
			ID: event.NewID(), Type: "message.x", Source: "/s", MessageID: "m", Tenant: "dev", Schema: "1",
			AcceptedMs: now.UnixMilli(), Sequence: -1, Body: []byte(`{}`),
		}
		first := now.Add(-time.Duration(endpoint.Default().Retry.MaxAge))
		r.due(&ev, tier.Ticket{Endpoint: id, Attempt: 3, DueMs: now.UnixMilli(), FirstMs: first.UnixMilli()})
	}
	eventually(t, "commit", func() bool { return r.committed(tier.DueSuffix, 0) == 2 })
	letters := r.read(tier.DeadSuffix)
	if len(letters) != 2 {
		t.Fatalf("%d dead letters, want 2", len(letters))
	}
	for _, rec := range letters {
		if l := tier.DecodeDead(rec); l.Reason != tier.Expired || l.Attempts != 3 {
			t.Errorf("dead letter %+v", l)
		}
	}
	p.end(t)
	if posts, copies := len(r.recv.all()), len(r.copies()); posts != 0 || copies != 0 {
		t.Errorf("%d posts and %d copies of what is too old", posts, copies)
	}
}

// refuse makes the broker answer MESSAGE_TOO_LARGE to a produce for a topic whose batch is
// larger than limit.
func (r *rig) refuse(fake *kfake.Cluster, limits map[string]int) {
	by := map[[16]byte]int{}
	for suffix, limit := range limits {
		by[r.topicID(suffix)] = limit
	}
	fake.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		in := req.(*kmsg.ProduceRequest)
		resp := in.ResponseKind().(*kmsg.ProduceResponse)
		hit := false
		for _, tp := range in.Topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = tp.Topic, tp.TopicID
			limit, limited := by[tp.TopicID]
			for _, p := range tp.Partitions {
				hit = hit || limited && len(p.Records) > limit
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, kerr.MessageTooLarge.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		if !hit {
			return nil, nil, false
		}
		return resp, nil, true
	})
}

// TestACopyThatTheBrokerRefusesForItsSizeBecomesADeadLetter, with its body if dead takes it,
// else without.
func TestACopyThatTheBrokerRefusesForItsSizeBecomesADeadLetter(t *testing.T) {
	for name, deadTakes := range map[string]int{"whole": 1 << 20, "without body": 4096} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			fake := r.b.Fake()
			if fake == nil {
				t.Log("fault injection needs the embedded broker")
				return
			}
			r.endpoint("e", nil)
			r.send = senderFunc(func(context.Context, *Request) Result { return Result{Status: 500} })
			body := make([]byte, 16<<10)
			rng := rand.New(rand.NewPCG(1, 2)) // no compressor makes it small
			for i := range body {
				body[i] = byte(rng.Uint32())
			}
			r.refuse(fake, map[string]int{"retry.15s": 0, tier.DeadSuffix: deadTakes})
			p := r.start("a", nil)
			ev := r.publish("m", func(ev *event.Event) { ev.Body = body })
			eventually(t, "commit", func() bool { return r.committed(event.EventsSuffix, 0) == 1 })
			letters := r.read(tier.DeadSuffix)
			if len(letters) != 1 || len(r.copies()) != 0 {
				t.Fatalf("%d dead letters, %d copies", len(letters), len(r.copies()))
			}
			l := tier.DecodeDead(letters[0])
			if l.Reason != tier.TooLarge || l.EventID != ev.ID || l.EndpointID != "e" || l.Attempts != 1 || l.Ticket.Orig.Offset != 0 {
				t.Errorf("dead letter %+v", l)
			}
			if whole := bytes.Equal(l.Value, body); whole != (name == "whole") || !whole && l.Value != nil {
				t.Errorf("the letter has %d bytes", len(l.Value))
			}
			rows := r.rowsOf()
			if len(rows) != 1 || rows[0].Outcome != attempt.Dead || rows[0].Reason != string(tier.TooLarge) || rows[0].NextRetryMs != 0 {
				t.Errorf("rows %+v", rows)
			}
			p.end(t)
		})
	}
}

// TestPoisonThatIsTooLargeForDeadDoesNotHoldItsLane: all of it may be what is too large, the
// key as well.
func TestPoisonThatIsTooLargeForDeadDoesNotHoldItsLane(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("e", nil)
	big := r.b.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(1<<20))
	key := bytes.Repeat([]byte("k"), 1_000_100)
	if err := big.ProduceSync(context.Background(), &kgo.Record{Topic: r.topic(event.EventsSuffix), Key: key}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	p := r.start("a", nil)
	r.publish("m", nil)
	eventually(t, "commit", func() bool { return r.committed(event.EventsSuffix, 0) == 2 })
	letters := r.read(tier.DeadSuffix)
	if len(letters) != 1 {
		t.Fatalf("%d dead letters, want 1", len(letters))
	}
	if l := tier.DecodeDead(letters[0]); l.Reason != tier.Poison || l.LastError == "" {
		t.Errorf("dead letter %+v", l)
	}
	p.end(t)
}

// TestPoisonIsBuriedOnceAndNotByForeignMarks: a row about poison marks it, and a row about
// another record at the same offset does not.
func TestPoisonIsBuriedOnceAndNotByForeignMarks(t *testing.T) {
	r := newRig(t, 1)
	for range 2 {
		r.produce(&kgo.Record{Topic: r.topic(event.EventsSuffix), Value: []byte("no event")})
		ev := event.Event{
			ID: event.NewID(), Type: "message.x", Source: "/s", MessageID: "m", Tenant: "dev", Schema: "1",
			AcceptedMs: time.Now().UnixMilli(), Sequence: -1, Body: []byte(`{}`),
		}
		r.produce(&kgo.Record{Topic: r.topic(tier.DueSuffix), Key: []byte("m"), Value: []byte("no ticket"), Headers: ev.Headers(nil)})
	}
	for _, source := range []attempt.SourceTopic{attempt.SourceEvents, attempt.SourceDue} {
		for offset, id := range []string{"", "evt_other"} {
			row := attempt.Record{
				EventID: id, Outcome: attempt.Dead,
				Position: attempt.Position{Topic: source, Partition: 0, Offset: int64(offset)},
			}
			r.produce(&kgo.Record{Topic: r.topic(attempt.Suffix), Value: attempt.AppendRecord(nil, &row)})
		}
	}
	r.commitAs(context.Background(), event.EventsSuffix, 0, 0, ledger.Metadata{Attempts: 0})
	r.commitAs(context.Background(), tier.DueSuffix, 0, 0, ledger.Metadata{Attempts: 0})
	p := r.start("a", nil)
	eventually(t, "both committed", func() bool {
		return r.committed(event.EventsSuffix, 0) == 2 && r.committed(tier.DueSuffix, 0) == 2
	})
	p.end(t)
	perTopic := map[string]int{}
	for _, rec := range r.read(tier.DeadSuffix) {
		why := tier.DecodeDead(rec).LastError
		if !strings.Contains(why, "/0 at 1:") {
			t.Errorf("buried again: %s", why)
		}
		perTopic[strings.SplitN(why, "/", 2)[0]]++
	}
	if perTopic[r.topic(event.EventsSuffix)] != 1 || perTopic[r.topic(tier.DueSuffix)] != 1 {
		t.Errorf("dead letters %v, want the second record of each topic", perTopic)
	}
}

// TestMarksOfAnEventThatWaitsForItsWindowAreKept kills two owners in a row, the second one
// while a keyed event still waits for the idempotency window.
func TestMarksOfAnEventThatWaitsForItsWindowAreKept(t *testing.T) {
	r := newRig(t, 1)
	fake := r.b.Fake()
	if fake == nil {
		t.Log("fault injection needs the embedded broker")
		return
	}
	r.endpoint("done", nil)
	r.endpoint("open", nil)
	var mu sync.Mutex
	sent := map[string]int{}
	id := event.DeriveID("dev", "message.delivered", "m", "key")
	r.send = senderFunc(func(_ context.Context, req *Request) Result {
		if req.EventID == id {
			mu.Lock()
			sent[req.Endpoint.ID]++
			mu.Unlock()
		}
		return Result{Status: http.StatusOK}
	})
	r.publish("m", func(ev *event.Event) { ev.ID = id })
	row := attempt.Record{
		EventID: id, Endpoint: "done", Attempt: 1, Outcome: attempt.Delivered,
		Position: attempt.Position{Topic: attempt.SourceEvents},
	}
	r.produce(&kgo.Record{Topic: r.topic(attempt.Suffix), Value: attempt.AppendRecord(nil, &row)})
	r.commitAs(context.Background(), event.EventsSuffix, 0, 0, ledger.Metadata{Attempts: 0})
	fault := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: r.topic(tier.DedupeSuffix), Err: kerr.LeaderNotAvailable, Count: -1})
	p := r.start("a", nil)
	r.publish("m", nil) // has no key and flows
	eventually(t, "a commit above the event that waits", func() bool {
		all, err := kadm.NewClient(r.cl).FetchOffsets(context.Background(), event.GroupName(r.b.Prefix, "dispatcher"))
		if err != nil {
			return false
		}
		o, ok := all.Lookup(r.topic(event.EventsSuffix), 0)
		m, err := ledger.Decode(o.At, o.Metadata)
		return ok && err == nil && o.At == 0 && len(m.Runs) > 0
	})
	p.cut.kill()
	p.stop()
	fault.Remove()
	next := r.start("a", nil)
	eventually(t, "commit", func() bool { return r.committed(event.EventsSuffix, 0) == 2 })
	next.end(t)
	if sent["done"] != 0 || sent["open"] != 1 {
		t.Errorf("sent %v, want open once and done not again", sent)
	}
}

// TestNothingLeaksOverChurn delivers under random answers while endpoints change and vanish,
// lanes move between two processes and the broker refuses produces now and then. In the end
// every watermark is at its end and every permit and place is back.
func TestNothingLeaksOverChurn(t *testing.T) {
	r := newRig(t, 3)
	var turn atomic.Uint64
	r.send = senderFunc(func(ctx context.Context, req *Request) Result {
		n := turn.Add(1) * 0x9E3779B97F4A7C15
		if n>>40%4 == 0 {
			select {
			case <-time.After(time.Duration(n>>60) * 5 * time.Millisecond):
			case <-ctx.Done():
				return Result{Err: ctx.Err(), ErrorClass: attempt.Internal}
			}
		}
		return Result{Status: []int{200, 200, 200, 500, 410, 404, 429}[n>>33%7]}
	})
	ids := []string{"a", "b", "c"}
	for i, id := range ids {
		r.endpoint(id, func(e *endpoint.Endpoint) { e.MaxInFlight = 1 + i })
	}
	if fake := r.b.Fake(); fake != nil {
		for _, suffix := range []string{attempt.Suffix, "retry.15s", tier.DeadSuffix} {
			fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: r.topic(suffix), Err: kerr.TopicAuthorizationFailed, Count: 5})
		}
	}
	first := r.start("a", func(c *Config) { c.InFlight = 16; c.DrainTimeout = 50 * time.Millisecond })
	key := func(i int) string { return string(rune('a' + i%26)) }
	for i := range 400 {
		r.publish(key(i), func(ev *event.Event) {
			if i%3 == 0 {
				ev.ID = event.DeriveID("dev", ev.Type, key(i), "k")
			}
		})
		switch i {
		case 100:
			r.endpoint("a", func(e *endpoint.Endpoint) { e.MaxInFlight = 9 })
		case 150:
			r.endpoint("b", func(e *endpoint.Endpoint) { e.Enabled = false })
		case 200:
			r.produce(&kgo.Record{Topic: r.topic(endpoint.Suffix), Key: []byte("c")}) // deleted
		case 250:
			r.endpoint("b", nil)
		}
		if i == 120 || i == 260 {
			second := r.start("b", func(c *Config) { c.InFlight = 16; c.DrainTimeout = 50 * time.Millisecond })
			eventually(t, "lanes of the second", func() bool { return len(second.owned()) > 0 })
			r.publish(key(i), nil)
			second.end(t)
			eventually(t, "all lanes", func() bool { return len(first.owned()) == 3 })
		}
	}
	ends := map[int32]int64{}
	for _, rec := range r.read(event.EventsSuffix) {
		ends[rec.Partition] = rec.Offset + 1
	}
	for lane, end := range ends {
		eventually(t, "the watermark at its end", func() bool { return r.committed(event.EventsSuffix, lane) == end })
	}
	eventually(t, "every permit", func() bool { return first.permits.inUse() == 0 })
	first.gates.mu.Lock()
	for id, g := range first.gates.by {
		if g.inFlight != 0 || g.waiting.len() != 0 {
			t.Errorf("endpoint %s has %d places out and %d waiting", id, g.inFlight, g.waiting.len())
		}
	}
	first.gates.mu.Unlock()
	for _, p := range first.owned() {
		p.mu.Lock()
		for _, s := range []*stream{p.fresh, p.due} {
			if s.waiting != 0 || len(s.slots) != 0 || s.backlog.len() != 0 {
				t.Errorf("lane %d, %s: %d waiting, %d slots, %d polled", p.number, s.topic, s.waiting, len(s.slots), s.backlog.len())
			}
		}
		if len(p.partial) != 0 || len(p.forks.working) != 0 {
			t.Errorf("lane %d keeps %d partial slots, %d chains", p.number, len(p.partial), len(p.forks.working))
		}
		p.mu.Unlock()
	}
	if n := first.openBytes.Load(); n != 0 {
		t.Errorf("%d bytes are counted as open", n)
	}
	first.end(t)
}
