package dispatcher

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/dispatcher/lane"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

// These tests inject faults into the embedded broker. On a real one they run without the
// fault and hold the same end state against it.

// forbid makes the broker refuse produces to topics until the returned func is called.
func (r *rig) forbid(suffixes ...string) (release func()) {
	fake := r.b.Fake()
	if fake == nil {
		return func() {}
	}
	ids := map[[16]byte]bool{}
	for _, s := range suffixes {
		ids[r.topicID(s)] = true
	}
	var on atomic.Bool
	on.Store(true)
	fake.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		in := req.(*kmsg.ProduceRequest)
		hit := false
		for _, tp := range in.Topics {
			hit = hit || ids[tp.TopicID]
		}
		if !on.Load() || !hit {
			return nil, nil, false
		}
		resp := in.ResponseKind().(*kmsg.ProduceResponse)
		for _, tp := range in.Topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = tp.Topic, tp.TopicID
			for _, p := range tp.Partitions {
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, kerr.TopicAuthorizationFailed.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
	return func() { on.Store(false) }
}

// blind makes the broker answer no fetch of the endpoints topic until the returned func is
// called: the view cannot be proven.
func (r *rig) blind() (release func()) {
	fake := r.b.Fake()
	if fake == nil {
		return func() {}
	}
	id := r.topicID(endpoint.Suffix)
	var on atomic.Bool
	on.Store(true)
	fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		in := req.(*kmsg.FetchRequest)
		if !on.Load() || len(in.Topics) != 1 || in.Topics[0].TopicID != id {
			return nil, nil, false
		}
		resp := in.ResponseKind().(*kmsg.FetchResponse)
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = in.Topics[0].Topic, id
		for _, p := range in.Topics[0].Partitions {
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, kerr.NotLeaderForPartition.Code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
	return func() { on.Store(false) }
}

// stays fails the test if ok does not hold for the whole time.
func stays(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.After(400 * time.Millisecond)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-end:
			return
		case <-tick.C:
			if !ok() {
				t.Fatalf("%s does not hold", what)
			}
		}
	}
}

// TestNothingIsToldBeforeTheCopyIsDurable refuses retry copies and dead letters: no attempt
// record and no commit may say that the delivery is taken care of.
func TestNothingIsToldBeforeTheCopyIsDurable(t *testing.T) {
	for name, attempts := range map[string]int{"retry copy": 16, "dead letter": 1} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			r.endpoint("e", func(e *endpoint.Endpoint) { e.Retry.MaxAttempts = attempts })
			r.recv.answers(func(post) int { return 500 })
			release := r.forbid("retry.15s", "retry.2m", tier.DeadSuffix)
			p := r.start("a", nil)
			r.publish("m", nil)
			r.recv.wait(t, 1)
			if r.b.Fake() != nil {
				eventually(t, "refusals", func() bool { return metricValue(t, p, "produce_failures_total") >= 3 })
				stays(t, "nothing told and nothing committed", func() bool {
					return len(r.rowsOf()) == 0 && r.committed(event.EventsSuffix, 0) <= 0
				})
			}
			release()
			eventually(t, "commit", func() bool { return r.committed(event.EventsSuffix, 0) == 1 })
			if rows, copies := len(r.rowsOf()), len(r.copies())+len(r.read(tier.DeadSuffix)); rows != 1 || copies != 1 {
				t.Errorf("%d rows and %d copies, want one each", rows, copies)
			}
			if n := len(r.recv.all()); n != 1 {
				t.Errorf("%d posts while the copy was refused, want 1", n)
			}
			p.end(t)
		})
	}
}

