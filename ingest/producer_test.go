package ingest

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event"
)

// fakeKafka decides when and how each record ends.
type fakeKafka struct {
	produceFunc func(r *kgo.Record, promise func(*kgo.Record, error))
}

func (f fakeKafka) TryProduce(_ context.Context, r *kgo.Record, promise func(*kgo.Record, error)) {
	f.produceFunc(r, promise)
}

var _ kafka = fakeKafka{}

func testProducer(t testing.TB, cfg Config, fn func(*kgo.Record, func(*kgo.Record, error))) *producer {
	t.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return newProducer(fakeKafka{fn}, "events", cfg, m, slog.New(slog.DiscardHandler))
}

func eventOf(n int64) *event.Event {
	return &event.Event{ID: event.NewID(), Type: "a", MessageID: "m", Tenant: "dev", Sequence: n, Body: []byte("{}")}
}

// A promise that comes after its request gave up must be forgotten: it may not answer
// another request that got a waiter from the pool.
func TestLateAckAnswersNobody(t *testing.T) {
	t.Parallel()
	cfg := testConfig(func(c *Config) { c.AckTimeout = 20 * time.Millisecond })
	type call struct {
		r       *kgo.Record
		promise func(*kgo.Record, error)
	}
	late := make(chan call, 1)
	var holdBack bool
	p := testProducer(t, cfg, func(r *kgo.Record, promise func(*kgo.Record, error)) {
		if holdBack {
			late <- call{r, promise}
			return
		}
		r.Partition, r.Offset = 1, 42
		promise(r, nil)
	})
	for range 100 {
		holdBack = true
		if _, problem := p.publish(eventOf(0), nil, nil, time.Now()); problem != errUnknown {
			t.Fatalf("held back: %v", problem)
		}
		holdBack = false
		if a, problem := p.publish(eventOf(1), nil, nil, time.Now()); problem != nil || a != (ack{1, 42}) {
			t.Fatalf("%+v, %v", a, problem)
		}
		c := <-late
		c.r.Partition, c.r.Offset = 9, 999
		c.promise(c.r, nil)
		if a, problem := p.publish(eventOf(2), nil, nil, time.Now()); problem != nil || a != (ack{1, 42}) {
			t.Fatalf("after the late acknowledgement: %+v, %v", a, problem)
		}
	}
	if p.waiting.Load() != 0 || p.stall.age(time.Now()) != 0 {
		t.Errorf("%d bytes still wait, the oldest for %s", p.waiting.Load(), p.stall.age(time.Now()))
	}
}

// Acknowledgements race with timeouts: whatever comes first, a request gets its own ack, its
// own error or none.
func TestAckAndTimeoutRace(t *testing.T) {
	cfg := testConfig(func(c *Config) { c.AckTimeout = 500 * time.Microsecond })
	var promises sync.WaitGroup
	errOdd := errors.New("odd")
	p := testProducer(t, cfg, func(r *kgo.Record, promise func(*kgo.Record, error)) {
		promises.Add(1)
		delay := time.Duration(rand.IntN(1000)) * time.Microsecond
		time.AfterFunc(delay, func() {
			defer promises.Done()
			e, err := event.Decode(r)
			if err != nil {
				t.Error(err)
			}
			r.Offset = e.Sequence
			if e.Sequence%2 == 1 {
				promise(r, errOdd)
			} else {
				promise(r, nil)
			}
		})
	})
	var wg sync.WaitGroup
	var mu sync.Mutex
	acked, unknown := 0, 0
	for worker := range int64(16) {
		wg.Go(func() {
			for i := range int64(300) {
				n := worker*1000 + i
				a, problem := p.publish(eventOf(n), nil, nil, time.Now())
				mu.Lock()
				switch {
				case problem == nil && n%2 == 0 && a.offset == n:
					acked++
				case problem == errUnknown:
					unknown++
				default:
					t.Errorf("event %d: %+v, %v", n, a, problem)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	promises.Wait()
	if acked == 0 || unknown == 0 {
		t.Errorf("%d acknowledged, %d unknown: the race did not happen", acked, unknown)
	}
	if p.waiting.Load() != 0 {
		t.Errorf("%d bytes still wait", p.waiting.Load())
	}
}
