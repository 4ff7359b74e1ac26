package retrytiers

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/retrytiers/tier"
)

// maxSleep bounds a sleep of the loop, so that a step of the wall clock delays a release by
// no more than this.
const maxSleep = time.Second

// produceBackoff is the wait after a produce that failed. The client has its own retries
// below it; what comes up here is a refusal, which a person has to end.
var produceBackoff = tier.Schedule{Base: 100 * time.Millisecond, Factor: 2, Cap: 5 * time.Second}

// loop runs passes over the board, each as soon as the last one said that something changes
// or somebody woke it.
func (m *Mover) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-m.wake:
		}
		p := m.pass()
		now := m.now()
		m.lastPass.Store(now.UnixMilli())
		sleep := maxSleep
		if p.next > 0 {
			sleep = min(sleep, time.UnixMilli(p.next).Sub(now))
		}
		if p.more {
			sleep = 0
		}
		timer.Reset(max(0, sleep))
	}
}

// wakeLoop never blocks: one pending wake-up covers any number of changes.
func (m *Mover) wakeLoop() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// pass lets the board decide under its lock and does what it decided outside of it.
func (m *Mover) pass() pass {
	nowMs := m.now().UnixMilli()
	m.mu.Lock()
	p := m.board.step(nowMs)
	records := make([]*kgo.Record, len(p.out))
	for i, e := range p.out {
		// Built under the lock: a retried entry may be forgotten by a revoke meanwhile.
		records[i] = e.record(m.cfg.Ladder, m.topic, m.deadPartitions, nowMs)
	}
	m.mu.Unlock()
	m.steer(p)
	for i, e := range p.out {
		// Never a context that ends: cancelling one record fails those buffered with it.
		m.producer.Produce(context.Background(), records[i], func(_ *kgo.Record, err error) { m.produced(e, err) })
	}
	return p
}

// steer pauses and resumes slots, unless they ended meanwhile: a pause that is queued after
// the partition was added again would stop its next incarnation without anybody knowing.
func (m *Mover) steer(p pass) {
	if len(p.pauses)+len(p.resume) == 0 {
		return
	}
	m.readerMu.Lock()
	defer m.readerMu.Unlock()
	live := func(s *slot) bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return !s.closing && !s.gone && !s.reopen
	}
	for _, s := range p.pauses {
		if live(s) {
			m.reader.Pause(s.topic, s.partition)
		}
	}
	for _, s := range p.resume {
		if live(s) {
			m.reader.Resume(s.topic, s.partition)
		}
	}
}

// deliver takes over records from the reader's goroutine.
func (m *Mover) deliver(topic string, partition int32, recs []*kgo.Record) {
	nowMs := m.now().UnixMilli()
	m.mu.Lock()
	s := m.board.slots[place{topic, partition}]
	opened := 0
	if s != nil {
		opened = s.read(recs, nowMs)
	}
	m.mu.Unlock()
	if opened > 0 {
		m.met.read.WithLabelValues(s.suffix).Add(float64(opened))
		m.wakeLoop()
	}
}

// produced is the promise of a copy. It runs in a goroutine of the producer, one at a time.
func (m *Mover) produced(e *entry, err error) {
	now := m.now()
	m.mu.Lock()
	s, kind, dueMs := e.slot, e.kind, e.dueMs
	if err == nil {
		m.board.acked(e)
	} else {
		if kind == poison && errors.Is(err, kerr.MessageTooLarge) {
			e.key, e.value, e.headers = nil, nil, nil // its error header names the place
		}
		half := produceBackoff.Bound(e.tries+1) / 2
		wait := half + time.Duration(rand.Int64N(int64(half)))
		m.board.failed(e, now.Add(wait).UnixMilli())
	}
	starved := m.board.starved
	m.mu.Unlock()
	if err == nil {
		m.met.released.WithLabelValues(kind.String()).Inc()
		if kind == release {
			m.met.dueError.Observe(float64(now.UnixMilli()-dueMs) / 1000)
		}
		if starved {
			m.wakeLoop()
		}
		return
	}
	m.wakeLoop()
	if errors.Is(err, kgo.ErrClientClosed) {
		return // we are stopping; the record stays in the log, not done
	}
	m.met.produceErr.WithLabelValues(kind.String()).Inc()
	if suppressed, ok := m.produceLog.allow(now); ok {
		m.log.Error("copy was not produced, it is held and tried again",
			"kind", kind.String(), "topic", s.topic, "partition", s.partition, "offset", e.offset, "error", err, "suppressed", suppressed)
	}
}

// retry calls fn until it succeeds or ctx is done, and returns the last error then.
func (m *Mover) retry(ctx context.Context, what string, fn func() error) error {
	policy := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(5*time.Second),
		backoff.WithMaxElapsedTime(0), // the default gives up after 15 minutes
	)
	return backoff.RetryNotify(fn, backoff.WithContext(policy, ctx), func(err error, wait time.Duration) {
		if suppressed, ok := m.openLog.allow(m.now()); ok {
			m.log.Warn("will try again", "what", what, "error", err, "wait", wait, "suppressed", suppressed)
		}
	})
}
