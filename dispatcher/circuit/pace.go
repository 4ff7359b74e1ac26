package circuit

import (
	"math"
	"time"
)

const (
	// safe is the part of the best clean second that is asked for after a collapse.
	safe = 0.8
	// cleanShare: a second is clean with up to a third of failures. Endpoints that fail now
	// and then at any rate exist, and one that falls over fails nearly all.
	cleanShare = 3
	// firstRate begins the ramp after an opening, in attempts a second.
	firstRate = 2.0
	// steep is the rate above which a ramp without a known ceiling ends: whoever takes so
	// much did not fall over for the rate.
	steep = 4096.0
	// ceilingFor is how long a learned ceiling holds after the last opening.
	ceilingFor = 10 * time.Minute
	// bestFresh is how long a clean second is remembered.
	bestFresh = time.Minute
	// reservations bounds the promises that are outstanding.
	reservations = 1024
	// claimFor is how long a promise waits for its delivery to come back.
	claimFor = 30 * time.Second
	// early is how much before its time a promise may be claimed: delays end to the
	// millisecond, clocks are read at two places.
	early = 5 * time.Millisecond
	// burstSpan is how much of the rate may go out at once: waiting deliveries are handed
	// on in steps.
	burstSpan = 50 * time.Millisecond
)

// Pace spaces the attempts at an endpoint, by the rate that its operator set and, after an
// opening, by a ramp that starts low, doubles with each clean second and never passes what
// the endpoint took before it fell over. The zero value has no bound.
type Pace struct {
	next     time.Time   // when the next attempt is due (generic cell rate algorithm)
	promised []time.Time // in order

	// The second under way, and the best clean one.
	second     int64
	oks, bads  int
	best       float64
	bestAt     time.Time
	ramp       float64 // 0 = none
	ceiling    float64 // 0 = none known
	lastOpened time.Time
}

// Rate is the bound in force: the operator's (0 = none) and the ramp's, 0 = none.
func (p *Pace) Rate(set float64) float64 {
	switch {
	case p.ramp == 0:
		return set
	case set == 0:
		return p.ramp
	default:
		return min(set, p.ramp)
	}
}

// Take asks for an attempt now and returns 0 if it may be made, else how long until the next
// one may.
func (p *Pace) Take(set float64, now time.Time) time.Duration {
	rate := p.Rate(set)
	if rate == 0 {
		return 0
	}
	if wait := p.wait(rate, now); wait > 0 {
		return wait
	}
	p.book(rate, now)
	return 0
}

// Wait is how long an attempt would have to wait now; it changes nothing.
func (p *Pace) Wait(set float64, now time.Time) time.Duration {
	rate := p.Rate(set)
	if rate == 0 {
		return 0
	}
	return p.wait(rate, now)
}

// Drain predicts how long n attempts take that the endpoint is owed, by the operator's rate
// and, without a ramp, by rate, what the endpoint takes otherwise. A ramp doubles each second
// up to its ceiling: the time is logarithmic, and what is told such times in turn comes back
// as fast as the ramp will have risen by then.
func (p *Pace) Drain(n, set, rate float64) time.Duration {
	if set > 0 {
		rate = min(rate, set)
	}
	if p.ramp == 0 {
		return seconds(n / rate)
	}
	top := steep
	if p.ceiling > 0 {
		top = p.ceiling
	}
	if set > 0 {
		top = min(top, set)
	}
	r := min(p.ramp, top)
	if n <= top-r {
		return seconds(math.Log2(1 + n/r))
	}
	return seconds(math.Log2(top/r) + (n-(top-r))/top)
}

func seconds(s float64) time.Duration {
	return time.Duration(min(s, math.MaxInt32) * float64(time.Second))
}

// Reserve promises a later attempt and returns how long until then. A delivery that comes
// back then takes its promise with Claim. ok is false when too much is promised already, or
// when the rate is about to change.
func (p *Pace) Reserve(set float64, now time.Time) (delay time.Duration, ok bool) {
	p.expire(now)
	if p.ramp != 0 || len(p.promised) >= reservations {
		return 0, false // a ramp rises: what it would promise now is too late
	}
	rate := set
	if rate == 0 {
		return 0, true
	}
	delay = max(0, p.wait(rate, now))
	p.book(rate, now)
	p.promised = append(p.promised, now.Add(delay))
	return delay, true
}

// Claim takes the oldest promise whose time has come.
func (p *Pace) Claim(now time.Time) bool {
	p.expire(now)
	if len(p.promised) == 0 || p.promised[0].After(now.Add(early)) {
		return false
	}
	p.promised = p.promised[1:]
	return true
}

func (p *Pace) expire(now time.Time) {
	for len(p.promised) > 0 && now.Sub(p.promised[0]) > claimFor {
		p.promised = p.promised[1:]
	}
}

// wait is how long until the next attempt of that rate. Up to burstSpan of the rate may be
// made up for.
func (p *Pace) wait(rate float64, now time.Time) time.Duration {
	gap := interval(rate)
	slack := max(0, burstSpan-gap)
	if p.next.Before(now.Add(-slack)) {
		return 0
	}
	return p.next.Sub(now)
}

func (p *Pace) book(rate float64, now time.Time) {
	gap := interval(rate)
	if floor := now.Add(-max(0, burstSpan-gap)); p.next.Before(floor) {
		p.next = floor
	}
	p.next = p.next.Add(gap)
}

func interval(rate float64) time.Duration { return time.Duration(float64(time.Second) / rate) }

// Record takes the outcome of an attempt.
func (p *Pace) Record(s Signal, now time.Time) {
	if s == None {
		return
	}
	if second := now.Unix(); second != p.second {
		p.endSecond(now)
		p.second, p.oks, p.bads = second, 0, 0
	}
	if s.failure() {
		p.bads++
	} else {
		p.oks++
	}
}

func (p *Pace) endSecond(now time.Time) {
	if p.bads*cleanShare > p.oks+p.bads {
		return
	}
	if rate := float64(p.oks); rate > p.best || now.Sub(p.bestAt) > bestFresh {
		p.best, p.bestAt = rate, now
	}
	switch {
	case p.ramp == 0:
	case p.ceiling > 0 && now.Sub(p.lastOpened) > ceilingFor, p.ceiling == 0 && p.ramp >= steep:
		p.ramp, p.ceiling = 0, 0
	case float64(p.oks) < p.ramp/2: // what was not used was not tried
	case p.ceiling > 0:
		p.ramp = min(2*p.ramp, p.ceiling)
	default:
		p.ramp *= 2
	}
}

// Opened learns from a collapse: the best clean second before it is what the endpoint takes.
// While a ceiling holds it only ever falls.
func (p *Pace) Opened(now time.Time) {
	if p.best > 0 && now.Sub(p.bestAt) <= bestFresh+windowSpan {
		if c := max(1, p.best*safe); p.ceiling == 0 || c < p.ceiling {
			p.ceiling = c
		}
	}
	p.lastOpened = now
	p.restart()
}

// Begin starts a ramp for an endpoint that was away without a collapse. What it took before
// its absence says nothing, so there is no ceiling but one that was learned.
func (p *Pace) Begin() { p.restart() }

// restart begins the ramp and takes back what was promised at another rate.
func (p *Pace) restart() {
	p.ramp = firstRate
	if p.ceiling > 0 {
		p.ramp = min(p.ramp, p.ceiling)
	}
	p.promised = nil
	p.next = time.Time{}
	p.best = 0
}
