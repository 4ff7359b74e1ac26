package scan_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/ingest/event/scan"
)

// bench is one topic with one partition and a client to read it.
type bench struct {
	b     *brokertest.Broker
	cl    *kgo.Client
	topic string
	ctx   context.Context
}

func setup(t *testing.T, configs map[string]string) *bench {
	t.Helper()
	b := brokertest.Start(t)
	topic := event.Topic{Suffix: "log", Partitions: 1, Configs: configs}
	b.CreateTopics(t, topic)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return &bench{b: b, cl: b.Client(t), topic: topic.Name(b.Prefix), ctx: ctx}
}

// produce writes n records, each in a batch of its own so that offsets and batches agree.
func (s *bench) produce(t *testing.T, cl *kgo.Client, n int, key func(int) string) {
	t.Helper()
	for i := range n {
		r := &kgo.Record{Topic: s.topic, Key: []byte(key(i)), Value: fmt.Appendf(nil, "v%d", i)}
		if err := cl.ProduceSync(s.ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *bench) txn(t *testing.T, n int, commit kgo.TransactionEndTry) {
	t.Helper()
	cl := s.b.Client(t, kgo.TransactionalID(s.b.Prefix+"txn"), kgo.DefaultProduceTopic(s.topic))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	s.produce(t, cl, n, unique)
	if err := cl.EndTransaction(s.ctx, commit); err != nil {
		t.Fatal(err)
	}
}

func (s *bench) end(t *testing.T, committed bool) int64 {
	t.Helper()
	end, err := scan.End(s.ctx, s.cl, s.topic, 0, committed)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

// settled waits for the committed end: Kafka answers a commit before its markers are written.
func (s *bench) settled(t *testing.T, want int64) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for s.end(t, true) != want {
		select {
		case <-s.ctx.Done():
			t.Fatalf("end = %d, want %d", s.end(t, true), want)
		case <-tick.C:
		}
	}
}

// read runs Range and returns the offsets that came.
func (s *bench) read(from, until int64, committed bool) (offsets []int64, next int64, err error) {
	next, err = scan.Range(s.ctx, s.cl, scan.Spec{Topic: s.topic, From: from, Until: until, ReadCommitted: committed},
		func(r *kgo.Record) error {
			offsets = append(offsets, r.Offset)
			return nil
		})
	return offsets, next, err
}

func unique(i int) string { return fmt.Sprintf("k%d", i) }
func same(int) string     { return "k" }

func seq(from, to int64) (s []int64) {
	for ; from < to; from++ {
		s = append(s, from)
	}
	return s
}

func TestRangeReadsExactlyThePart(t *testing.T) {
	s := setup(t, nil)
	s.produce(t, s.cl, 20, unique)
	f := func(from, until int64, want []int64) {
		t.Helper()
		got, next, err := s.read(from, until, false)
		if err != nil || next != max(from, until) || !slices.Equal(got, want) {
			t.Errorf("Range [%d,%d) = %v, next %d, %v; want %v", from, until, got, next, err, want)
		}
	}
	f(0, 20, seq(0, 20))
	f(5, 6, seq(5, 6))
	f(0, 0, nil)
	f(20, 20, nil)
	f(12, 7, nil)
	f(19, 20, seq(19, 20))
}

func TestRangeEndsOnTransactionMarkersAndAbortedRecords(t *testing.T) {
	s := setup(t, nil)
	s.produce(t, s.cl, 3, unique) // 0 1 2
	s.txn(t, 2, kgo.TryCommit)    // 3 4, marker 5
	s.txn(t, 4, kgo.TryAbort)     // 6 7 8 9, marker 10
	end := int64(11)
	s.settled(t, end)
	got, next, err := s.read(0, end, true)
	if err != nil || next != end || !slices.Equal(got, seq(0, 5)) {
		t.Errorf("read committed: %v, next %d, %v", got, next, err)
	}
	got, next, err = s.read(6, 10, true)
	if err != nil || next != 10 || len(got) != 0 {
		t.Errorf("inside an aborted transaction: %v, next %d, %v", got, next, err)
	}
	want := []int64{0, 1, 2, 3, 4, 6, 7, 8, 9}
	if got, next, err = s.read(0, end, false); err != nil || next != end || !slices.Equal(got, want) {
		t.Errorf("read uncommitted: %v, next %d, %v", got, next, err)
	}
}

func TestEndIsTheLastStableOffsetWhileATransactionIsOpen(t *testing.T) {
	s := setup(t, nil)
	s.produce(t, s.cl, 2, unique)
	cl := s.b.Client(t, kgo.TransactionalID(s.b.Prefix+"open"))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	s.produce(t, cl, 3, unique)
	if got := s.end(t, true); got != 2 {
		t.Errorf("committed end = %d, want 2", got)
	}
	if got := s.end(t, false); got != 5 {
		t.Errorf("end = %d, want 5", got)
	}
	tail := scan.NewTail(s.cl, s.topic, 0, 0, true)
	recs, next, end, err := tail.Next(s.ctx, 100*time.Millisecond)
	if err != nil || len(recs) != 2 || next != 2 || end != 2 {
		t.Fatalf("tail before commit: %d records, next %d, end %d, %v", len(recs), next, end, err)
	}
	if err := cl.EndTransaction(s.ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	var got int
	for next < 6 {
		if recs, next, end, err = tail.Next(s.ctx, 100*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		got += len(recs)
	}
	if got != 3 || end != 6 {
		t.Errorf("tail after commit: %d records, end %d", got, end)
	}
}

func TestRangeBelowLogStartReadsTheRestAndSaysSo(t *testing.T) {
	s := setup(t, nil)
	s.produce(t, s.cl, 10, unique)
	trim(t, s, 4)
	got, next, err := s.read(1, 8, false)
	var oor *scan.OutOfRangeError
	if !errors.As(err, &oor) || !oor.Below() || oor.Offset != 1 || oor.Start != 4 {
		t.Fatalf("err = %v", err)
	}
	if next != 8 || !slices.Equal(got, seq(4, 8)) {
		t.Errorf("got %v, next %d", got, next)
	}
	if got, next, err = s.read(1, 3, false); !errors.As(err, &oor) || next != 3 || len(got) != 0 {
		t.Errorf("all gone: %v, next %d, %v", got, next, err)
	}
	tail := scan.NewTail(s.cl, s.topic, 0, 1, false)
	if _, next, _, err := tail.Next(s.ctx, time.Millisecond); !errors.As(err, &oor) || next != 1 {
		t.Errorf("tail below start: next %d, %v", next, err)
	}
	if start, err := scan.Start(s.ctx, s.cl, s.topic, 0); err != nil || start != 4 {
		t.Errorf("Start = %d, %v", start, err)
	}
}

func trim(t *testing.T, s *bench, to int64) {
	t.Helper()
	adm := kadm.NewClient(s.cl)
	var o kadm.Offsets
	o.AddOffset(s.topic, 0, to, -1)
	resps, err := adm.DeleteRecords(s.ctx, o)
	if err == nil {
		err = resps.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestRangeOverALogWithoutRecords(t *testing.T) {
	s := setup(t, nil)
	if got, next, err := s.read(0, s.end(t, false), false); err != nil || next != 0 || len(got) != 0 {
		t.Errorf("never written: %v, next %d, %v", got, next, err)
	}
	s.produce(t, s.cl, 5, unique)
	trim(t, s, 5)
	got, next, err := s.read(5, 5, false)
	if err != nil || next != 5 || len(got) != 0 {
		t.Errorf("all trimmed: %v, next %d, %v", got, next, err)
	}
	tail := scan.NewTail(s.cl, s.topic, 0, 5, false)
	if recs, next, end, err := tail.Next(s.ctx, time.Millisecond); err != nil || len(recs) != 0 || next != 5 || end != 5 {
		t.Errorf("tail at the end of nothing: %d records, next %d, end %d, %v", len(recs), next, end, err)
	}
}

func TestPositionPastTheEndIsAnError(t *testing.T) {
	s := setup(t, nil)
	s.produce(t, s.cl, 5, unique)
	var oor *scan.OutOfRangeError
	if _, next, err := s.read(9, 12, false); !errors.As(err, &oor) || oor.Below() || oor.End != 5 || next != 9 {
		t.Errorf("next %d, err %v", next, err)
	}
	if scan.Retriable(oor) {
		t.Error("retriable")
	}
}

func TestRangeStopsAtTheRecordThatFnRefuses(t *testing.T) {
	s := setup(t, nil)
	s.produce(t, s.cl, 5, unique)
	bad := errors.New("bad")
	next, err := scan.Range(s.ctx, s.cl, scan.Spec{Topic: s.topic, Until: 5}, func(r *kgo.Record) error {
		if r.Offset == 3 {
			return bad
		}
		return nil
	})
	if next != 3 || !errors.Is(err, bad) {
		t.Errorf("next %d, %v", next, err)
	}
}

func TestRangeWaitsForRecordsToCome(t *testing.T) {
	s := setup(t, nil)
	s.produce(t, s.cl, 1, unique)
	type result struct {
		got  []int64
		next int64
		err  error
	}
	first := make(chan struct{})
	done := make(chan result, 1)
	go func() {
		var r result
		r.next, r.err = scan.Range(s.ctx, s.b.Client(t), scan.Spec{Topic: s.topic, Until: 3}, func(rec *kgo.Record) error {
			if rec.Offset == 0 {
				close(first)
			}
			r.got = append(r.got, rec.Offset)
			return nil
		})
		done <- r
	}()
	<-first
	s.produce(t, s.cl, 4, unique)
	if r := <-done; r.err != nil || r.next != 3 || !slices.Equal(r.got, seq(0, 3)) {
		t.Errorf("%+v", r)
	}
}

func TestCancelEndsAWait(t *testing.T) {
	s := setup(t, nil)
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err := scan.Range(ctx, s.cl, scan.Spec{Topic: s.topic, Until: 3}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Range: %v", err)
	}
	ctx, cancel = context.WithTimeout(s.ctx, 50*time.Millisecond)
	defer cancel()
	if _, _, _, err := scan.NewTail(s.cl, s.topic, 0, 0, false).Next(ctx, 10*time.Second); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Next: %v", err)
	}
}
