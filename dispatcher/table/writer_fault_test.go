package table

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event"
)

// rig is a topic with a writer whose connections can be cut, and a rival on sound ones.
type rig struct {
	b     *brokertest.Broker
	topic string
	cut   *cutter
	w     *Writer
	rival *Writer
	ctx   context.Context
	calls int // of fn
}

func newRig(t *testing.T) *rig {
	t.Helper()
	b := brokertest.Start(t)
	topic := event.Topic{Suffix: "table", Partitions: 1, Configs: map[string]string{"cleanup.policy": "compact"}}
	b.CreateTopics(t, topic)
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	t.Cleanup(cancel)
	g := &rig{b: b, topic: topic.Name(b.Prefix), ctx: ctx}
	mine := newCutWriter(t, g)
	g.cut, g.w, g.rival = mine.cut, mine.w, newCutWriter(t, g).w
	return g
}

// cutWriter is a writer and what breaks its connections.
type cutWriter struct {
	cut *cutter
	w   *Writer
}

func newCutWriter(t *testing.T, g *rig) cutWriter {
	t.Helper()
	c := &cutter{}
	opts := append(c.opts(g.b.Opts), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))
	w, err := NewWriter(Config{Kafka: opts, Topic: g.topic}, g.b.Prefix+"writer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return cutWriter{c, w}
}

func count(v View) int {
	e, _ := v.Get("n")
	n, _ := strconv.Atoi(string(e.Value))
	return n
}

func addOne(v View) ([]Change, error) {
	return []Change{{Key: "n", Value: strconv.AppendInt(nil, int64(count(v)+1), 10)}}, nil
}

func (g *rig) increment(v View) ([]Change, error) {
	g.calls++
	return addOne(v)
}

