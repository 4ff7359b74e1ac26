package engine

import (
	"context"
	"sync/atomic"
	"time"
)

// gate lets a few queries run at once and lets some more wait.
type gate struct {
	slots   chan struct{}
	waiting atomic.Int64
	queue   int64
	wait    time.Duration
}

func newGate(running, queue int, wait time.Duration) *gate {
	return &gate{slots: make(chan struct{}, running), queue: int64(queue), wait: wait}
}

// enter waits for a turn; leave must be called after nil.
func (g *gate) enter(ctx context.Context) *exception {
	select {
	case g.slots <- struct{}{}:
		return nil
	default:
	}
	defer g.waiting.Add(-1)
	if g.waiting.Add(1) > g.queue {
		return raise(codeTooManyQueries, "TOO_MANY_SIMULTANEOUS_QUERIES",
			"too many simultaneous queries: %d run and %d wait", cap(g.slots), g.queue)
	}
	timer := time.NewTimer(g.wait)
	defer timer.Stop()
	select {
	case g.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return cancelled()
	case <-timer.C:
		return raise(codeTooManyQueries, "TOO_MANY_SIMULTANEOUS_QUERIES",
			"too many simultaneous queries: waited %s for one of %d to end", g.wait, cap(g.slots))
	}
}

func (g *gate) leave() { <-g.slots }
