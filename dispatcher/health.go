package dispatcher

import (
	"time"

	"github.com/hookline/hookline/dispatcher/circuit"
	"github.com/hookline/hookline/dispatcher/endpoint"
)

// HealthState sums up how an endpoint does.
type HealthState string

// Health states.
const (
	Healthy  HealthState = "healthy"  // nothing speaks against it; nothing may be known
	Degraded HealthState = "degraded" // it is probed, its last attempt failed, or over 1 % of the last 30 s did
	Failing  HealthState = "failing"  // its breaker is open, or it cannot be used as it is stored
	Disabled HealthState = "disabled"
)

// Health is what this process knows of an endpoint. Only the breaker is the fleet's.
type Health struct {
	State    HealthState
	Breaker  circuit.State
	InFlight int // attempts under way
	Limit    int // attempts that may be
	Parked   int // deliveries that were parked for want of room and have not come back: an estimate
	// Zero times: no such attempt since the start, or since the endpoint lay idle for over 10 min.
	LastSuccess, LastFailure time.Time
	LastErrorClass           string
}

// Health tells how an endpoint does as far as this process knows.
func (d *Dispatcher) Health(e *endpoint.Endpoint) Health { return d.gates.health(e, time.Now()) }

func (g *gates) health(e *endpoint.Endpoint, now time.Time) Health {
	g.mu.Lock()
	defer g.mu.Unlock()
	gt := g.by[e.ID]
	if gt == nil {
		unknown := circuit.NewLimit(g.start)
		return Health{State: stateOf(e, circuit.Closed, false), Limit: unknown.N(e.MaxInFlight)}
	}
	total, failed := gt.breaker.Recent(now)
	h := Health{
		Breaker: gt.breaker.State(now), InFlight: gt.inFlight, Limit: gt.limit.N(e.MaxInFlight), Parked: gt.backlog.size(),
		LastSuccess: gt.lastOK, LastFailure: gt.lastFailure, LastErrorClass: gt.lastClass,
	}
	h.State = stateOf(e, h.Breaker, 100*failed > total || gt.lastFailure.After(gt.lastOK))
	return h
}

func stateOf(e *endpoint.Endpoint, b circuit.State, troubled bool) HealthState {
	switch {
	case !e.Enabled:
		return Disabled
	case e.Fault != nil, b == circuit.Open:
		return Failing
	case b == circuit.HalfOpen, troubled:
		return Degraded
	}
	return Healthy
}
