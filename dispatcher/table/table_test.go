package table_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/dispatcher/table"
	"github.com/hookline/hookline/ingest/event"
)

// bench is a broker with one compacted topic.
type bench struct {
	b     *brokertest.Broker
	topic string
	ctx   context.Context
}

func setup(t *testing.T) *bench {
	t.Helper()
	b := brokertest.Start(t)
	topic := event.Topic{Suffix: "table", Partitions: 1, Configs: map[string]string{"cleanup.policy": "compact"}}
	b.CreateTopics(t, topic)
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	t.Cleanup(cancel)
	return &bench{b: b, topic: topic.Name(b.Prefix), ctx: ctx}
}

func (s *bench) config() table.Config { return table.Config{Kafka: s.b.Opts, Topic: s.topic} }

// run starts a Table and stops it when the test ends.
func (s *bench) run(t *testing.T, cfg table.Config) *table.Table {
	t.Helper()
	tab, err := table.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- tab.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := tab.Ready(); !errors.Is(err, table.ErrStopped) {
			t.Errorf("Ready after Run: %v", err)
		}
	})
	return tab
}

func (s *bench) writer(t *testing.T, cfg table.Config) *table.Writer {
	t.Helper()
	w, err := table.NewWriter(cfg, s.b.Prefix+"writer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func (s *bench) put(t *testing.T, key string, value []byte) int64 {
	t.Helper()
	r := &kgo.Record{Topic: s.topic, Key: []byte(key), Value: value}
	cl := s.b.Client(t)
	if err := cl.ProduceSync(s.ctx, r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return r.Offset + 1
}

func set(changes ...string) func(table.View) ([]table.Change, error) {
	return func(table.View) (out []table.Change, err error) {
		for i := 0; i < len(changes); i += 2 {
			out = append(out, table.Change{Key: changes[i], Value: []byte(changes[i+1])})
		}
		return out, nil
	}
}

// increment adds one to the number under key.
func increment(key string) func(table.View) ([]table.Change, error) {
	return func(v table.View) ([]table.Change, error) {
		n := 0
		if e, ok := v.Get(key); ok {
			var err error
			if n, err = strconv.Atoi(string(e.Value)); err != nil {
				return nil, err
			}
		}
		return []table.Change{{Key: key, Value: strconv.AppendInt(nil, int64(n+1), 10)}}, nil
	}
}

func (s *bench) update(t *testing.T, w *table.Writer, fn func(table.View) ([]table.Change, error)) int64 {
	t.Helper()
	next, err := w.Update(s.ctx, fn)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// contents returns the table as a fresh reader finds it.
func (s *bench) contents(t *testing.T) map[string]string {
	t.Helper()
	tab := s.run(t, s.config())
	if err := tab.WaitProven(s.ctx, time.Now()); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	tab.Each(func(k string, e table.Entry) bool {
		got[k] = string(e.Value)
		return true
	})
	return got
}

func TestTableShowsWhatWasWritten(t *testing.T) {
	s := setup(t)
	s.put(t, "a", []byte("1"))
	s.put(t, "b", []byte("2"))
	s.put(t, "a", []byte("3"))
	tab := s.run(t, s.config())
	if err := tab.WaitApplied(s.ctx, 3); err != nil {
		t.Fatal(err)
	}
	if v, ok := tab.Get("a"); !ok || string(v) != "3" || tab.Len() != 2 {
		t.Errorf("a = %q %v, len %d", v, ok, tab.Len())
	}
	if err := tab.WaitApplied(s.ctx, s.put(t, "b", nil)); err != nil {
		t.Fatal(err)
	}
	if v, ok := tab.Get("b"); ok || tab.Len() != 1 {
		t.Errorf("b = %q after its tombstone", v)
	}
	if err := tab.WaitApplied(s.ctx, s.put(t, "c", []byte{})); err != nil {
		t.Fatal(err)
	}
	if v, ok := tab.Get("c"); !ok || v == nil || len(v) != 0 {
		t.Errorf("an empty value is %v, %v", v, ok)
	}
}

func TestEmptyTableIsProven(t *testing.T) {
	s := setup(t)
	tab := s.run(t, s.config())
	if err := tab.WaitProven(s.ctx, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := tab.Ready(); err != nil || tab.Len() != 0 || tab.Applied() != 0 {
		t.Errorf("Ready %v, len %d, applied %d", err, tab.Len(), tab.Applied())
	}
}

// TestProofCoversEveryEarlierWrite is the promise that fan-out rests on: what was acknowledged
// before t is in the view, and OnChange has returned for it, once the proof is at t or later.
func TestProofCoversEveryEarlierWrite(t *testing.T) {
	s := setup(t)
	var mu sync.Mutex
	heard := make(map[string]string)
	cfg := s.config()
	cfg.OnChange = func(key string, value []byte, _ int64) {
		mu.Lock()
		defer mu.Unlock()
		heard[key] = string(value)
	}
	tab := s.run(t, cfg)
	w := s.writer(t, s.config())
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			for i := range 15 {
				key, value := fmt.Sprint(g), fmt.Sprint(i)
				if _, err := w.Update(s.ctx, set(key, value)); err != nil {
					t.Error(err)
					return
				}
				if err := tab.WaitProven(s.ctx, time.Now()); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				got := heard[key]
				mu.Unlock()
				if v, _ := tab.Get(key); string(v) != value || got != value {
					t.Errorf("%s: wrote %s, view has %s, heard %s", key, value, v, got)
				}
			}
		})
	}
	wg.Wait()
}

func TestProofStaysYoung(t *testing.T) {
	s := setup(t)
	tab := s.run(t, s.config())
	if err := tab.WaitProven(s.ctx, time.Now()); err != nil {
		t.Fatal(err)
	}
	worst := time.Duration(0)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 400 {
		<-tick.C
		worst = max(worst, time.Since(tab.Proven()))
	}
	if worst > 750*time.Millisecond {
		t.Errorf("a proof was %v old", worst)
	}
	t.Logf("oldest proof %v", worst)
}

func TestChangeArrivesInMilliseconds(t *testing.T) {
	s := setup(t)
	tab := s.run(t, s.config())
	w := s.writer(t, s.config())
	s.update(t, w, set("k", "0"))
	var took []time.Duration
	for i := range 20 {
		next := s.update(t, w, set("k", fmt.Sprint(i)))
		began := time.Now()
		if err := tab.WaitApplied(s.ctx, next); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	if took[len(took)/2] > 100*time.Millisecond {
		t.Errorf("applied after %v", took)
	}
	t.Logf("median %v, worst %v", took[len(took)/2], took[len(took)-1])
}

func TestOnChangeComesInLogOrder(t *testing.T) {
	s := setup(t)
	w := s.writer(t, s.config())
	for i := range 5 {
		s.update(t, w, set(fmt.Sprint(i%2), fmt.Sprint(i)))
	}
	var offsets []int64
	cfg := s.config()
	cfg.OnChange = func(_ string, _ []byte, offset int64) { offsets = append(offsets, offset) }
	tab := s.run(t, cfg)
	if err := tab.WaitProven(s.ctx, time.Now()); err != nil {
		t.Fatal(err)
	}
	next := int64(0)
	for i := range 5 {
		next = s.update(t, w, set(fmt.Sprint(i), "x", "y", fmt.Sprint(i)))
	}
	if err := tab.WaitApplied(s.ctx, next); err != nil {
		t.Fatal(err)
	}
	if len(offsets) != 12 || !slices.IsSorted(offsets) {
		t.Errorf("offsets %v", offsets)
	}
}

func TestWaitsEndWithTheTableAndWithTheirContext(t *testing.T) {
	s := setup(t)
	tab, err := table.New(s.config())
	if err != nil {
		t.Fatal(err)
	}
	if tab.Ready() == nil {
		t.Error("ready before Run")
	}
	ctx, cancel := context.WithCancel(s.ctx)
	waits := make(chan error, 2)
	go func() { waits <- tab.WaitApplied(s.ctx, 1<<40) }()
	go func() { waits <- tab.WaitProven(s.ctx, time.Now().Add(time.Hour)) }()
	short, stop := context.WithTimeout(s.ctx, 10*time.Millisecond)
	defer stop()
	if err := tab.WaitApplied(short, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait with a short context: %v", err)
	}
	cancel()
	if err := tab.Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
	for range 2 {
		if err := <-waits; !errors.Is(err, table.ErrStopped) {
			t.Errorf("wait on a stopped table: %v", err)
		}
	}
}

func TestUpdateIsAllOrNothing(t *testing.T) {
	s := setup(t)
	w := s.writer(t, s.config())
	s.update(t, w, set("a", "1", "b", "2", "c", "3"))
	bad := errors.New("refused")
	if _, err := w.Update(s.ctx, func(table.View) ([]table.Change, error) { return nil, bad }); !errors.Is(err, bad) {
		t.Errorf("an error of fn came back as %v", err)
	}
	next := s.update(t, w, func(v table.View) ([]table.Change, error) {
		if v.Len() != 3 {
			t.Errorf("fn sees %d keys", v.Len())
		}
		return []table.Change{{Key: "a", Value: nil}, {Key: "b", Value: []byte("4")}}, nil
	})
	tab := s.run(t, s.config())
	if err := tab.WaitApplied(s.ctx, next); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"b": "4", "c": "3"}
	if got := s.contents(t); !maps.Equal(got, want) {
		t.Errorf("contents %v", got)
	}
	if same := s.update(t, w, func(table.View) ([]table.Change, error) { return nil, nil }); same < next {
		t.Errorf("an update without changes returned %d, before %d", same, next)
	}
	if _, err := w.Update(s.ctx, set("", "x")); err == nil {
		t.Error("a change without a key was taken")
	}
}

// TestRacingWritersLoseNoIncrement: four writers, 200 increments of one number.
func TestRacingWritersLoseNoIncrement(t *testing.T) {
	s := setup(t)
	var wg sync.WaitGroup
	for range 4 {
		w := s.writer(t, s.config())
		wg.Go(func() {
			for range 50 {
				if _, err := w.Update(s.ctx, increment("n")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := s.contents(t); got["n"] != "200" {
		t.Errorf("200 increments make %v", got)
	}
}

// TestKilledWriterLeavesNothing: a writer that dies between produce and commit.
func TestKilledWriterLeavesNothing(t *testing.T) {
	s := setup(t)
	w := s.writer(t, s.config())
	s.update(t, w, set("k", "old"))
	dead, err := kgo.NewClient(append(slices.Clone(s.b.Opts), kgo.TransactionalID(s.b.Prefix+"writer"))...)
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	r := &kgo.Record{Topic: s.topic, Key: []byte("k"), Value: []byte("ghost")}
	if err := dead.ProduceSync(s.ctx, r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	dead.Close()
	tab := s.run(t, s.config())
	if err := tab.WaitProven(s.ctx, time.Now()); err != nil {
		t.Fatal(err)
	}
	if v, _ := tab.Get("k"); string(v) != "old" {
		t.Errorf("before anyone took over: %q", v)
	}
	next := s.update(t, w, func(v table.View) ([]table.Change, error) {
		if e, _ := v.Get("k"); string(e.Value) != "old" {
			t.Errorf("fn sees %q", e.Value)
		}
		return []table.Change{{Key: "other", Value: []byte("x")}}, nil
	})
	if err := tab.WaitApplied(s.ctx, next); err != nil {
		t.Fatal(err)
	}
	if v, _ := tab.Get("k"); string(v) != "old" {
		t.Errorf("afterwards: %q", v)
	}
}
