package dispatcher

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hookline/hookline/dispatcher/circuit"
	"github.com/hookline/hookline/dispatcher/endpoint"
)

const (
	// waitLimit is how long a delivery may wait for its endpoint before it leaves as a
	// record of its own: a ledger slot is the scarce thing, not the endpoint's patience.
	waitLimit = 500 * time.Millisecond
	// queuePerPlace bounds the queue of one endpoint, so that no endpoint fills a window.
	queuePerPlace = 32
	// sweepEvery is how often waiting deliveries are looked through for those that may go on
	// and those that waited too long.
	sweepEvery = 50 * time.Millisecond
	// slowShare of the process is the most that slow endpoints hold together.
	slowShare = 4
)

// gates holds one gate per endpoint: how many of its deliveries may be past it at once, how
// many a second, whether any, and the deliveries that wait. A delivery takes its endpoint's
// place first and a permit second, and never waits for the first while it holds the second.
//
// Safe for concurrent use. Deliveries are returned to the caller, which acts on them without
// the lock.
type gates struct {
	slowMost int // places of slow endpoints together
	start    int // attempts at once for an endpoint that nothing is known of
	// changed is told when a breaker opened or closed by the attempt of dl; called with the lock held.
	changed func(dl *delivery, was circuit.State, now breaker)

	mu   sync.Mutex
	by   map[string]*gate
	slow int // places taken at slow endpoints
}

type gate struct {
	limit   circuit.Limit
	breaker circuit.Breaker
	pace    circuit.Pace

	inFlight int
	slow     bool // counted in gates.slow
	waiting  fifo[*delivery]
	backlog  backlog

	lastOK, lastFailure time.Time
	lastClass           string // error class of the last failure
}

// breaker is what the fleet is told of a breaker.
type breaker struct {
	State circuit.State
	Until time.Time // end of an opening
	Trips int
}

// entry says what became of a delivery at its gate.
type entry uint8

const (
	entered entry = iota // it holds a place
	waits                // it will be handed out by leave, expired or next
	full                 // no place and no room to wait: park it
	refused              // the breaker is open
	paced                // the rate has no room within waitLimit
)

// newGates makes the gates of a process with that many permits.
func newGates(permits, start int) *gates {
	return &gates{by: make(map[string]*gate), slowMost: max(1, permits/slowShare), start: start}
}

func (g *gates) gateLocked(id string, now time.Time) *gate {
	gt := g.by[id]
	if gt == nil {
		gt = &gate{limit: circuit.NewLimit(g.start), backlog: newBacklog(now)}
		g.by[id] = gt
	}
	return gt
}

// enter asks for a place. At most queuePerPlace per place may wait: an endpoint that answers
// within 15 ms serves so many within waitLimit, and a slower one would park them then anyway.
func (g *gates) enter(d *delivery, now time.Time) entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	gt := g.gateLocked(d.endpoint.ID, now)
	if d.ticket.Parks > 0 {
		gt.backlog.returned()
	}
	if gt.breaker.State(now) == circuit.Open {
		gt.backlog.parked()
		return refused
	}
	if gt.waiting.len() == 0 && g.admitLocked(gt, d, now) {
		return entered
	}
	if gt.waiting.len() >= max(64, queuePerPlace*gt.limit.N(d.endpoint.MaxInFlight)) {
		gt.backlog.parked()
		return full
	}
	if gt.breaker.State(now) == circuit.Closed && gt.pace.Wait(d.endpoint.RatePerSecond, now) > waitLimit {
		gt.backlog.parked()
		return paced
	}
	d.waitingSince = now
	gt.waiting.push(d)
	return waits
}

// admitLocked takes a place for d if there is one.
func (g *gates) admitLocked(gt *gate, d *delivery, now time.Time) bool {
	if gt.inFlight >= gt.limit.N(d.endpoint.MaxInFlight) || gt.slow && g.slow >= g.slowMost && gt.inFlight > 0 {
		return false
	}
	allowed, probe := gt.breaker.Ask(now)
	if !allowed {
		return false
	}
	// Probes are few and bounded by the breaker.
	if !probe && !(d.ticket.Parks > 0 && gt.pace.Claim(now)) && gt.pace.Take(d.endpoint.RatePerSecond, now) > 0 {
		return false
	}
	d.probe, d.signal = probe, circuit.None
	gt.inFlight++
	if gt.slow {
		g.slow++
	}
	return true
}

// leave gives a place back, learns from the outcome that d brings, and returns the delivery
// that takes the place, or nil.
func (g *gates) leave(d *delivery, now time.Time) *delivery {
	g.mu.Lock()
	defer g.mu.Unlock()
	gt := g.by[d.endpoint.ID]
	g.learnLocked(gt, d, now)
	gt.inFlight--
	if gt.slow {
		g.slow--
	}
	gt.backlog.used = now
	return g.nextLocked(gt, now)
}

