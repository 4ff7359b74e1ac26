package source

import (
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// memorySize bounds the requests that one source remembers, at about 100 bytes each. At
	// the default tolerance it holds 400 requests a second; above that, the dispatcher's
	// window catches what is forgotten, by the derived event id.
	memorySize = 1 << 18
	// memorySlack is for a request that is verified at the last moment of its tolerance and
	// looked up a little later.
	memorySlack = 5 * time.Second
)

// Key is what a request is remembered by: what was signed and the event that it became. Not
// its signature, which may have several forms and changes with the secret.
type Key [sha256.Size]byte

// Memory remembers the requests whose events are in the log. Safe for concurrent use.
type Memory struct {
	keep time.Duration
	size int

	mu sync.Mutex // guards the following
	// known holds an entry until it is forgotten; queue has the settled ones in the order
	// in which they expire, beginning at head.
	known   map[Key]*entry
	queue   []*entry
	head    int
	evicted uint64
}

type entry struct {
	key     Key
	expires time.Time
	settled chan struct{} // closed when the request has been answered
	taken   bool          // written before settled is closed
}

// NewMemory returns a memory that keeps a request for keep and at most size of them.
func NewMemory(keep time.Duration, size int) *Memory {
	return &Memory{keep: keep, size: size, known: map[Key]*entry{}}
}

// Claim is the place of one request in the memory.
type Claim struct {
	memory *Memory
	entry  *entry
	first  bool
}

// Claim looks key up and takes its place when it is not there. The first to claim a key must
// Settle it.
func (m *Memory) Claim(key Key, now time.Time) Claim {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgetLocked(now)
	if e, ok := m.known[key]; ok {
		return Claim{m, e, false}
	}
	e := &entry{key: key, settled: make(chan struct{})}
	m.known[key] = e
	return Claim{m, e, true}
}

// First says whether nobody had claimed the key.
func (c Claim) First() bool { return c.first }

// Taken waits until the first has its answer and says whether its event is in the log. After
// the timeout it says no: publishing again is safe, the event id is the same.
func (c Claim) Taken(timeout time.Duration) bool {
	select {
	case <-c.entry.settled:
		return c.entry.taken
	default:
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-c.entry.settled:
		return c.entry.taken
	case <-timer.C:
		return false
	}
}

// Settle says how the first request ended. One whose event may not be in the log is
// forgotten at once, so that it can be sent again. Only the first call counts.
func (c Claim) Settle(taken bool, now time.Time) {
	m := c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-c.entry.settled:
		return
	default:
	}
	c.entry.taken = taken
	close(c.entry.settled)
	if !taken {
		delete(m.known, c.entry.key)
		return
	}
	c.entry.expires = now.Add(m.keep)
	m.queue = append(m.queue, c.entry)
	m.forgetLocked(now)
}

// forgetLocked drops what has expired, and the oldest of what is too many.
func (m *Memory) forgetLocked(now time.Time) {
	for m.head < len(m.queue) {
		e := m.queue[m.head]
		full := len(m.queue)-m.head > m.size
		if !full && !e.expires.Before(now) {
			break
		}
		if full && !e.expires.Before(now) {
			m.evicted++
		}
		delete(m.known, e.key)
		m.queue[m.head] = nil
		m.head++
	}
	if m.head > 64 && m.head*2 > len(m.queue) {
		n := copy(m.queue, m.queue[m.head:])
		clear(m.queue[n:])
		m.queue, m.head = m.queue[:n], 0
	}
}

// Len is how many requests are remembered now.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.queue) - m.head
}

// Evicted is how many were forgotten before their time, because there were too many.
func (m *Memory) Evicted() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.evicted
}
