package retrytiers

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/lane"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

func TestDeliveriesComeBackAtTheirDueTimeAndUnchanged(t *testing.T) {
	r := newRig(t)
	r.ready(r.start(testConfig()))
	rnd := rand.New(rand.NewPCG(1, 2))
	const n = 600
	// Up to 7 s: beyond the 4 s of the ladder, so some lap.
	ids := r.place("d", n, func(int) time.Duration { return time.Duration(rnd.Int64N(int64(7 * time.Second))) })
	if duplicates := r.all(ids); duplicates != 0 {
		t.Errorf("%d came twice", duplicates)
	}
	late := r.lateness(ids)
	t.Logf("lateness p50 %s, p99 %s, largest %s", late[n/2], late[n*99/100], late[n-1])
	if late[n*99/100] > 2*time.Second {
		t.Errorf("p99 of the lateness is %s", late[n*99/100])
	}
	for i, id := range ids {
		got := r.arrivals[id][0]
		ticket, err := tier.DecodeTicket(got.Headers)
		if err != nil {
			t.Fatal(err)
		}
		want := newRecord(id, time.UnixMilli(ticket.DueMs), int32(i%dueParts))
		if got.Partition != int32(i%dueParts) || !bytes.Equal(got.Key, want.Key) || !bytes.Equal(got.Value, want.Value) {
			t.Fatalf("%s came back as %s = %s in partition %d", id, got.Key, got.Value, got.Partition)
		}
		if len(got.Headers) != len(want.Headers) {
			t.Fatalf("%s came back with %d headers, had %d", id, len(got.Headers), len(want.Headers))
		}
		for i, h := range want.Headers {
			if got.Headers[i].Key == event.HeaderAcceptedMs {
				continue // made from the due time by newRecord
			}
			if got.Headers[i].Key != h.Key || !bytes.Equal(got.Headers[i].Value, h.Value) {
				t.Fatalf("%s came back with %s = %s, had %s", id, got.Headers[i].Key, got.Headers[i].Value, h.Value)
			}
		}
	}
}

func TestEverythingReleasedIsCommitted(t *testing.T) {
	r := newRig(t)
	p := r.start(testConfig())
	r.ready(p)
	r.all(r.place("c", 200, func(i int) time.Duration { return time.Duration(i) * 10 * time.Millisecond }))
	r.until("commits at the log ends", func() bool {
		behind := 0
		eachSlot(func(suffix string, partition int32) {
			if _, end := r.ends(suffix, partition); r.committed(suffix, partition) != end {
				behind++
			}
		})
		return behind == 0
	})
	p.halt()
	// A new process finds nothing to do.
	q := r.start(testConfig())
	r.ready(q)
	more := r.place("more", 20, func(int) time.Duration { return 500 * time.Millisecond })
	if duplicates := r.all(more); duplicates != 0 {
		t.Errorf("%d came twice", duplicates)
	}
	if got := value(q.met.read.WithLabelValues("retry.b")); got != 20 {
		t.Errorf("the second process read %v records of retry.b, want 20", got)
	}
	// A reader of due may see a record before its producer hears of it.
	r.until("acknowledgements", func() bool { return q.snapshot().held == 0 })
}

