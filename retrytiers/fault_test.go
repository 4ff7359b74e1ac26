package retrytiers

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/retrytiers/tier"
)

// newFaultRig has a broker of its own whose answers the test decides, whatever broker the
// other tests run on.
func newFaultRig(t *testing.T) (*rig, *kfake.Cluster) {
	t.Parallel()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	seeds := fake.ListenAddrs()
	return rigOn(t, &brokertest.Broker{Opts: []kgo.Opt{kgo.SeedBrokers(seeds...)}, Prefix: "faulty.", Seeds: seeds}), fake
}

func spread(over time.Duration, n int) func(int) time.Duration {
	return func(i int) time.Duration { return time.Duration(i) * over / time.Duration(n) }
}

// TestRefusedProduceHoldsItsRecords: one partition of due cannot be written. Its records are
// held and nothing is committed past them; all others go on.
func TestRefusedProduceHoldsItsRecords(t *testing.T) {
	r, fake := newFaultRig(t)
	p := r.start(testConfig())
	r.ready(p)
	refused := fake.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: r.b.Prefix + tier.DueSuffix, Partitions: []int32{1},
		Err: kerr.TopicAuthorizationFailed, Count: -1,
	})
	const n = 300
	ids := r.place("f", n, spread(2*time.Second, n))
	var held, free []string
	for i, id := range ids {
		if i%dueParts == 1 {
			held = append(held, id)
		} else {
			free = append(free, id)
		}
	}
	r.all(free)
	r.until("refusals of every held record", func() bool { return p.snapshot().held == len(held) && p.snapshot().inflight == 0 })
	r.until("commits up to the held records", func() bool {
		at := int64(0)
		eachSlot(func(suffix string, partition int32) {
			_, end := r.ends(suffix, partition)
			committed := r.committed(suffix, partition)
			if committed == end && end > 3 {
				t.Fatalf("%s/%d is committed at its end although a record of it is held", suffix, partition)
			}
			at += committed
		})
		return at > 0
	})
	if r.have(held) != 0 || value(p.met.produceErr.WithLabelValues("due")) == 0 {
		t.Errorf("%d refused records arrived, %v refusals counted", r.have(held), value(p.met.produceErr.WithLabelValues("due")))
	}
	if s := p.snapshot(); s.overdueMs == 0 {
		t.Error("nobody sees that records are overdue")
	}
	refused.Remove()
	if duplicates := r.all(ids); duplicates != 0 {
		t.Errorf("%d came twice", duplicates)
	}
	r.until("commits at the log ends", func() bool {
		behind := 0
		eachSlot(func(suffix string, partition int32) {
			if _, end := r.ends(suffix, partition); r.committed(suffix, partition) != end {
				behind++
			}
		})
		return behind == 0
	})
}

// TestRestartWithHeldRecordsRepeatsOnlyThem: the completed set travels in the metadata.
func TestRestartWithHeldRecordsRepeatsOnlyThem(t *testing.T) {
	r, fake := newFaultRig(t)
	p := r.start(testConfig())
	r.ready(p)
	refused := fake.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: r.b.Prefix + tier.DueSuffix, Partitions: []int32{1},
		Err: kerr.TopicAuthorizationFailed, Count: -1,
	})
	const n = 300
	ids := r.place("f", n, spread(2*time.Second, n))
	r.until("all that can be released", func() bool { return r.have(ids) == n*2/3 })
	p.halt()
	refused.Remove()
	q := r.start(testConfig())
	r.ready(q)
	if duplicates := r.all(ids); duplicates != 0 {
		t.Errorf("%d came twice", duplicates)
	}
	read := 0.0
	for _, topic := range testLadder().Topics() {
		read += value(q.met.read.WithLabelValues(topic.Suffix))
	}
	if read != n/3 {
		t.Errorf("the second process took %v records for not done, want %d", read, n/3)
	}
}

