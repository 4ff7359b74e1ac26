package tier

import (
	"math"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Schedule is exponential backoff with full jitter: retry n waits U(0, Bound(n)). It is a
// value without state; the attempt number lives in the ticket.
type Schedule struct {
	Base   time.Duration
	Factor float64
	Cap    time.Duration
}

// DefaultSchedule is that of an endpoint which sets none (DESIGN section 6).
func DefaultSchedule() Schedule {
	return Schedule{Base: 2 * time.Second, Factor: 2, Cap: time.Hour}
}

// Bound is min(Cap, Base x Factor^(n-1)): the longest wait after attempt n, n from 1. It
// does not overflow, whatever n is; a factor below 1 counts as 1.
func (s Schedule) Bound(n int) time.Duration {
	if s.Base <= 0 || s.Cap <= 0 {
		return 0
	}
	factor := s.Factor
	if !(factor >= 1) { // also NaN
		factor = 1
	}
	bound := float64(s.Base) * math.Pow(factor, float64(max(n, 1)-1))
	if !(bound < float64(s.Cap)) { // also +Inf
		return s.Cap
	}
	return time.Duration(bound)
}

// Delay is the wait after attempt n for a draw u of U(0, 1).
func (s Schedule) Delay(n int, u float64) time.Duration {
	return time.Duration(min(max(u, 0), 1) * float64(s.Bound(n)))
}

// Policy is a Schedule at one attempt, behind the interface of the backoff library. It keeps
// no state: NextBackOff draws the wait after Attempt each time it is asked.
type Policy struct {
	Schedule
	Attempt int            // attempts made, from 1
	Max     int            // attempts allowed; 0 = no limit
	Rand    func() float64 // a draw of U(0, 1)
}

// NextBackOff returns the wait, or backoff.Stop when the attempts are used up.
func (p Policy) NextBackOff() time.Duration {
	if p.Max > 0 && p.Attempt >= p.Max {
		return backoff.Stop
	}
	return p.Delay(p.Attempt, p.Rand())
}

// Reset does nothing.
func (p Policy) Reset() {}

var _ backoff.BackOff = Policy{}