func TestPoisonEndsInDeadAndIsDone(t *testing.T) {
	r := newRig(t)
	r.ready(r.start(testConfig()))
	bad := &kgo.Record{
		Key: []byte("msg-bad"), Value: []byte("{}"),
		Headers: []kgo.RecordHeader{{Key: event.HeaderID, Value: []byte("bad")}, {Key: "x-own", Value: []byte("kept")}},
	}
	r.append(bad, 0)
	lost := newRecord("lost", time.Now(), dueParts) // a lane that does not exist
	r.append(lost, 0)
	ids := r.place("good", 20, func(int) time.Duration { return 0 })
	r.all(ids)

	dead := r.b.Client(t, kgo.ConsumeTopics(r.b.Prefix+tier.DeadSuffix), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	ctx, cancel := context.WithTimeout(context.Background(), rigWithin)
	defer cancel()
	letters := map[string]tier.DeadLetter{}
	for len(letters) < 2 {
		fetches := dead.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d dead letters, want 2", len(letters))
		}
		fetches.EachRecord(func(rec *kgo.Record) { d := tier.DecodeDead(rec); letters[d.EventID] = d })
	}
	d := letters["bad"]
	if d.Reason != tier.Poison || string(d.Key) != "msg-bad" || string(d.Value) != "{}" || !strings.Contains(d.LastError, bad.Topic) {
		t.Errorf("dead letter is %+v", d)
	}
	if len(d.Headers) != 4 || string(d.Headers[1].Value) != "kept" {
		t.Errorf("dead letter carries %v", d.Headers)
	}
	if d := letters["lost"]; d.Reason != tier.Poison || d.Ticket.Endpoint != "acme" || d.Ticket.Attempt != 2 {
		t.Errorf("dead letter of a missing lane is %+v", d)
	}
	r.until("the commit to pass poison", func() bool {
		_, end := r.ends("retry.a", bad.Partition)
		return r.committed("retry.a", bad.Partition) == end
	})
}

func TestTrimKeepsTheLastRecord(t *testing.T) {
	r := newRig(t)
	cfg := testConfig()
	cfg.TrimInterval = 100 * time.Millisecond
	p := r.start(cfg)
	r.ready(p)
	r.all(r.place("a", 300, func(i int) time.Duration { return time.Duration(i) * 12 * time.Millisecond }))
	used := 0
	r.until("logs trimmed to their last record", func() bool {
		used = 0
		left := 0
		eachSlot(func(suffix string, partition int32) {
			start, end := r.ends(suffix, partition)
			if end == 0 {
				return
			}
			used++
			switch {
			case start == end:
				t.Fatalf("%s/%d lost its last record", suffix, partition)
			case start != end-1:
				left++
			}
		})
		return left == 0
	})
	if used != 8 {
		t.Errorf("%d slots were used, want all 8", used)
	}
	p.halt()
	q := r.start(cfg)
	r.ready(q)
	again := r.place("b", 100, func(i int) time.Duration { return time.Duration(i) * 30 * time.Millisecond })
	if duplicates := r.all(again); duplicates != 0 {
		t.Errorf("%d came twice after a trim", duplicates)
	}
	if n := value(q.met.belowStart); n != 0 {
		t.Errorf("own trim is counted as a loss %v times", n)
	}
}

func TestQuietSlotsAreCommittedAgain(t *testing.T) {
	r := newRig(t)
	cfg := testConfig()
	cfg.RecommitInterval = 200 * time.Millisecond
	p := r.start(cfg)
	r.ready(p)
	r.until("commits without traffic", func() bool { return value(p.met.commits) >= 4 })
	eachSlot(func(suffix string, partition int32) {
		if at := r.committed(suffix, partition); at != 0 {
			t.Errorf("%s/%d is committed at %d, want 0", suffix, partition, at)
		}
	})
}

func TestSmallWheelIsLateButLosesNothing(t *testing.T) {
	r := newRig(t)
	cfg := testConfig()
	cfg.WheelRecords = 20
	p := r.start(cfg)
	r.ready(p)
	ids := r.place("w", 1500, func(int) time.Duration { return 300 * time.Millisecond })
	r.until("all of them", func() bool {
		if s := p.snapshot(); s.held > 20 {
			t.Fatalf("%d are held, the bound is 20", s.held)
		}
		return r.have(ids) == len(ids)
	})
	if duplicates := r.all(ids); duplicates != 0 {
		t.Errorf("%d came twice", duplicates)
	}
	r.lateness(ids)
}