// learnLocked takes in what the attempt of d said about its endpoint.
func (g *gates) learnLocked(gt *gate, d *delivery, now time.Time) {
	switch {
	case d.signal == circuit.None:
	case d.signal == circuit.OK && d.class == "":
		gt.lastOK = now
	default:
		gt.lastFailure, gt.lastClass = now, d.class
	}
	gt.limit.Record(d.signal, d.took, gt.inFlight, d.endpoint.MaxInFlight, now)
	gt.pace.Record(d.signal, now)
	if slow := gt.limit.Slow(); slow != gt.slow {
		gt.slow = slow
		if slow {
			g.slow += gt.inFlight
		} else {
			g.slow -= gt.inFlight
		}
	}
	was := gt.breaker.State(now)
	if !gt.breaker.Record(d.signal, d.probe, now, rand.Float64()) {
		return
	}
	if gt.breaker.State(now) == circuit.Open {
		gt.limit.Restart()
		gt.pace.Opened(now)
	}
	if g.changed != nil {
		g.changed(d, was, breaker{gt.breaker.State(now), gt.breaker.Until(), gt.breaker.Trips()})
	}
}

func (g *gates) nextLocked(gt *gate, now time.Time) *delivery {
	if gt.waiting.len() == 0 || !g.admitLocked(gt, gt.waiting.peek(), now) {
		return nil
	}
	return gt.waiting.pop()
}

// expired returns the deliveries that waited too long, or whose endpoint's breaker has
// opened meanwhile. Gates nobody uses are dropped.
func (g *gates) expired(now time.Time) []*delivery {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []*delivery
	for id, gt := range g.by {
		open := gt.breaker.State(now) == circuit.Open
		for gt.waiting.len() > 0 && (open || now.Sub(gt.waiting.peek().waitingSince) >= waitLimit) {
			gt.backlog.parked()
			out = append(out, gt.waiting.pop())
		}
		gt.backlog.age(now)
		if gt.inFlight == 0 && gt.waiting.len() == 0 && gt.backlog.size() == 0 && gt.breaker.State(now) == circuit.Closed &&
			now.Sub(gt.backlog.used) > 10*time.Minute {
			delete(g.by, id)
		}
	}
	return out
}

// widened gives places that have become free to deliveries that wait for one: leave hands on
// one for one, and a limit that grew or a second that passed make more.
func (g *gates) widened(now time.Time) []*delivery {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []*delivery
	for _, gt := range g.by {
		for d := g.nextLocked(gt, now); d != nil; d = g.nextLocked(gt, now) {
			out = append(out, d)
		}
	}
	return out
}

// why says for what reason a delivery that expired could not go on.
func (g *gates) why(d *delivery, now time.Time) parkReason {
	g.mu.Lock()
	defer g.mu.Unlock()
	gt := g.by[d.endpoint.ID]
	switch {
	case gt == nil:
	case gt.breaker.State(now) != circuit.Closed:
		return parkCircuit
	case gt.inFlight < gt.limit.N(d.endpoint.MaxInFlight) && gt.pace.Rate(d.endpoint.RatePerSecond) > 0:
		return parkRate
	}
	return parkLimit
}

// holds reports whether the endpoint's breaker has opened since d took its place.
func (g *gates) holds(d *delivery, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	gt := g.by[d.endpoint.ID]
	return gt != nil && !d.probe && gt.breaker.State(now) == circuit.Open
}

// parkDelay predicts when the endpoint will have room for a delivery that is parked for why.
// u in [0,1) spreads it, so that what was parked together does not come back together.
func (g *gates) parkDelay(e *endpoint.Endpoint, why parkReason, u float64, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	gt := g.by[e.ID]
	switch {
	case gt == nil:
		return spread(parkMin, u)
	case why == parkCircuit:
		return gt.reopens(e, u, now)
	case why == parkRate:
		if delay, ok := gt.pace.Reserve(e.RatePerSecond, now); ok {
			return delay
		}
	}
	return spread(gt.drain(e), u)
}

// drain is how long what waits for the endpoint, here and outside, will take.
func (gt *gate) drain(e *endpoint.Endpoint) time.Duration {
	n := float64(gt.waiting.len() + gt.backlog.size())
	return min(gt.pace.Drain(n, e.RatePerSecond, max(gt.limit.Rate(e.MaxInFlight), 0.1)), parkMax)
}

const (
	// longOpen is how long an endpoint must have been away for its deliveries to wait longer
	// than the next probe: a hundred thousand of them must not travel for each one.
	longOpen    = 10 * time.Minute
	longestPark = time.Hour
)

// reopens is how long deliveries stay away from an open breaker: until its end, and then
// spread over the time that the backlog takes.
func (gt *gate) reopens(e *endpoint.Endpoint, u float64, now time.Time) time.Duration {
	delay := max(gt.breaker.Until().Sub(now), parkMin)
	if away := gt.breaker.OpenFor(now); away > longOpen {
		delay = max(delay, time.Duration((0.5+0.5*u)*float64(min(away/2, longestPark))))
	}
	return delay + time.Duration(u*float64(gt.drain(e)))
}

// enabled starts an endpoint again that an operator had switched off: what has waited for it
// comes back at a rising rate, not at once.
func (g *gates) enabled(id string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gt := g.gateLocked(id, now)
	gt.backlog.used = now
	gt.limit.Restart()
	gt.pace.Begin()
}

// learn takes over what another process saw of an endpoint's breaker.
func (g *gates) learn(id string, b breaker, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b.State == circuit.Closed {
		if gt := g.by[id]; gt != nil {
			gt.breaker.LearnClosed(now)
		}
		return
	}
	if !b.Until.After(now) {
		return
	}
	gt := g.gateLocked(id, now)
	was := gt.breaker.State(now)
	gt.breaker.Learn(b.Until, b.Trips, now)
	if was == circuit.Closed && gt.breaker.State(now) == circuit.Open {
		gt.limit.Restart()
		gt.pace.Opened(now)
	}
}
