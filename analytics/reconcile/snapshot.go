package reconcile

import (
	"time"

	"github.com/hookline/hookline/analytics/progress"
)

// snapshot remembers where logs ended at a time. A waiting delivery's copy is acked before its
// row is. So a row below attempts has a copy below retry, and once the movers have committed
// all of retry, that copy has been produced to due. Whatever of it was put back into a retry
// topic meanwhile, since its time had not come, was not due at the snapshot's time.
type snapshot struct {
	at       time.Time
	attempts progress.Offsets // looked at first
	retry    progress.Offsets
}

// passed says whether the movers have finished all that lay in the retry topics.
func (s *snapshot) passed(moved func(topic string, partition int32) int64) bool {
	for topic, ps := range s.retry {
		for p, end := range ps {
			if moved(topic, p) < end {
				return false
			}
		}
	}
	return true
}

// maxSnapshots bounds the memory; the longest slot holds a copy for an hour.
const maxSnapshots = 256

// history is the snapshots that may still be passed, oldest first.
type history []snapshot

// latest drops all up to the latest snapshot that is passed and returns it; nil for none.
func (h *history) latest(moved func(topic string, partition int32) int64) *snapshot {
	for i := len(*h) - 1; i >= 0; i-- {
		if s := (*h)[i]; s.passed(moved) {
			*h = append(history{}, (*h)[i:]...) // it stays: the next may not pass for long
			return &s
		}
	}
	return nil
}

// add appends one. When there are too many every second goes: proofs come later, none is lost.
func (h *history) add(s snapshot) {
	if len(*h) >= maxSnapshots {
		kept := (*h)[:0]
		for i, old := range *h {
			if i%2 == 0 {
				kept = append(kept, old)
			}
		}
		*h = kept
	}
	*h = append(*h, s)
}
