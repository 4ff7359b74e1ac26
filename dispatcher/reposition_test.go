package dispatcher

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hookline/hookline/dispatcher/ledger"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/ingest/event/scan"
	"github.com/hookline/hookline/retrytiers/tier"
)

// deleteRecords moves the start of a partition's log.
func (r *rig) deleteRecords(suffix string, partition int32, to int64) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: r.topic(suffix), Partition: partition, At: to})
	resp, err := kadm.NewClient(r.cl).DeleteRecords(ctx, offsets)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		r.t.Fatalf("delete records: %v", err)
	}
}

// TestAPositionRefusedForAMomentIsReadOn: a leader that is behind refuses a position inside
// the log. Nothing is lost then, and nobody needs to be called.
func TestAPositionRefusedForAMomentIsReadOn(t *testing.T) {
	r := newRig(t, 1)
	fake := r.b.Fake()
	if fake == nil {
		t.Log("fault injection needs the embedded broker")
		return
	}
	r.endpoint("e", nil)
	p := r.start("a", nil)
	r.publish("m-1", nil)
	r.recv.wait(t, 1)
	fault := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: r.topic(event.EventsSuffix), Err: kerr.OffsetOutOfRange, Count: 3})
	eventually(t, "the refusals", func() bool { return fault.Hits() == 3 })
	r.publish("m-2", nil)
	r.recv.wait(t, 2)
	eventually(t, "readiness", func() bool { return len(p.owned()) > 0 && p.Ready() == nil })
	for _, name := range []string{"lanes_stuck_lanes", "records_expired_total"} {
		if n := metricValue(t, p, name); n != 0 {
			t.Errorf("%s is %v, want 0", name, n)
		}
	}
	p.end(t)
	if n := len(r.recv.all()); n != 2 {
		t.Errorf("%d posts, want 2", n)
	}
}

// TestRecordsThatExpireUnderALaneAreCountedOnce lets the log's start overtake a lane that
// cannot fetch.
func TestRecordsThatExpireUnderALaneAreCountedOnce(t *testing.T) {
	r := newRig(t, 1)
	fake := r.b.Fake()
	if fake == nil {
		t.Log("fault injection needs the embedded broker")
		return
	}
	r.endpoint("e", nil)
	p := r.start("a", nil)
	eventually(t, "the first commit", func() bool { return r.committed(event.EventsSuffix, 0) == 0 })
	id := r.topicID(event.EventsSuffix)
	var held atomic.Bool
	held.Store(true)
	fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		if held.Load() {
			for _, tp := range req.(*kmsg.FetchRequest).Topics {
				if tp.TopicID == id {
					return req.ResponseKind(), nil, true
				}
			}
		}
		return nil, nil, false
	})
	for range 5 {
		r.publish("m", nil)
	}
	r.deleteRecords(event.EventsSuffix, 0, 3)
	already := len(r.recv.all()) // a fetch that waited may have brought the first
	held.Store(false)
	eventually(t, "the rest", func() bool { return r.committed(event.EventsSuffix, 0) == 5 })
	if n := len(r.recv.all()); n < 2 {
		t.Errorf("%d posts, want the 2 that are left", n)
	}
	if n := metricValue(t, p, "records_expired_total"); n != float64(3-already) {
		t.Errorf("%v records counted as expired, want %d", n, 3-already)
	}
	p.end(t)
}

// TestAPositionPastTheEndWaitsForAnOperator: it is not reset, it shows, and it shows no more
// once the lane is given up.
func TestAPositionPastTheEndWaitsForAnOperator(t *testing.T) {
	r := newRig(t, 1)
	p := r.start("a", nil)
	eventually(t, "readiness", func() bool { return len(p.owned()) > 0 && p.Ready() == nil })
	lane := p.partition(0)
	lane.mu.Lock()
	lane.due.ledger.Skip(1000) // as if the log had lost its tail
	lane.mu.Unlock()
	p.readFailed(r.topic(tier.DueSuffix), 0, kerr.OffsetOutOfRange)
	p.readFailed(r.topic(tier.DueSuffix), 0, kerr.OffsetOutOfRange) // the client says it again and again
	eventually(t, "the alarm", func() bool { return metricValue(t, p, "lanes_stuck_lanes") == 1 })
	if p.Ready() == nil {
		t.Error("ready with a lane that is not read")
	}
	p.end(t)
	eventually(t, "the end of the alarm", func() bool { return metricValue(t, p, "lanes_stuck_lanes") == 0 })
}

// TestMarksBeyondTheEndOfTheLogDoNotHideNewRecords: a log that lost its tail gives the
// offsets of finished records to other records.
func TestMarksBeyondTheEndOfTheLogDoNotHideNewRecords(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("e", nil)
	r.commitAs(context.Background(), event.EventsSuffix, 0, 0, ledger.Metadata{Attempts: -1, Runs: []ledger.Run{{From: 0, To: 5}}})
	p := r.start("a", nil)
	eventually(t, "readiness", func() bool { return len(p.owned()) > 0 && p.Ready() == nil })
	r.publish("m", nil)
	r.recv.wait(t, 1)
	p.end(t)
}

