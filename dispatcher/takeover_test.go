package dispatcher

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/dispatcher/ledger"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

// holdCommits makes the broker refuse every offset commit until the returned func is called.
// It needs the embedded broker; on a real one the commits go through, and the test is only
// weaker.
func (r *rig) holdCommits() (release func()) {
	fake := r.b.Fake()
	if fake == nil {
		return func() {}
	}
	var held atomic.Bool
	held.Store(true)
	fake.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		if !held.Load() {
			return nil, nil, false
		}
		in := req.(*kmsg.OffsetCommitRequest)
		resp := in.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, t := range in.Topics {
			rt := kmsg.NewOffsetCommitResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetCommitResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, kerr.CoordinatorLoadInProgress.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
	return func() { held.Store(false) }
}

// TestFinishedWorkIsNotRepeatedWithoutItsCommit kills a dispatcher whose last commits never
// reached the broker: attempt records alone must keep the next owner from repeating.
func TestFinishedWorkIsNotRepeatedWithoutItsCommit(t *testing.T) {
	r := newRig(t, 2)
	r.endpoint("ok", nil)
	r.endpoint("bad", nil)
	r.recv.answers(func(p post) int {
		if p.path == "bad" {
			return 422 // tried again, and no reason for the breaker to open
		}
		return 200
	})
	p := r.start("a", nil)
	r.publish("warm", nil)
	eventually(t, "a first commit", func() bool {
		return r.committed(event.EventsSuffix, event.Partition("warm", 2)) == 1
	})
	release := r.holdCommits()
	const n = 40
	for i := range n {
		r.publish(fmt.Sprint("m-", i), nil)
	}
	eventually(t, "all rows", func() bool { return len(r.rowsOf()) == 2*(n+1) })
	p.cut.kill()
	p.stop()
	release()

	next := r.start("a", nil) // the same instance comes back: no wait for the session
	for lane := range int32(2) {
		eventually(t, "commit of the new owner", func() bool {
			var want int64
			for _, rec := range r.read(event.EventsSuffix) {
				if rec.Partition == lane {
					want = rec.Offset + 1
				}
			}
			return r.committed(event.EventsSuffix, lane) == want
		})
	}
	next.end(t)
	if posts := len(r.recv.all()); posts != 2*(n+1) {
		t.Errorf("%d posts, want %d: finished work was repeated", posts, 2*(n+1))
	}
	if copies := len(r.copies()); copies != n+1 {
		t.Errorf("%d retry copies, want %d", copies, n+1)
	}
}

// TestAPartlyFinishedFanOutRepeatsOnlyWhatHung kills a dispatcher while one endpoint of each
// event never answers.
func TestAPartlyFinishedFanOutRepeatsOnlyWhatHung(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("quick", nil)
	r.endpoint("hangs", func(e *endpoint.Endpoint) { e.Timeout = endpoint.Duration(15 * time.Second) })
	hang := make(chan struct{})
	r.recv.answers(func(p post) int {
		if p.path == "hangs" {
			<-hang
		}
		return 200
	})
	p := r.start("a", nil)
	const n = 20
	for i := range n {
		r.publish(fmt.Sprint("m-", i), nil)
	}
	eventually(t, "rows of the quick one", func() bool { return len(r.rowsOf()) == n })
	p.cut.kill()
	p.stop()
	r.recv.wait(t, 2*n)

	next := r.start("a", nil)
	r.recv.wait(t, 3*n)
	close(hang)
	eventually(t, "all committed", func() bool { return r.committed(event.EventsSuffix, 0) == n })
	next.end(t)
	count := map[string]int{}
	for _, q := range r.recv.all() {
		count[q.path]++
	}
	if count["quick"] != n || count["hangs"] != 2*n {
		t.Errorf("posts %v, want quick %d, hangs %d", count, n, 2*n)
	}
}

// TestAReusedOffsetMatchesNoMark writes an attempt record that names an offset at which
// another event lies: the event must be delivered.
func TestAReusedOffsetMatchesNoMark(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("e", nil)
	ctx := context.Background()
	rowOf := func(ev *event.Event, change func(*attempt.Record)) {
		row := attempt.Record{
			EventID: ev.ID, Endpoint: "e", Attempt: 1, Outcome: attempt.Delivered,
			Position: attempt.Position{Topic: attempt.SourceEvents, Partition: 0, Offset: 0},
		}
		change(&row)
		r.produce(&kgo.Record{Topic: r.topic(attempt.Suffix), Value: attempt.AppendRecord(nil, &row)})
	}
	ev := r.publish("m", nil)
	rowOf(&ev, func(row *attempt.Record) { row.EventID = "evt_other" })
	rowOf(&ev, func(row *attempt.Record) { row.ReplayID = "rpl_1" })
	rowOf(&ev, func(row *attempt.Record) { row.Parks = 1 })
	rowOf(&ev, func(row *attempt.Record) { row.Position.Attempt = 1 })
	rowOf(&ev, func(row *attempt.Record) { row.Position.Topic = attempt.SourceDue })
	rowOf(&ev, func(row *attempt.Record) { row.Position = attempt.Position{} })
	r.commitAs(ctx, event.EventsSuffix, 0, 0, ledger.Metadata{Attempts: 0})
	p := r.start("a", nil)
	r.recv.wait(t, 1)
	eventually(t, "commit", func() bool { return r.committed(event.EventsSuffix, 0) == 1 })
	p.end(t)
}

// TestAMarkCountsWithItsCommit is the other half: the same row with the right identity keeps
// the event from being delivered again.
func TestAMarkCountsWithItsCommit(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("e", nil)
	ev := r.publish("m", nil)
	row := attempt.Record{
		EventID: ev.ID, Endpoint: "e", Attempt: 1, Outcome: attempt.Delivered,
		Position: attempt.Position{Topic: attempt.SourceEvents, Partition: 0, Offset: 0},
	}
	r.produce(&kgo.Record{Topic: r.topic(attempt.Suffix), Value: attempt.AppendRecord(nil, &row)})
	r.commitAs(context.Background(), event.EventsSuffix, 0, 0, ledger.Metadata{Attempts: 0})
	p := r.start("a", nil)
	eventually(t, "commit", func() bool { return r.committed(event.EventsSuffix, 0) == 1 })
	p.end(t)
	if n := len(r.recv.all()); n != 0 {
		t.Errorf("%d posts of an event that a mark proves delivered", n)
	}
}

// commitAs commits for the dispatcher's group while it is empty.
func (r *rig) commitAs(ctx context.Context, suffix string, partition int32, at int64, m ledger.Metadata) {
	r.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version = 7
	req.Group = event.GroupName(r.b.Prefix, "dispatcher")
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = r.topic(suffix)
	rt.TopicID = r.topicID(suffix)
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset, rp.Metadata = partition, at, kmsg.StringPtr(ledger.Encode(at, m, ledger.MaxMetadata))
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, r.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		r.t.Fatalf("commit: %v", err)
	}
}

