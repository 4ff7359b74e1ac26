package lane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event"
)

const patience = 30 * time.Second

// holder records what one member owns.
type holder struct {
	*Member
	mu      sync.Mutex
	owned   map[int32]bool
	changed chan struct{}
	stop    context.CancelFunc
	done    chan error
}

func join(t *testing.T, b *brokertest.Broker, topic, instance string, keep bool) *holder {
	t.Helper()
	h := &holder{owned: map[int32]bool{}, changed: make(chan struct{}, 1), done: make(chan error, 1)}
	set := func(own bool) func(context.Context, Assignment) {
		return func(_ context.Context, a Assignment) {
			h.mu.Lock()
			for _, p := range a[topic] {
				if own {
					h.owned[p] = true
				} else {
					delete(h.owned, p)
				}
			}
			h.mu.Unlock()
			select {
			case h.changed <- struct{}{}:
			default:
			}
		}
	}
	m, err := NewMember(Config{
		Kafka: b.Opts, Group: b.Prefix + "g", Topics: []string{topic}, InstanceID: instance, KeepMembership: keep,
		Log: slog.New(slog.DiscardHandler), Assigned: set(true), Revoked: set(false), Lost: set(false),
	})
	if err != nil {
		t.Fatal(err)
	}
	h.Member = m
	ctx, cancel := context.WithCancel(context.Background())
	h.stop = cancel
	go func() { h.done <- m.Run(ctx) }()
	t.Cleanup(cancel)
	return h
}

func (h *holder) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.owned)
}

func (h *holder) waitOwns(t *testing.T, n int) {
	t.Helper()
	deadline := time.After(patience)
	for h.count() != n {
		select {
		case <-h.changed:
		case <-deadline:
			t.Fatalf("member owns %d partitions, want %d", h.count(), n)
		}
	}
}