// total is the number as the rival finds it.
func (g *rig) total(t *testing.T) (n int) {
	t.Helper()
	_, err := g.rival.Update(g.ctx, func(v View) ([]Change, error) {
		n = count(v)
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// overtake is what the rival does in the middle of an Update.
func (g *rig) overtake(t *testing.T) func() {
	return func() {
		_, err := g.rival.Update(g.ctx, addOne)
		if err != nil {
			t.Errorf("rival: %v", err)
		}
	}
}

// check compares the number and how often fn ran since the last check. The rival's look has
// fenced the writer, so it is made to claim anew.
func (g *rig) check(t *testing.T, want, calls int) {
	t.Helper()
	if got := g.total(t); got != want || g.calls != calls {
		t.Errorf("%d increments make %d; fn ran %d times, want %d", want, got, g.calls, calls)
	}
	g.calls = 0
	g.w.discard()
}

func (g *rig) update(t *testing.T) {
	t.Helper()
	if _, err := g.w.Update(g.ctx, g.increment); err != nil {
		t.Fatal(err)
	}
}

func TestOvertakenBetweenProduceAndCommit(t *testing.T) {
	g := newRig(t)
	g.update(t)
	g.w.beforeCommit = func() {
		g.w.beforeCommit = nil
		g.overtake(t)()
	}
	g.update(t)
	g.check(t, 3, 3)
}

func TestLostRequestOfACommit(t *testing.T) {
	g := newRig(t)
	g.update(t)
	g.cut.arm(kmsg.EndTxn, 1, false, nil)
	g.update(t)
	g.check(t, 2, 2) // the client sent it again
	g.cut.arm(kmsg.EndTxn, 1, false, g.overtake(t))
	g.update(t)
	g.check(t, 4, 2) // fenced: nothing was committed, fn ran again
}

func TestLostAnswerOfACommit(t *testing.T) {
	g := newRig(t)
	g.update(t)
	g.cut.arm(kmsg.EndTxn, 1, true, nil)
	g.update(t)
	g.check(t, 2, 2)
	// The client sends the commit again and is told that it is fenced, although the first one
	// was carried out. Running fn again would count twice.
	g.cut.arm(kmsg.EndTxn, 1, true, g.overtake(t))
	g.update(t)
	g.check(t, 4, 1)
}

func TestLostProduceAnswers(t *testing.T) {
	g := newRig(t)
	g.update(t)
	for _, after := range []bool{false, true} {
		g.cut.arm(kmsg.Produce, 1, after, nil)
		g.update(t)
		g.cut.arm(kmsg.InitProducerID, 1, after, nil)
		g.w.discard()
		g.update(t)
	}
	if got := g.total(t); got != 5 {
		t.Errorf("5 increments make %d", got)
	}
}

// TestRandomCutsNeitherLoseNorRepeat races two writers whose connections break at random
// requests, before or after the broker has carried them out.
func TestRandomCutsNeitherLoseNorRepeat(t *testing.T) {
	g := newRig(t)
	other := newCutWriter(t, g)
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	var wg sync.WaitGroup
	for i, p := range []cutWriter{{g.cut, g.w}, other} {
		rnd := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
		wg.Go(func() {
			for range 40 {
				if rnd.IntN(2) == 0 {
					keys := []kmsg.Key{kmsg.EndTxn, kmsg.EndTxn, kmsg.Produce, kmsg.InitProducerID, kmsg.Fetch, kmsg.AddPartitionsToTxn}
					p.cut.arm(keys[rnd.IntN(len(keys))], 1+rnd.IntN(2), rnd.IntN(2) == 0, nil)
				}
				if _, err := p.w.Update(g.ctx, addOne); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := g.total(t); got != 80 {
		t.Errorf("80 increments make %d", got)
	}
}

func TestCancelBeforeTheCommitLeavesNothing(t *testing.T) {
	g := newRig(t)
	g.update(t)
	ctx, cancel := context.WithCancel(g.ctx)
	g.w.beforeCommit = cancel
	if _, err := g.w.Update(ctx, g.increment); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("err = %v", err)
	}
	g.w.beforeCommit = nil
	g.check(t, 1, 2)
	g.update(t)
	g.check(t, 2, 1)
}

// TestCancelAfterTheCommitWasSent: the outcome is known although the caller has left.
func TestCancelAfterTheCommitWasSent(t *testing.T) {
	g := newRig(t)
	g.update(t)
	ctx, cancel := context.WithCancel(g.ctx)
	g.cut.arm(kmsg.EndTxn, 1, true, cancel)
	if _, err := g.w.Update(ctx, g.increment); err != nil {
		t.Errorf("err = %v", err)
	}
	g.check(t, 2, 2)
}

// fake returns the cluster to break, or ends the test's fake-only part on a real broker.
func (g *rig) fake() *kfake.Cluster { return g.b.Fake() }

func TestCoordinatorAndLeaderErrors(t *testing.T) {
	g := newRig(t)
	want := 0
	for _, key := range []kmsg.Key{kmsg.EndTxn, kmsg.InitProducerID, kmsg.FindCoordinator, kmsg.Produce, kmsg.AddPartitionsToTxn, kmsg.Fetch, kmsg.ListOffsets} {
		for _, e := range []*kerr.Error{
			kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.ConcurrentTransactions,
			kerr.NotLeaderForPartition, kerr.RequestTimedOut, kerr.InvalidProducerEpoch, kerr.ProducerFenced,
			kerr.InvalidProducerIDMapping, kerr.InvalidTxnState, kerr.TransactionAbortable, kerr.UnknownServerError,
			kerr.UnknownProducerID, kerr.NotEnoughReplicasAfterAppend,
		} {
			if g.fake() == nil || reads(key) && !readable(e) {
				continue
			}
			fault := g.fake().Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: e, Count: 1})
			g.update(t)
			fault.Remove()
			if want++; g.total(t) != want {
				t.Fatalf("%s answered by %s: %d increments make %d", key.Name(), e.Message, want, g.total(t))
			}
		}
	}
}

// reads and readable keep errors away from requests that cannot get them.
func reads(key kmsg.Key) bool { return key == kmsg.Fetch || key == kmsg.ListOffsets }

func readable(e *kerr.Error) bool {
	return e == kerr.NotLeaderForPartition || e == kerr.UnknownServerError || e == kerr.RequestTimedOut
}

func TestPermanentErrorsComeBackAtOnce(t *testing.T) {
	g := newRig(t)
	if g.fake() == nil {
		return
	}
	for _, key := range []kmsg.Key{kmsg.InitProducerID, kmsg.Produce} {
		e := kerr.TransactionalIDAuthorizationFailed
		if key == kmsg.Produce {
			e = kerr.TopicAuthorizationFailed
		}
		fault := g.fake().Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: e, Count: -1})
		if _, err := g.w.Update(g.ctx, g.increment); !errors.Is(err, e) || fault.Hits() != 1 {
			t.Errorf("%s: %v after %d requests", key.Name(), err, fault.Hits())
		}
		fault.Remove()
	}
	if got := g.total(t); got != 0 {
		t.Errorf("total %d", got)
	}
}

func TestUnknownOutcomeIsReportedAndTheNextUpdateIsRight(t *testing.T) {
	g := newRig(t)
	if g.fake() == nil {
		return
	}
	g.update(t)
	g.w.settleFor = 300 * time.Millisecond
	for _, after := range []bool{false, true} {
		before := g.total(t)
		g.w.discard()
		if err := g.w.claim(g.ctx); err != nil {
			t.Fatal(err)
		}
		g.cut.arm(kmsg.EndTxn, 1000, after, nil)
		fault := g.fake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.CoordinatorNotAvailable, Count: -1})
		_, err := g.w.Update(g.ctx, g.increment)
		if !errors.Is(err, ErrUnknownOutcome) {
			t.Fatalf("err = %v", err)
		}
		g.cut.arm(kmsg.EndTxn, 0, false, nil)
		fault.Remove()
		want := before
		if after {
			want++ // it was committed, and nobody could know
		}
		if got := g.total(t); got != want {
			t.Errorf("carried out %v: total %d, want %d", after, got, want)
		}
		g.update(t)
		if got := g.total(t); got != want+1 {
			t.Errorf("carried out %v: next update makes %d", after, got)
		}
	}
}

func TestCommittedButNotReadable(t *testing.T) {
	g := newRig(t)
	if g.fake() == nil {
		return
	}
	g.update(t)
	g.w.settleFor = 300 * time.Millisecond
	var fault *kfake.FaultHandle
	g.w.beforeCommit = func() {
		fault = g.fake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.KafkaStorageError, Count: -1})
	}
	next, err := g.w.Update(g.ctx, g.increment)
	if !errors.Is(err, ErrNotVisible) || errors.Is(err, ErrUnknownOutcome) || next != 3 {
		t.Errorf("next %d, err %v", next, err)
	}
	fault.Remove()
	g.w.beforeCommit = nil
	g.check(t, 2, 2)
	g.w.settleFor = settleLimit
	g.update(t)
	g.check(t, 3, 1)
}
