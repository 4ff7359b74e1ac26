package dispatcher

import (
	"errors"
	"testing"
	"time"

	"github.com/hookline/hookline/dispatcher/circuit"
	"github.com/hookline/hookline/dispatcher/endpoint"
)

// TestHealthFollowsTheGate walks an endpoint through its life and asks at each step.
func TestHealthFollowsTheGate(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	g := newGates(1000, 8)
	e := &endpoint.Endpoint{ID: "e", MaxInFlight: 4, Enabled: true}
	check := func(what string, want Health) {
		t.Helper()
		if got := g.health(e, now); got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
		}
	}
	attempt := func(s circuit.Signal, class string) {
		t.Helper()
		d := &delivery{endpoint: e}
		if got := g.enter(d, now); got != entered {
			t.Fatalf("entry %d", got)
		}
		d.signal, d.class, d.took = s, class, time.Millisecond
		g.leave(d, now)
	}
	check("nothing known", Health{State: Healthy, Limit: 4})

	under := &delivery{endpoint: e}
	g.enter(under, now)
	check("one under way", Health{State: Healthy, InFlight: 1, Limit: 4})
	under.signal, under.took = circuit.OK, time.Millisecond
	g.leave(under, now)
	first := now
	check("delivered", Health{State: Healthy, Limit: 4, LastSuccess: first})

	now = now.Add(time.Second)
	attempt(circuit.OK, "http_4xx") // the endpoint is up and refuses the event
	check("refused", Health{State: Degraded, Limit: 4, LastSuccess: first, LastFailure: now, LastErrorClass: "http_4xx"})

	now = now.Add(time.Minute)
	for range 5 {
		attempt(circuit.Unreachable, "connect_refused")
	}
	failed := now
	d := &delivery{endpoint: e}
	if got := g.enter(d, now); got != refused {
		t.Fatalf("entry %d", got)
	}
	open := Health{State: Failing, Breaker: circuit.Open, Limit: 1, Parked: 1, LastSuccess: first, LastFailure: failed, LastErrorClass: "connect_refused"}
	check("open", open)

	e.Enabled = false
	disabled := open
	disabled.State = Disabled
	check("disabled", disabled)
	e.Enabled = true

	now = now.Add(time.Minute)
	half := open
	half.State, half.Breaker = Degraded, circuit.HalfOpen
	check("half open", half)

	e.Fault = errors.New("its key cannot be read")
	half.State = Failing
	check("not usable", half)
}

// A success after a failure does not hide that many failed.
func TestHealthSeesTheShareOfFailures(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	g := newGates(1000, 8)
	e := &endpoint.Endpoint{ID: "e", MaxInFlight: 4, Enabled: true}
	attempt := func(s circuit.Signal, class string) {
		d := &delivery{endpoint: e}
		g.enter(d, now)
		d.signal, d.class = s, class
		now = now.Add(time.Millisecond)
		g.leave(d, now)
	}
	attempt(circuit.Failed, "http_5xx")
	for range 98 {
		attempt(circuit.OK, "")
	}
	if got := g.health(e, now).State; got != Degraded {
		t.Errorf("1 of 99 failed: %s", got)
	}
	for range 2 {
		attempt(circuit.OK, "")
	}
	if got := g.health(e, now).State; got != Healthy {
		t.Errorf("1 of 101 failed: %s", got)
	}
	attempt(circuit.Failed, "http_5xx")
	attempt(circuit.OK, "")
	if got := g.health(e, now).State; got != Degraded {
		t.Errorf("2 of 103 failed: %s", got)
	}
	now = now.Add(31 * time.Second)
	if got := g.health(e, now).State; got != Healthy {
		t.Errorf("half a minute later: %s", got)
	}
}
