package circuit

import "time"

// State of a Breaker.
type State uint8

// States. The zero value of a Breaker is closed.
const (
	Closed State = iota
	Open
	HalfOpen
)

// String is the state in the words of metrics and attempt records.
func (s State) String() string {
	switch s {
	case Open:
		return "open"
	case HalfOpen:
		return "half_open"
	}
	return "closed"
}

// Fixed numbers of the breaker (DESIGN section 12).
const (
	windowSpan  = 30 * time.Second
	buckets     = 10
	bucketSpan  = windowSpan / buckets
	minSamples  = 20
	maxConnects = 5 // connection failures in a row
	minOpen     = 5 * time.Second
	maxOpen     = 5 * time.Minute
	// firstProbes and moreProbes are attempts at once while half-open, before and after the
	// first that succeeded; closeAfter successes close.
	firstProbes = 1
	moreProbes  = 3
	closeAfter  = firstProbes + moreProbes
	// calm is how long a closed breaker must stay closed for its openings to be forgotten.
	calm = 2 * windowSpan
)

// Breaker keeps attempts from an endpoint that fails. It opens when at least half of at least
// 20 attempts within 30 s failed, or when five connections in a row could not be made. The
// first opening lasts 5 s, each further one twice as long up to 5 min, give or take 20 %.
type Breaker struct {
	state    State
	window   [buckets]tally
	at       int64 // bucket number of the newest tally
	connects int   // connection failures in a row
	trips    int   // openings in a row
	opened   time.Time
	until    time.Time // open until then
	closed   time.Time
	probes   int // under way
	passed   int // succeeded since half-open
}

type tally struct{ total, failed int }

// Ask says whether an attempt may be made now. probe means that it is one of the few of a
// half-open breaker: its result must come back by Record, or by Cancel when it was not made.
func (b *Breaker) Ask(now time.Time) (allowed, probe bool) {
	switch b.State(now) {
	case Closed:
		return true, false
	case Open:
		return false, false
	}
	b.state = HalfOpen
	most := firstProbes
	if b.passed > 0 {
		most = moreProbes
	}
	if b.probes >= most || b.probes+b.passed >= closeAfter {
		return false, false
	}
	b.probes++
	return true, true
}

// State is the state at now: an opening that has lasted long enough is half-open.
func (b *Breaker) State(now time.Time) State {
	if b.state == Open && !now.Before(b.until) {
		return HalfOpen
	}
	return b.state
}

// Until is when the present opening ends; zero while closed.
func (b *Breaker) Until() time.Time {
	if b.state == Closed {
		return time.Time{}
	}
	return b.until
}

// OpenFor is how long the endpoint has not been closed, 0 while it is.
func (b *Breaker) OpenFor(now time.Time) time.Duration {
	if b.state == Closed {
		return 0
	}
	return now.Sub(b.opened)
}

// Record takes the outcome of an attempt. u in [0,1) spreads the length of an opening. It
// reports whether the breaker opened or closed by it.
func (b *Breaker) Record(s Signal, probe bool, now time.Time, u float64) bool {
	switch {
	case s == None:
		if probe {
			b.Cancel()
		}
		return false
	case probe:
		return b.recordProbe(s, now, u)
	case b.state != Closed:
		return false // started before it opened: it tells what is known
	}
	b.roll(now)
	t := &b.window[b.at%buckets]
	t.total++
	if s.failure() {
		t.failed++
	}
	if s == Unreachable {
		b.connects++
	} else {
		b.connects = 0
	}
	total, failed := b.sum()
	if b.connects >= maxConnects || total >= minSamples && 2*failed >= total {
		b.open(now, u)
		return true
	}
	if b.trips > 0 && now.Sub(b.closed) >= calm {
		b.trips = 0
	}
	return false
}

func (b *Breaker) recordProbe(s Signal, now time.Time, u float64) bool {
	b.Cancel()
	if b.state != HalfOpen {
		return false
	}
	if s.failure() {
		b.open(now, u)
		return true
	}
	if b.passed++; b.passed < closeAfter {
		return false
	}
	b.close(now)
	return true
}

// Cancel takes back a probe that was not made.
func (b *Breaker) Cancel() { b.probes = max(b.probes-1, 0) }

// Learn takes over what another process saw: advice, so it only ever delays. An opening that
// ends sooner than ours, or a closing, changes nothing.
func (b *Breaker) Learn(until time.Time, trips int, now time.Time) {
	if !until.After(now) || b.state == Open && !until.After(b.until) {
		return
	}
	if b.state == Closed {
		b.opened = now
	}
	b.reset(Open)
	b.until = minTime(until, now.Add(maxOpen+maxOpen/5))
	b.trips = max(b.trips, trips)
}

// LearnClosed ends an opening early because another process found the endpoint up: the next
// attempt is a probe.
func (b *Breaker) LearnClosed(now time.Time) {
	if b.state == Open && b.until.After(now) {
		b.until = now
	}
}

// Trips is how often in a row it has opened.
func (b *Breaker) Trips() int { return b.trips }

func (b *Breaker) open(now time.Time, u float64) {
	if b.state == Closed {
		b.opened = now
	}
	length := minOpen << min(b.trips, 10)
	length = min(length, maxOpen)
	b.trips++
	b.reset(Open)
	b.until = now.Add(time.Duration(float64(length) * (0.8 + 0.4*u)))
}

func (b *Breaker) close(now time.Time) {
	b.reset(Closed)
	b.closed = now
}

// reset enters a state with nothing counted. Probes under way are forgotten: their results
// come back as those of another time.
func (b *Breaker) reset(to State) {
	b.state = to
	b.window = [buckets]tally{}
	b.connects, b.passed = 0, 0
}

// roll empties the buckets that the clock has passed.
func (b *Breaker) roll(now time.Time) {
	at := now.UnixNano() / int64(bucketSpan)
	if at-b.at >= buckets || at < b.at {
		b.window = [buckets]tally{}
		b.at = at
		return
	}
	for b.at < at {
		b.at++
		b.window[b.at%buckets] = tally{}
	}
}

// Recent counts the attempts of the last 30 s that a closed breaker saw, and the failed of them.
func (b *Breaker) Recent(now time.Time) (total, failed int) {
	b.roll(now)
	return b.sum()
}

func (b *Breaker) sum() (total, failed int) {
	for _, t := range b.window {
		total += t.total
		failed += t.failed
	}
	return total, failed
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