// TestTargetsWaitForAProvenView hides a new endpoint from the dispatcher for longer than a
// proof lasts: its event must wait, not become "unrouted".
func TestTargetsWaitForAProvenView(t *testing.T) {
	r := newRig(t, 1)
	p := r.start("a", nil)
	eventually(t, "a lane", func() bool { return len(p.owned()) > 0 && p.Ready() == nil })
	release := r.blind()
	if r.b.Fake() != nil {
		eventually(t, "an old proof", func() bool { return !p.viewProven() })
	}
	r.endpoint("e", nil)
	ev := r.publish("m", nil)
	gone := event.Event{ID: event.NewID(), Type: "x", Source: "/s", MessageID: "g", Tenant: "dev", Schema: "1", AcceptedMs: 1, Sequence: -1, Body: []byte(`{}`)}
	r.due(&gone, tier.Ticket{Endpoint: "e", Attempt: 1, DueMs: 1, FirstMs: time.Now().UnixMilli()})
	if r.b.Fake() != nil {
		stays(t, "no decision", func() bool { return len(r.rowsOf()) == 0 })
		if p.Ready() == nil {
			t.Error("ready although the view is not proven")
		}
	}
	release()
	for _, q := range r.recv.wait(t, 2) {
		if q.id != ev.ID && q.id != gone.ID {
			t.Errorf("post of %s", q.id)
		}
	}
	eventually(t, "two rows", func() bool { return len(r.rowsOf()) == 2 })
	for _, row := range r.rowsOf() {
		if row.Outcome != attempt.Delivered {
			t.Errorf("row %+v", row)
		}
	}
	p.end(t)
}

// TestALaneStartsBehindAProofOfItsOwnTime blinds a dispatcher before it owns anything: what
// it learnt about the endpoints before the assignment does not count for the lane.
func TestALaneStartsBehindAProofOfItsOwnTime(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("e", nil)
	release := r.blind()
	p := r.start("a", nil)
	eventually(t, "an assignment", func() bool { return len(p.owned()) == 1 })
	if r.b.Fake() != nil {
		stays(t, "the lane is not read", func() bool { return p.Ready() != nil && r.committed(event.EventsSuffix, 0) == -1 })
	}
	release()
	r.publish("m", nil)
	r.recv.wait(t, 1)
	p.end(t)
}

// TestALostLaneIsNotCommitted finishes deliveries, loses the lane and looks at what the group
// has: only what was committed before.
func TestALostLaneIsNotCommitted(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("e", nil)
	p := r.start("a", nil)
	r.publish("m-0", nil)
	eventually(t, "first commit", func() bool { return r.committed(event.EventsSuffix, 0) == 1 })
	p.commitMu.Lock() // no commit can come between the outcome and the loss
	r.publish("m-1", nil)
	eventually(t, "second row", func() bool { return len(r.rowsOf()) == 2 })
	lane0 := p.partition(0)
	eventually(t, "second outcome", func() bool {
		lane0.mu.Lock()
		defer lane0.mu.Unlock()
		return lane0.fresh.ledger.Watermark() == 2
	})
	ended := make(chan struct{})
	go func() {
		p.lost(context.Background(), lane.Assignment{r.topic(event.EventsSuffix): {0}})
		close(ended)
	}()
	eventually(t, "the loss", func() bool { return !lane0.live() })
	p.commitMu.Unlock()
	<-ended
	stays(t, "the old commit", func() bool { return r.committed(event.EventsSuffix, 0) == 1 })
	p.end(t)
}

// TestADueDeliveryOfAnotherTenantIsRefused moves an endpoint's id to another tenant: what
// waited for the first one must not reach the second one's URL.
func TestADueDeliveryOfAnotherTenantIsRefused(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("e", func(e *endpoint.Endpoint) { e.Tenant = "someone-else" })
	p := r.start("a", nil)
	ev := event.Event{ID: event.NewID(), Type: "x", Source: "/s", MessageID: "m", Tenant: "dev", Schema: "1", AcceptedMs: 1, Sequence: -1, Body: []byte(`{}`)}
	r.due(&ev, tier.Ticket{Endpoint: "e", Attempt: 1, DueMs: 1, FirstMs: time.Now().UnixMilli()})
	eventually(t, "dead letter", func() bool { return len(r.read(tier.DeadSuffix)) == 1 })
	if l := tier.DecodeDead(r.read(tier.DeadSuffix)[0]); l.Reason != tier.EndpointDeleted || l.EventID != ev.ID {
		t.Errorf("dead letter %+v", l)
	}
	if n := len(r.recv.all()); n != 0 {
		t.Errorf("%d posts to another tenant's endpoint", n)
	}
	p.end(t)
}