// TestRefusedCommitsAreRepeated: meanwhile records are released, not committed.
func TestRefusedCommitsAreRepeated(t *testing.T) {
	r, fake := newFaultRig(t)
	p := r.start(testConfig())
	r.ready(p)
	fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.CoordinatorLoadInProgress, Count: 8})
	ids := r.place("c", 100, spread(time.Second, 100))
	r.all(ids)
	r.until("a commit after the refusals", func() bool {
		_, end := r.ends("retry.b", 0)
		return value(p.met.commitErr) > 0 && end > 0 && r.committed("retry.b", 0) == end
	})
}

// TestLostMembershipLosesNothing: the coordinator forgets the member, who must drop its slots
// without a commit, join again and go on.
func TestLostMembershipLosesNothing(t *testing.T) {
	r, fake := newFaultRig(t)
	p := r.start(testConfig())
	r.ready(p)
	const n = 1500
	ids := r.place("l", n, spread(9*time.Second, n))
	r.until("a third of them", func() bool { return r.have(ids) > n/3 })
	fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.UnknownMemberID})
	duplicates := r.all(ids)
	t.Logf("%d duplicates", duplicates)
	if duplicates > n/4 {
		t.Errorf("%d of %d came twice", duplicates, n)
	}
	r.until("no slot left paused", func() bool { return p.snapshot().paused == 0 })
}

// TestRevokeDoesNotWaitForAStuckProducer: due cannot be written when slots move. The revoke
// ends after its timeout and the next owner releases the records, which may be twice.
func TestRevokeDoesNotWaitForAStuckProducer(t *testing.T) {
	r, fake := newFaultRig(t)
	cfg := testConfig()
	cfg.FlushTimeout = 200 * time.Millisecond
	a := r.start(cfg)
	r.ready(a)
	stuck := fake.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: r.b.Prefix + tier.DueSuffix, Err: kerr.NotLeaderForPartition, Count: -1,
	})
	ids := r.place("s", 200, spread(2*time.Second, 200))
	r.until("records with the producer", func() bool { return a.snapshot().inflight > 100 })
	b := r.start(cfg)
	r.until("a second process with slots", func() bool { return b.owned() > 0 && b.Ready() == nil })
	if have := r.have(ids); have != 0 {
		t.Errorf("%d arrived although due cannot be written", have)
	}
	stuck.Remove()
	r.all(ids)
	r.until("nothing is held any more", func() bool { return a.snapshot().held+b.snapshot().held == 0 })
}

// TestFetchErrorOpensTheSlotAgain: an error that the client gives up on must not end a slot.
func TestFetchErrorOpensTheSlotAgain(t *testing.T) {
	r, fake := newFaultRig(t)
	p := r.start(testConfig())
	r.ready(p)
	fake.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Fetch}, Topic: r.b.Prefix + "retry.b", Err: kerr.TopicAuthorizationFailed, Count: 3,
	})
	ids := r.place("x", 100, func(int) time.Duration { return 600 * time.Millisecond })
	if duplicates := r.all(ids); duplicates != 0 {
		t.Errorf("%d came twice", duplicates)
	}
	if value(p.met.reopened) == 0 {
		t.Error("no slot was opened again")
	}
	r.ready(p)
}

// TestSlotsOpenOnceTheLogAnswers: errors while opening are waited out.
func TestSlotsOpenOnceTheLogAnswers(t *testing.T) {
	r, fake := newFaultRig(t)
	fake.Fault(
		kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Err: kerr.UnknownServerError, Count: 4},
		kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.GroupAuthorizationFailed, Count: 2},
	)
	p := r.start(testConfig())
	r.ready(p)
	r.all(r.place("x", 50, spread(time.Second, 50)))
}

// TestRefusedTrimIsRepeated: trimming is never needed for anything to go on.
func TestRefusedTrimIsRepeated(t *testing.T) {
	r, fake := newFaultRig(t)
	cfg := testConfig()
	cfg.TrimInterval = 50 * time.Millisecond
	p := r.start(cfg)
	r.ready(p)
	fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DeleteRecords}, Err: kerr.PolicyViolation, Count: 3})
	r.all(r.place("t", 50, func(int) time.Duration { return 500 * time.Millisecond }))
	r.until("a trimmed log", func() bool {
		start, end := r.ends("retry.b", 0)
		return start == 49 && end == 50 && value(p.met.trimErr) > 0
	})
}
