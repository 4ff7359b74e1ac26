package retrytiers

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/ledger"
)

// Bounds of the records that a slot buffers because they are immature, or because the wheel
// is full.
const (
	pauseAt  = 64 // stop fetching
	resumeAt = 32 // fetch again
	// near is how close to maturity everything buffered must be for reading on beyond
	// pauseAt, up to nearLimit: several times FetchMaxWait.
	near      = time.Second
	nearLimit = 1024
	// maxAhead bounds how far a slot runs ahead of a record that cannot be produced: the
	// ledger keeps 16 bytes for each one in between.
	maxAhead = 2 << 20
)

// slot is one owned partition of a retry topic: one object per incarnation of ownership.
// Everything is guarded by Mover.mu.
type slot struct {
	topic     string
	suffix    string
	partition int32
	floor     time.Duration
	width     time.Duration
	lead      time.Duration // how long before append + floor a record is mature

	ledger *ledger.Ledger // nil until it is open
	runMax int64          // ms; running maximum of min(record timestamp, clock at first read)

	waiting []waiter // FIFO; read but not admitted
	head    int      // index of the first waiter
	paused  bool

	closing bool // being revoked: nothing is admitted or released any more
	gone    bool // not ours any more: late acknowledgements count for nothing
	broken  bool // its log ends before our position: never commit
	reopen  bool // being opened again after a failed fetch

	oldest, newest *entry        // held entries in offset order
	inflight       int           // entries with the producer
	idle           chan struct{} // closed when inflight reaches 0; nil = nobody waits

	dirty      bool      // something was done since the last commit
	committed  int64     // as acknowledged by the broker, -1 = never
	commitTime time.Time // of the last commit
	trimmed    int64     // log start that we asked for
}

// leadOf is how long before the end of its floor a record moves to the wheel. A delay that is
// just above a floor loses the time of its append (and the skew between the writer's clock
// and the broker's) from what is left after it, and would be late by as much.
func leadOf(floor, width time.Duration) time.Duration {
	return min(floor, width/16, time.Second)
}

// waiter is a record that has not been admitted to the wheel.
type waiter struct {
	rec      *kgo.Record
	matureMs int64
}

// read takes over records that were fetched at nowMs.
func (s *slot) read(recs []*kgo.Record, nowMs int64) (opened int) {
	if s.closing || s.gone || s.ledger == nil {
		return 0
	}
	for _, r := range recs {
		if r.Offset < s.ledger.Next() {
			continue // a second reading, after the partition was opened again
		}
		s.runMax = max(s.runMax, min(r.Timestamp.UnixMilli(), nowMs))
		if s.ledger.Open(r.Offset, len(r.Key)+len(r.Value)) == ledger.AlreadyDone {
			s.dirty = true
			continue
		}
		opened++
		s.waiting = append(s.waiting, waiter{rec: r, matureMs: s.runMax + (s.floor - s.lead).Milliseconds()})
	}
	return opened
}

func (s *slot) buffered() int { return len(s.waiting) - s.head }

// first returns the next record to admit, nil when there is none.
func (s *slot) first() *waiter {
	if s.buffered() == 0 {
		return nil
	}
	return &s.waiting[s.head]
}

// mature returns the next record to admit if its time in the log is over.
func (s *slot) mature(nowMs int64) *waiter {
	if w := s.first(); w != nil && !s.closing && w.matureMs <= nowMs && !s.ledger.Full() {
		return w
	}
	return nil
}

// advance drops the first waiter and gives back the passed part of the buffer.
func (s *slot) advance() {
	s.waiting[s.head] = waiter{}
	s.head++
	switch {
	case s.head == len(s.waiting):
		s.waiting, s.head = s.waiting[:0], 0
		if cap(s.waiting) > nearLimit {
			s.waiting = nil
		}
	case s.head >= pauseAt && s.head > len(s.waiting)/2:
		n := copy(s.waiting, s.waiting[s.head:])
		clear(s.waiting[n:])
		s.waiting, s.head = s.waiting[:n], 0
	}
}

// wantPause says whether fetching should be off, with hysteresis. nearMs is when the answer
// may change although no record comes or goes; 0 = it will not.
func (s *slot) wantPause(nowMs int64) (pause bool, nearMs int64) {
	n := s.buffered()
	if n <= resumeAt {
		return false, 0
	}
	blocked := s.waiting[s.head].matureMs <= nowMs // admission has just stopped here
	nearMs = s.waiting[len(s.waiting)-1].matureMs - near.Milliseconds()
	if !blocked && nearMs <= nowMs {
		if n < nearLimit/2 || n < nearLimit && !s.paused {
			return false, 0
		}
		return true, 0
	}
	if n < pauseAt && !s.paused {
		return false, 0
	}
	if blocked {
		nearMs = 0
	}
	return true, nearMs
}

// hold puts an admitted entry at the end of the slot's list.
func (s *slot) hold(e *entry) {
	e.prev = s.newest
	if s.newest != nil {
		s.newest.next = e
	} else {
		s.oldest = e
	}
	s.newest = e
}

// drop takes an entry out of the slot's list.
func (s *slot) drop(e *entry) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		s.oldest = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		s.newest = e.prev
	}
	e.prev, e.next = nil, nil
}

// settle counts one entry back from the producer.
func (s *slot) settle() {
	s.inflight--
	if s.inflight == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// headMs returns the timestamp of the oldest record that is not done.
func (s *slot) headMs() (ms int64, ok bool) {
	if s.oldest != nil {
		return s.oldest.recordMs, true
	}
	if w := s.first(); w != nil {
		return w.rec.Timestamp.UnixMilli(), true
	}
	return 0, false
}