// TestDueIsTrimmedButForItsLastRecord: a broker that keeps its end offset with the last
// record would hand out old offsets again.
func TestDueIsTrimmedButForItsLastRecord(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("e", nil)
	p := r.start("a", func(c *Config) { c.TrimInterval = 20 * time.Millisecond })
	now := time.Now().UnixMilli()
	send := func() {
		ev := event.Event{
			ID: event.NewID(), Type: "message.x", Source: "/s", MessageID: "m", Tenant: "dev", Schema: "1",
			AcceptedMs: now, Sequence: -1, Body: []byte(`{}`),
		}
		r.due(&ev, tier.Ticket{Endpoint: "e", Attempt: 1, DueMs: now, FirstMs: now})
	}
	start := func() int64 {
		at, err := scan.Start(context.Background(), r.cl, r.topic(tier.DueSuffix), 0)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for n := int64(1); n <= 8; n++ {
		send()
		eventually(t, "commit of due", func() bool { return r.committed(tier.DueSuffix, 0) == n })
		eventually(t, "the trim", func() bool { return start() == n-1 })
	}
	lane := p.partition(0)
	eventually(t, "the answers of the last commit and trim", func() bool { // the broker knows before the dispatcher
		lane.mu.Lock()
		defer lane.mu.Unlock()
		return lane.due.committed == 8 && lane.due.trimmed == 7
	})
	p.end(t)
}

// TestStopDuringATakeoverReturns stops a dispatcher whose lane cannot be taken over.
func TestStopDuringATakeoverReturns(t *testing.T) {
	r := newRig(t, 1)
	fake := r.b.Fake()
	if fake == nil {
		t.Log("fault injection needs the embedded broker")
		return
	}
	fault := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: r.topic("attempts"), Err: kerr.LeaderNotAvailable, Count: -1})
	p := r.start("a", nil)
	eventually(t, "a takeover that hangs", func() bool { return fault.Hits() > 0 })
	if p.Ready() == nil {
		t.Error("ready during a takeover")
	}
	p.end(t)
	if at := r.committed(event.EventsSuffix, 0); at >= 0 {
		t.Errorf("committed %d without a takeover", at)
	}
}

// TestALaneAssignedTwiceStartsOver: the earlier incarnation must not stay half alive.
func TestALaneAssignedTwiceStartsOver(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("e", nil)
	p := r.start("a", nil)
	r.publish("m-1", nil)
	eventually(t, "commit", func() bool { return r.committed(event.EventsSuffix, 0) == 1 })
	old := p.partition(0)
	p.assigned(context.Background(), map[string][]int32{r.topic(event.EventsSuffix): {0}})
	if old.live() {
		t.Error("the earlier incarnation may still produce")
	}
	r.publish("m-2", nil)
	eventually(t, "commit of the new one", func() bool { return r.committed(event.EventsSuffix, 0) == 2 })
	p.end(t)
	if n := len(r.recv.all()); n != 2 {
		t.Errorf("%d posts, want 2", n)
	}
}

// TestALaterOwnerKnowsTheKeysFromSegments lets the first owner leave no segment and the
// second one write one: with the events gone, a third still knows both keys.
func TestALaterOwnerKnowsTheKeysFromSegments(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("e", nil)
	keyed := func(key string) func(*event.Event) {
		return func(ev *event.Event) {
			ev.ID, ev.Body = event.DeriveID("dev", "message.delivered", "m", key), []byte(`{"key":"`+key+`"}`)
		}
	}
	never := func(c *Config) { c.SegmentInterval = time.Hour }
	p := r.start("a", never)
	r.publish("m", keyed("one"))
	eventually(t, "commit", func() bool { return r.committed(event.EventsSuffix, 0) == 1 })
	p.end(t)

	p = r.start("b", func(c *Config) { c.SegmentInterval = 20 * time.Millisecond })
	r.publish("m", keyed("two"))
	eventually(t, "commit", func() bool { return r.committed(event.EventsSuffix, 0) == 2 })
	eventually(t, "the segment", func() bool {
		lane := p.partition(0)
		lane.mu.Lock()
		defer lane.mu.Unlock()
		return lane.idsNext == 2
	})
	p.end(t)

	r.deleteRecords(event.EventsSuffix, 0, 2)
	p = r.start("c", never)
	r.publish("m", keyed("one"))
	r.publish("m", keyed("two"))
	r.publish("m", keyed("three"))
	r.recv.wait(t, 3)
	eventually(t, "commit", func() bool { return r.committed(event.EventsSuffix, 0) == 5 })
	p.end(t)
	if n := len(r.recv.all()); n != 3 {
		t.Errorf("%d posts, want one for each key", n)
	}
}