// TestALiveMemberThatLostTheLaneCannotRewindIt hands a lane to a second member and lets the
// first one's late results come in.
func TestALiveMemberThatLostTheLaneCannotRewindIt(t *testing.T) {
	r := newRig(t, 2)
	r.endpoint("e", func(e *endpoint.Endpoint) { e.Timeout = endpoint.Duration(15 * time.Second) })
	var hold atomic.Bool
	hold.Store(true)
	gate := make(chan struct{})
	r.recv.answers(func(post) int {
		if hold.Load() {
			<-gate
		}
		return http.StatusOK
	})
	first := r.start("a", func(c *Config) { c.DrainTimeout = 100 * time.Millisecond })
	perLane := map[int32]int{}
	for i := 0; perLane[0] < 5 || perLane[1] < 5; i++ {
		id := fmt.Sprint("m-", i)
		perLane[event.Partition(id, 2)]++
		r.publish(id, nil)
	}
	total := perLane[0] + perLane[1]
	r.recv.wait(t, total)
	hold.Store(false)
	second := r.start("b", nil)
	eventually(t, "one lane each", func() bool { return len(first.owned()) == 1 && len(second.owned()) == 1 })
	moved := second.owned()[0].number
	eventually(t, "the new owner's commit", func() bool { return r.committed(event.EventsSuffix, moved) == int64(perLane[moved]) })
	close(gate) // the first owner's posts end now
	eventually(t, "rows of all posts", func() bool { return len(r.rowsOf()) == total+perLane[moved] })
	other := 1 - moved
	eventually(t, "the kept lane's commit", func() bool { return r.committed(event.EventsSuffix, other) == int64(perLane[other]) })
	if at := r.committed(event.EventsSuffix, moved); at != int64(perLane[moved]) {
		t.Errorf("the lane was rewound to %d", at)
	}
	unmarked := 0
	for _, row := range r.rowsOf() {
		if row.Worker == "w-a" && row.Position.Topic == attempt.SourceNone {
			unmarked++
		}
	}
	if unmarked != perLane[moved] {
		t.Errorf("%d rows of the old owner mark nothing, want %d", unmarked, perLane[moved])
	}
	first.end(t)
	second.end(t)
}

// TestWithoutAttemptsNothingNewIsPosted makes the attempts topic unwritable: at most the
// permits are posted, and all is told once it can be written again.
func TestWithoutAttemptsNothingNewIsPosted(t *testing.T) {
	r := newRig(t, 1)
	if r.b.Fake() == nil {
		r.t.Log("fault injection needs the embedded broker; a real one runs the rest of the suite")
		return
	}
	r.endpoint("e", nil)
	release := r.forbid(attempt.Suffix)
	const permits = 8
	p := r.start("a", func(c *Config) { c.InFlight = permits })
	for i := range 50 {
		r.publish(fmt.Sprint("m-", i), nil)
	}
	r.recv.wait(t, permits)
	eventually(t, "refused rows", func() bool {
		return p.permits.inUse() == permits && metricValue(t, p, "produce_failures_total") > 2*permits
	})
	if n := len(r.recv.all()); n != permits {
		t.Errorf("%d posts with attempts down, want %d", n, permits)
	}
	if at := r.committed(event.EventsSuffix, 0); at > 0 {
		t.Errorf("committed %d without an attempt record", at)
	}
	release()
	eventually(t, "all committed", func() bool { return r.committed(event.EventsSuffix, 0) == 50 })
	if n := len(r.rowsOf()); n != 50 {
		t.Errorf("%d rows, want 50", n)
	}
	p.end(t)
}

// TestAQuietDueTopicIsCommittedAgain checks that a lane commits both positions although one
// of its topics has never carried a record.
func TestAQuietDueTopicIsCommittedAgain(t *testing.T) {
	r := newRig(t, 1)
	p := r.start("a", nil)
	eventually(t, "both pinned", func() bool {
		return r.committed(tier.DueSuffix, 0) == 0 && r.committed(event.EventsSuffix, 0) == 0
	})
	lane := p.partition(0)
	lane.mu.Lock()
	lane.lastCommit = time.Now().Add(-recommitEvery)
	lane.mu.Unlock()
	if offsets, ok := lane.appendOffsets(nil, time.Now()); !ok || len(offsets) != 2 {
		t.Errorf("after %s of quiet %d positions are committed, want 2", recommitEvery, len(offsets))
	}
	p.end(t)
}
