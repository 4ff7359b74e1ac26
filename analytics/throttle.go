package analytics

import (
	"sync"
	"time"
)

// throttleInterval is how often one kind of failure may be logged. Each one is counted.
const throttleInterval = 10 * time.Second

// throttle lets one log line through per interval. Safe for concurrent use.
type throttle struct {
	mu         sync.Mutex // guards the following
	next       time.Time
	suppressed int
}

// allow reports whether to log now, and how many lines were held back since the last one.
func (t *throttle) allow() (suppressed int, ok bool) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Before(t.next) {
		t.suppressed++
		return 0, false
	}
	suppressed, t.suppressed = t.suppressed, 0
	t.next = now.Add(throttleInterval)
	return suppressed, true
}
