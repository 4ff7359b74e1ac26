package circuit

import "time"

const (
	decrease = 0.7
	// slowBy is how much longer than its best an answer must take to count as slow: below
	// that it is our own noise.
	slowBy = 100 * time.Millisecond
	// bestFor is how long the shortest answer is remembered.
	bestFor = 5 * time.Minute
	// SlowAnswer is the typical duration above which an endpoint belongs to the slow ones,
	// which share a bounded part of the process.
	SlowAnswer = 2 * time.Second
)

// Limit is how many attempts at an endpoint may be under way at once. It grows by one for
// each full round of successes while it is used, and falls to 0.7 of itself when the
// endpoint is overloaded or answers in more than twice its best time, at most once per
// answer time. Make it with NewLimit.
type Limit struct {
	n       float64
	rounds  int  // successes since the last growth
	ramping bool // doubles instead of growing by one

	best, bestBefore time.Duration // shortest answers of this and the last span
	bestSince        time.Time
	typical          time.Duration // moving average
	quiet            time.Time     // no decrease before
}

// NewLimit begins at start, of which N gives no more than its most.
func NewLimit(start int) Limit { return Limit{n: float64(start)} }

// N is the limit, from 1 to most.
func (l *Limit) N(most int) int { return max(1, min(int(l.n), most)) }

// Restart begins again at 1 and doubles until the first sign of overload.
func (l *Limit) Restart() { l.n, l.rounds, l.ramping = 1, 0, true }

// Slow reports whether the endpoint typically takes longer than SlowAnswer.
func (l *Limit) Slow() bool { return l.typical > SlowAnswer }

// Record takes the outcome of an attempt that took took. inFlight is how many were under way
// with it: a limit that is not used does not grow.
func (l *Limit) Record(s Signal, took time.Duration, inFlight, most int, now time.Time) {
	if s == None {
		return
	}
	if s != Unreachable { // how long a refused connection takes says nothing
		l.typical += (took - l.typical) / 8
	}
	slow := false
	if s == OK {
		slow = l.remember(took, now)
	}
	if s == Overloaded || slow {
		l.fall(took, now)
		return
	}
	if s != OK || 2*inFlight < int(l.n) {
		return
	}
	if l.rounds++; l.rounds < int(l.n) {
		return
	}
	l.rounds = 0
	if l.ramping {
		l.n *= 2
	} else {
		l.n++
	}
	if l.n >= float64(most) {
		l.n, l.ramping = float64(most), false
	}
}

func (l *Limit) fall(took time.Duration, now time.Time) {
	l.ramping = false
	if now.Before(l.quiet) {
		return
	}
	l.n = max(1, l.n*decrease)
	l.rounds = 0
	l.quiet = now.Add(took)
}

// remember keeps the shortest answer and reports whether this one was slow beside it.
func (l *Limit) remember(took time.Duration, now time.Time) bool {
	if l.bestSince.IsZero() || now.Sub(l.bestSince) > bestFor {
		l.bestBefore, l.best, l.bestSince = l.best, 0, now
	}
	if l.best == 0 || took < l.best {
		l.best = took
	}
	best := l.best
	if l.bestBefore > 0 {
		best = min(best, l.bestBefore)
	}
	return took > 2*best && took-best > slowBy
}
