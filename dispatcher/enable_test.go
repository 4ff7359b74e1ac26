package dispatcher

import (
	"fmt"
	"testing"
	"time"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/circuit"
	"github.com/hookline/hookline/dispatcher/endpoint"
)

// TestAnEnabledEndpointStartsAtTheRamp offers all that waited at once, second by second: what is let
// through begins low, doubles at most, and ends unbounded but for the endpoint's own limit.
func TestAnEnabledEndpointStartsAtTheRamp(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	g, lane := newGates(1000, 8), &partition{}
	e := &endpoint.Endpoint{ID: "e", MaxInFlight: 64, Enabled: true}
	try := func() bool {
		dl := testDelivery(lane, attempt.SourceEvents)
		dl.endpoint = e
		if got := g.enter(dl, now); got != entered {
			g.by["e"].waiting = fifo[*delivery]{} // the test offers anew
			return false
		}
		dl.signal, dl.took = circuit.OK, time.Millisecond
		g.leave(dl, now)
		return true
	}
	second := func() (n int) {
		for range 1000 {
			if try() {
				n++
			}
			now = now.Add(time.Millisecond)
		}
		return n
	}
	if n := second(); n != 1000 {
		t.Fatalf("%d of 1000 before it was disabled", n)
	}
	g.enabled("e", now)
	var got []int
	for range 14 {
		got = append(got, second())
	}
	if got[0] < 1 || got[0] > 4 || got[len(got)-1] != 1000 {
		t.Errorf("let through a second: %v", got)
	}
	for i := range got[1:] {
		if got[i+1] > 2*got[i]+4 {
			t.Errorf("let through a second: %v", got)
		}
	}
}

// TestEnablingIsNoticed enables an endpoint while a dispatcher runs, and starts another after
// that: only the first saw a change, and only it ramps.
func TestEnablingIsNoticed(t *testing.T) {
	r := newRig(t, 1)
	ramps := func(p *process) bool {
		p.gates.mu.Lock()
		defer p.gates.mu.Unlock()
		gt := p.gates.by["e"]
		return gt != nil && gt.pace.Rate(0) > 0
	}
	off := func(e *endpoint.Endpoint) { e.Enabled = false }
	r.endpoint("e", off)
	first := r.start("a", nil)
	eventually(t, "the endpoint", func() bool { return first.registry.Get("e") != nil })
	if ramps(first) {
		t.Error("it ramps while it is disabled")
	}
	r.endpoint("e", nil)
	eventually(t, "a ramp", func() bool { return ramps(first) })
	first.end(t)

	second := r.start("b", nil)
	for i := range 3 {
		r.publish(fmt.Sprint("m-", i), nil)
	}
	eventually(t, "the deliveries", func() bool { return len(r.recv.all()) == 3 })
	if ramps(second) {
		t.Error("it ramps for what happened before its time")
	}
	second.end(t)
}
