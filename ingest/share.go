package ingest

import (
	"sync/atomic"
	"time"
)

// share is what one key or source holds of what all of them share. It outlives a reload of
// the keys. nil is a holder without others, who may have everything.
type share struct {
	waiting atomic.Int64 // bytes handed to the producer and not finished
	reading atomic.Int64 // bytes of large bodies that are being read
}

func (h *share) wait(bytes int64) {
	if h != nil {
		h.waiting.Add(bytes)
	}
}

func (h *share) read(bytes int64) {
	if h != nil {
		h.reading.Add(bytes)
	}
}

// smallShare is the part of the whole that anybody may hold at any pressure, as a divisor: a
// slow broker is not the fault of those who have little there.
const smallShare = 32

// over says whether a holder of held bytes is to be refused for the sake of the others.
// pressure is how near the door is to being shut for all, from 0 to 1; total is what all
// hold.
//
// Whoever holds the part f of the total is refused above the pressure at which f is more than
// (1-p)/p: one who holds everything at 1/2, two with a half each at 2/3, and one with next to
// nothing not before everybody is. So a flood of some leaves room for the rest, without anybody
// knowing how many they are or what they are entitled to.
func over(held, total int64, pressure float64) bool {
	return pressure > 0.5 && float64(held)*pressure > float64(total)*(1-pressure)
}

// greedy says whether a holder has more of what waits for the broker than the others can bear.
// The pressure is that of the bytes or of the time, whichever is nearer to its end. Most
// holders are below the small share, and that is all they pay for.
func (p *producer) greedy(who *share, now time.Time) bool {
	if who == nil {
		return false
	}
	held := who.waiting.Load()
	if held <= p.maxWait/smallShare {
		return false
	}
	total := p.waiting.Load()
	pressure := max(float64(total)/float64(p.maxWait), float64(p.stall.age(now))/float64(p.stallAfter))
	return over(held, total, pressure)
}