func (h *holder) leave(t *testing.T) {
	t.Helper()
	h.stop()
	select {
	case err := <-h.done:
		if err != nil {
			t.Fatalf("leave: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("member does not leave")
	}
}

func setup(t *testing.T, partitions int32) (*brokertest.Broker, string, string) {
	t.Helper()
	b := brokertest.Start(t)
	main := event.Topic{Suffix: "main", Partitions: partitions}
	side := event.Topic{Suffix: "side", Partitions: partitions}
	b.CreateTopics(t, main, side)
	return b, main.Name(b.Prefix), side.Name(b.Prefix)
}

func TestCommitOfATopicTheGroupDoesNotSubscribe(t *testing.T) {
	b, main, side := setup(t, 3)
	h := join(t, b, main, "", false)
	h.waitOwns(t, 3)
	ctx := context.Background()
	want := []Offset{
		{Topic: main, Partition: 1, At: 7, Metadata: "m-main"},
		{Topic: side, Partition: 1, At: 9, Metadata: "m-side"},
	}
	if err := h.Commit(ctx, want); err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		got, err := h.Committed(ctx, w.Topic, []int32{0, 1})
		if err != nil {
			t.Fatal(err)
		}
		if got[1] != w {
			t.Errorf("committed %+v, want %+v", got[1], w)
		}
		if got[0].At != -1 {
			t.Errorf("nothing was committed for partition 0, got %+v", got[0])
		}
	}
	h.leave(t)
}

func TestMembersShareAndCleanLeaveHandsOver(t *testing.T) {
	b, main, _ := setup(t, 4)
	first := join(t, b, main, "first", false)
	first.waitOwns(t, 4)
	second := join(t, b, main, "second", false)
	second.waitOwns(t, 2)
	first.waitOwns(t, 2)
	// A static member that left cleanly must not keep its lanes until its session ends.
	start := time.Now()
	first.leave(t)
	second.waitOwns(t, 4)
	if took := time.Since(start); took > 8*time.Second {
		t.Errorf("handing over took %s: the leave did not reach the group", took)
	}
	second.leave(t)
}

func TestTakenOverInstanceIDFencesTheFirst(t *testing.T) {
	b, main, _ := setup(t, 2)
	first := join(t, b, main, "same", false)
	first.waitOwns(t, 2)
	second := join(t, b, main, "same", false)
	second.waitOwns(t, 2)
	select {
	case err := <-first.done:
		if !errors.Is(err, ErrFenced) {
			t.Fatalf("first ended with %v, want ErrFenced", err)
		}
	case <-time.After(patience):
		t.Fatal("the first process was not told that it is fenced")
	}
	if n := first.count(); n != 0 {
		t.Errorf("fenced member still believes it owns %d partitions", n)
	}
	err := first.Commit(context.Background(), []Offset{{Topic: main, Partition: 0, At: 1}})
	if err == nil {
		t.Error("commit of a fenced member was accepted")
	} else if !errors.Is(err, kgo.ErrClientClosed) && !strings.Contains(err.Error(), main) {
		t.Errorf("the error does not name the topic: %v", err)
	}
	second.leave(t)
}

// TestReaderNeverDeliversAnEarlierIncarnation adds a partition again at its start while
// records of the first reading are on their way, many times.
func TestReaderNeverDeliversAnEarlierIncarnation(t *testing.T) {
	b, main, _ := setup(t, 1)
	produce(t, b, main, 2000)
	var (
		mu     sync.Mutex
		expect int64
		wrong  error
		got    = make(chan struct{}, 1)
	)
	r, err := NewReader(append(b.Opts, kgo.FetchMaxWait(50*time.Millisecond), kgo.FetchMaxBytes(16<<10)),
		func(_ string, _ int32, recs []*kgo.Record) {
			mu.Lock()
			defer mu.Unlock()
			for _, rec := range recs {
				if expect == -1 || rec.Offset != expect {
					wrong = fmt.Errorf("offset %d delivered, want %d", rec.Offset, expect)
				}
				expect++
			}
			select {
			case got <- struct{}{}:
			default:
			}
		},
		func(topic string, p int32, err error) { t.Errorf("read %s/%d: %v", topic, p, err) })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	for round := range 30 {
		mu.Lock()
		expect = int64(round * 10)
		mu.Unlock()
		r.Add(main, 0, int64(round*10))
		if round%3 == 0 {
			r.Pause(main, 0)
			r.Resume(main, 0)
		}
		select {
		case <-got:
		case <-time.After(patience):
			t.Fatal("nothing delivered")
		}
		r.Remove(main, 0)
		mu.Lock()
		expect = -1 // whatever comes now comes after Remove returned
		mu.Unlock()
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.Remove(main, 0) // returns although nobody polls any more
	if wrong != nil {
		t.Fatal(wrong)
	}
}

func TestReaderReportsPositionsOutsideTheLog(t *testing.T) {
	b, main, _ := setup(t, 1)
	produce(t, b, main, 10)
	adm := kadm.NewClient(b.Client(t))
	var trim kadm.Offsets
	trim.Add(kadm.Offset{Topic: main, Partition: 0, At: 5})
	if _, err := adm.DeleteRecords(context.Background(), trim); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 16)
	delivered := make(chan int64, 16)
	r, err := NewReader(b.Opts, func(_ string, _ int32, recs []*kgo.Record) { delivered <- recs[0].Offset },
		func(_ string, _ int32, err error) {
			select {
			case failed <- err:
			default:
			}
		})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = r.Run(ctx) }()
	r.Add(main, 0, 2)
	select {
	case err := <-failed:
		t.Logf("reported: %v", err)
	case off := <-delivered:
		t.Fatalf("offset %d delivered although the position was trimmed: a silent skip", off)
	case <-time.After(patience):
		t.Fatal("a position below the log start was not reported")
	}
	r.Add(main, 0, 5) // the owner decides, and reading goes on
	select {
	case off := <-delivered:
		if off != 5 {
			t.Fatalf("delivered from %d, want 5", off)
		}
	case <-time.After(patience):
		t.Fatal("reading did not go on")
	}
}

func produce(t *testing.T, b *brokertest.Broker, topic string, n int) {
	t.Helper()
	cl := b.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range n {
		cl.Produce(context.Background(), &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "value %d", i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Errorf("produce: %v", err)
			}
		})
	}
	if err := cl.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
}
