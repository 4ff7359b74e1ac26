package analytics

import "sync/atomic"

// slots bounds the inserts that run at once. A batch is announced with a slot in hand, so that few
// announced batches are left behind when a process dies.
type slots struct {
	tokens  chan struct{}
	waiting atomic.Int32
}

func newSlots(n int) *slots { return &slots{tokens: make(chan struct{}, n)} }

// free says whether nobody waits.
func (s *slots) free() bool { return s.waiting.Load() == 0 }

func (s *slots) busy() int { return len(s.tokens) }

// lease is the slot of one feed; not safe for concurrent use.
type lease struct {
	slots *slots
	held  bool
}

// take waits for a slot; false when the feed is handed over.
func (l *lease) take(f *feed) bool {
	if l.held {
		return true
	}
	l.slots.waiting.Add(1)
	defer l.slots.waiting.Add(-1)
	select {
	case <-f.ctx.Done():
	case <-f.closing:
	case l.slots.tokens <- struct{}{}:
		l.held = true
	}
	return l.held
}

// give gives the slot back, if there is one.
func (l *lease) give() {
	if l.held {
		<-l.slots.tokens
		l.held = false
	}
}
