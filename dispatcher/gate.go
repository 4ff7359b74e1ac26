package dispatcher

import (
	"sync"
	"time"
)

const (
	// waitLimit is how long a delivery may wait for its endpoint before it leaves as a
	// record of its own: a ledger slot is the scarce thing, not the endpoint's patience.
	waitLimit = 500 * time.Millisecond
	// parkMin and parkMax bound the delay of a parked delivery.
	parkMin = time.Second
	parkMax = 300 * time.Second
	// parkMemory is longer than any park: what was not back by then is not coming here.
	parkMemory = 2 * parkMax
	// queuePerPlace bounds the queue of one endpoint, so that no endpoint fills a window.
	queuePerPlace = 32
	// sweepEvery is how often waiting deliveries are looked through for expired ones.
	sweepEvery = 50 * time.Millisecond
)

// gates holds one gate per endpoint: how many of its deliveries may be past it at once, and
// the deliveries that wait for a place. A delivery takes its endpoint's place first and a
// permit second, and never waits for the first while it holds the second.
//
// Safe for concurrent use. Deliveries are returned to the caller, which acts on them without
// the lock.
type gates struct {
	mu sync.Mutex
	by map[string]*gate
}

type gate struct {
	inFlight int
	waiting  fifo[*delivery]
	// parked estimates the backlog outside: parked, and not seen again yet. Copies that come
	// back in another process, or never, are not seen here, so what is older than parkMemory
	// is forgotten.
	parked, parkedBefore int
	parkedSince          time.Time

	// drained counts places given back since windowStart; rate is the drain per second of
	// the window before.
	drained     int
	windowStart time.Time
	rate        float64
}

// entry says what became of a delivery at its gate.
type entry uint8

const (
	entered entry = iota // it holds a place
	waits                // it will be handed out by leave or expired
	full                 // no place and no room to wait: park it
)

func newGates() *gates { return &gates{by: make(map[string]*gate)} }

// enter asks for a place. At most queuePerPlace per place may wait: an endpoint that answers
// within 15 ms serves so many within waitLimit, and a slower one would park them then anyway.
func (g *gates) enter(d *delivery, limit int, now time.Time) entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	gt := g.by[d.endpoint.ID]
	if gt == nil {
		gt = &gate{windowStart: now, parkedSince: now}
		g.by[d.endpoint.ID] = gt
	}
	if d.ticket.Parks > 0 {
		gt.returned()
	}
	if gt.inFlight < limit && gt.waiting.len() == 0 {
		gt.inFlight++
		return entered
	}
	if gt.waiting.len() >= max(64, queuePerPlace*limit) {
		gt.parked++
		return full
	}
	d.waitingSince = now
	gt.waiting.push(d)
	return waits
}

// leave gives a place back and returns the delivery that takes it, or nil.
func (g *gates) leave(endpointID string, now time.Time) *delivery {
	g.mu.Lock()
	defer g.mu.Unlock()
	gt := g.by[endpointID]
	gt.inFlight--
	gt.drained++
	if since := now.Sub(gt.windowStart); since >= time.Second {
		gt.rate = float64(gt.drained) / since.Seconds()
		gt.drained, gt.windowStart = 0, now
	}
	if gt.waiting.len() == 0 || gt.inFlight >= gt.waiting.peek().endpoint.MaxInFlight {
		return nil
	}
	gt.inFlight++
	return gt.waiting.pop()
}

// expired returns the deliveries that waited too long. Gates nobody uses are dropped.
func (g *gates) expired(now time.Time) []*delivery {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []*delivery
	for id, gt := range g.by {
		for gt.waiting.len() > 0 && now.Sub(gt.waiting.peek().waitingSince) >= waitLimit {
			gt.parked++
			out = append(out, gt.waiting.pop())
		}
		if now.Sub(gt.parkedSince) >= parkMemory {
			gt.parkedBefore, gt.parked, gt.parkedSince = gt.parked, 0, now
		}
		if gt.inFlight == 0 && gt.waiting.len() == 0 && gt.backlog() == 0 && now.Sub(gt.windowStart) > 10*time.Minute {
			delete(g.by, id)
		}
	}
	return out
}

// widened gives places that are free to deliveries that wait for one. A place is free beside
// a queue only when the endpoint's limit was raised: leave hands on one for one.
func (g *gates) widened() []*delivery {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []*delivery
	for _, gt := range g.by {
		for gt.waiting.len() > 0 && gt.inFlight < gt.waiting.peek().endpoint.MaxInFlight {
			gt.inFlight++
			out = append(out, gt.waiting.pop())
		}
	}
	return out
}

// returned takes note of a parked delivery that came back.
func (gt *gate) returned() {
	switch {
	case gt.parkedBefore > 0:
		gt.parkedBefore--
	case gt.parked > 0:
		gt.parked--
	}
}

func (gt *gate) backlog() int { return gt.parked + gt.parkedBefore }

// parkDelay predicts when the endpoint will have room: its backlog here over its drain
// rate, spread by u in [0,1) so that what was parked together does not come back together.
func (g *gates) parkDelay(endpointID string, u float64) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	delay := parkMin
	if gt := g.by[endpointID]; gt != nil {
		rate := max(gt.rate, 0.1)
		seconds := float64(gt.waiting.len()+gt.backlog()) / rate
		delay = time.Duration(min(seconds, parkMax.Seconds()) * float64(time.Second))
	}
	delay = min(max(delay, parkMin), parkMax)
	return time.Duration(float64(delay) * (0.8 + 0.4*u))
}
