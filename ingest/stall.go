package ingest

import (
	"sync/atomic"
	"time"
)

// stall knows whether the oldest unacknowledged event is older than a limit, without a lock
// and without a list of events: it counts them per slot of time at which they were handed
// over.
//
// Safe for concurrent use.
type stall struct {
	start time.Time
	limit int64 // in slots
	// oldest is a slot below which no event is open. It only grows.
	oldest atomic.Int64
	open   [stallSlots]atomic.Int32 // ring: slot n counts in open[n % stallSlots]
}

const (
	stallWidth = 20 * time.Millisecond
	// stallSlots is twice what the largest limit needs. The ring cannot lap: while the
	// oldest open slot is past the limit nothing is added, so all open slots lie within
	// limit + the time between a look at the door and the hand-over.
	stallSlots = 1024
	maxStall   = stallSlots / 2 * stallWidth
)

func newStall(limit time.Duration) *stall {
	return &stall{start: time.Now(), limit: int64((limit + stallWidth - 1) / stallWidth)}
}

func (s *stall) slot(now time.Time) int64 { return int64(now.Sub(s.start) / stallWidth) }

// add counts an event that is handed over now and returns what done wants.
func (s *stall) add(now time.Time) int64 {
	slot := s.slot(now)
	s.open[slot%stallSlots].Add(1)
	return slot
}

// done counts an event as finished.
func (s *stall) done(slot int64) { s.open[slot%stallSlots].Add(-1) }

// stalled says whether an event is open that was handed over longer than the limit ago.
//
// Slots younger than the limit are not passed: one that is empty now may still get an event
// whose add was delayed. Everybody calls stalled before add, so nobody adds before oldest is
// within the limit of now; hence a slot seen open is really old if oldest has not moved
// meanwhile, and else the look was at a lap of the ring and is taken again.
func (s *stall) stalled(now time.Time) bool {
	until := s.slot(now) - s.limit
	for {
		oldest := s.oldest.Load()
		if oldest >= until {
			return false
		}
		to := oldest
		for to < until && to < oldest+stallSlots && s.open[to%stallSlots].Load() == 0 {
			to++
		}
		if to == oldest+stallSlots {
			to = until // the whole ring is empty: nothing came for a while
		}
		if s.oldest.CompareAndSwap(oldest, to) {
			return to < until
		}
	}
}

// age is how long ago the oldest open event was handed over, 0 if none is.
func (s *stall) age(now time.Time) time.Duration {
	s.stalled(now)
	last := s.slot(now)
	for slot := s.oldest.Load(); slot <= last; slot++ {
		if s.open[slot%stallSlots].Load() > 0 {
			return max(0, now.Sub(s.start)-time.Duration(slot)*stallWidth)
		}
	}
	return 0
}