func TestLogTrimmedUnderARunningSlotIsReadFromItsStart(t *testing.T) {
	r := newRig(t)
	cfg := testConfig()
	p := r.start(cfg)
	r.ready(p)
	// All of them are immature for 2.4 s, so the slot pauses after its first fetch.
	ids := r.place("x", 6000, func(int) time.Duration { return 3900 * time.Millisecond })
	const suffix, partition = "retry.c", 2
	r.until("a paused slot", func() bool { return p.snapshot().paused > 0 })
	topic := r.b.Prefix + suffix
	_, err := r.adm.DeleteRecords(context.Background(), kadm.Offsets{topic: {partition: {Topic: topic, Partition: partition, At: 5500}}})
	if err != nil {
		t.Fatal(err)
	}
	r.all(ids[5500:])
	r.until("the commit at the log end", func() bool { return r.committed(suffix, partition) == 6000 })
	if n := value(p.met.belowStart); n != 1 {
		t.Errorf("the loss is counted %v times", n)
	}
	if got := r.have(ids); got == len(ids) {
		t.Error("nothing was missing: the slot was not paused when its log was cut")
	}
}

func TestStartBelowTheLogIsCounted(t *testing.T) {
	r := newRig(t)
	ids := r.place("x", 10, func(int) time.Duration { return 500 * time.Millisecond })
	topic := r.b.Prefix + "retry.b"
	r.commit("retry.b", 0, 3)
	_, err := r.adm.DeleteRecords(context.Background(), kadm.Offsets{topic: {0: {Topic: topic, Partition: 0, At: 6}}})
	if err != nil {
		t.Fatal(err)
	}
	p := r.start(testConfig())
	r.ready(p)
	r.all(ids[6:])
	if got := r.have(ids); got != 4 {
		t.Errorf("%d came, want the last 4", got)
	}
	if n := value(p.met.belowStart); n != 1 {
		t.Errorf("the loss is counted %v times", n)
	}
}

func TestCommitPastTheEndStopsWithAnError(t *testing.T) {
	r := newRig(t)
	r.commit("retry.b", 1, 1000)
	err := r.start(testConfig()).fails(rigWithin)
	var past *errPastEnd
	if !errors.As(err, &past) || past.partition != 1 || past.at != 1000 || past.end != 0 {
		t.Fatalf("Run ended with %v", err)
	}
	if !strings.Contains(err.Error(), "--reset-offsets") {
		t.Errorf("the error names no remedy: %v", err)
	}
	if at := r.committed("retry.b", 1); at != 1000 {
		t.Errorf("the commit was moved to %d", at)
	}
}

func (r *rig) commit(suffix string, partition int32, at int64) {
	r.t.Helper()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: r.b.Prefix + suffix, Partition: partition, At: at})
	if err := r.adm.CommitAllOffsets(context.Background(), event.GroupName(r.b.Prefix, role), offsets); err != nil {
		r.t.Fatal(err)
	}
}

func TestStartRefusesTopicsThatDoNotFit(t *testing.T) {
	r := newRig(t)
	cfg := testConfig()
	steps := cfg.Ladder.Steps()
	steps[2].Slots = 4
	var err error
	if cfg.Ladder, err = tier.NewLadder(append(steps, tier.Step{
		Suffix: "retry.d", Floor: 4800 * time.Millisecond, Width: time.Second, Slots: 1, Shards: 1,
	})); err != nil {
		t.Fatal(err)
	}
	got := r.start(cfg).fails(rigWithin).Error()
	if !strings.Contains(got, "retry.c has 3 partitions, the ladder has 4 slots") || !strings.Contains(got, "retry.d") {
		t.Errorf("Run ended with %s", got)
	}
}

func TestSecondProcessWithTheSameInstanceEndsTheFirst(t *testing.T) {
	r := newRig(t)
	cfg := testConfig()
	cfg.InstanceID = "one"
	first := r.start(cfg)
	r.ready(first)
	second := r.start(cfg)
	if err := first.fails(rigWithin); !errors.Is(err, lane.ErrFenced) {
		t.Fatalf("the first process ended with %v", err)
	}
	r.ready(second)
	r.all(r.place("x", 20, func(int) time.Duration { return 0 }))
}
