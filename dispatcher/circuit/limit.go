package circuit

import "time"

const (
	decrease = 0.7
	// badShare and fineShare: half of a round lowers the limit, over a twentieth keeps it.
	badShare  = 2
	fineShare = 20
	// minRound results at least, so that chance does not decide.
	minRound = 10
	// slowBy is how much longer than its best an answer must take to count as slow: below
	// that it is our own noise.
	slowBy = 100 * time.Millisecond
	// bestFor is how long the shortest answer is remembered.
	bestFor = 5 * time.Minute
	// SlowAnswer is the typical duration above which an endpoint belongs to the slow ones,
	// which share a bounded part of the process.
	SlowAnswer = 2 * time.Second
)

// Limit is how many attempts at an endpoint may be under way at once. It is decided once a
// round, of as many results as the limit is high: a round in which half was overload, or
// took more than twice the best time, lowers it to 0.7 of itself; one with hardly any raises
// it by one if it was used. What fails now and then at any load does not lower it: fewer
// attempts at once would not cure that. Make it with NewLimit.
type Limit struct {
	n       float64
	results int  // of this round
	bad     int  // of them, overloaded or slow
	good    int  // of them, successes that came while the limit was used
	ramping bool // doubles instead of growing by one

	best, bestBefore time.Duration // shortest answers of this and the last span
	bestSince        time.Time
	typical          time.Duration // moving average
}

// NewLimit begins at start, of which N gives no more than its most.
func NewLimit(start int) Limit { return Limit{n: float64(start)} }

// N is the limit, from 1 to most.
func (l *Limit) N(most int) int { return max(1, min(int(l.n), most)) }

// Restart begins again at 1 and doubles until the first sign of overload.
func (l *Limit) Restart() {
	l.n, l.ramping = 1, true
	l.results, l.bad, l.good = 0, 0, 0
}

// unknownRate is what an endpoint is taken for that nothing is known of.
const unknownRate = 100.0

// Rate is how many attempts a second the endpoint takes by its limit and the time that it
// typically needs (Little's law). What it was asked of late says nothing: it may have been idle.
func (l *Limit) Rate(most int) float64 {
	if l.typical <= 0 {
		return unknownRate
	}
	return float64(l.N(most)) / max(l.typical, time.Millisecond).Seconds()
}

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
	bad := s == Overloaded
	if s == OK {
		bad = l.remember(took, now)
		if !bad && 2*inFlight >= int(l.n) {
			l.good++
		}
	}
	if bad {
		l.bad++
	}
	round := max(int(l.n), minRound)
	if l.ramping {
		round = int(l.n)
	}
	if l.results++; l.results >= round {
		l.endRound(float64(most))
	}
}

func (l *Limit) endRound(most float64) {
	switch {
	case l.bad*badShare >= l.results:
		l.n, l.ramping = max(1, l.n*decrease), false
	case l.bad*fineShare > l.results || 2*l.good < l.results:
	case l.ramping:
		l.n *= 2
	default:
		l.n++
	}
	if l.n >= most {
		l.n, l.ramping = most, false
	}
	l.results, l.bad, l.good = 0, 0, 0
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
