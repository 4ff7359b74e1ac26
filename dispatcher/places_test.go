package dispatcher

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/endpoint"
)

// desk is gates and permits without a broker: a dispatcher whose attempts end when the test
// says so.
type desk struct {
	*Dispatcher
	running chan *delivery
}

func newDesk(permits int) *desk {
	d := &desk{Dispatcher: &Dispatcher{gates: newGates(1000, 8)}, running: make(chan *delivery, 1<<16)}
	d.permits = newPermits(permits, func(dl *delivery) {
		dl.holdsPermit = true
		d.running <- dl
	})
	return d
}

// TestEveryPlaceAndPermitComesBack sends deliveries of many lanes to a few endpoints, closes
// lanes at random, changes limits, ends attempts in random order, and lets the wait limit
// strike. In the end nothing is held, and nothing that was owed a turn was forgotten.
func TestEveryPlaceAndPermitComesBack(t *testing.T) {
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 3))
		const permits = 7
		d := newDesk(permits)
		now := time.Now()
		lanes := make([]*partition, 5)
		for i := range lanes {
			lanes[i] = &partition{}
		}
		endpoints := make([]*endpoint.Endpoint, 3)
		for i := range endpoints {
			endpoints[i] = &endpoint.Endpoint{ID: fmt.Sprint(i), MaxInFlight: 1 + rng.IntN(4)}
		}
		closed := map[*partition]bool{}
		accounted := map[*delivery]bool{} // ran, parked, or of a closed lane
		var all, busy []*delivery
		take := func() {
			for len(d.running) > 0 || d.permits.inUse() > len(busy) {
				busy = append(busy, <-d.running)
			}
		}
		finish := func(i int) {
			dl := busy[i]
			busy = append(busy[:i], busy[i+1:]...)
			accounted[dl] = true
			if rng.IntN(2) == 0 {
				d.leavePlace(dl) // the answer is in, the row is not
			}
			d.release(dl)
		}
		for range 400 {
			switch op := rng.IntN(20); {
			case op < 10:
				p := lanes[rng.IntN(len(lanes))]
				if closed[p] {
					continue
				}
				source := attempt.SourceEvents
				if rng.IntN(2) == 0 {
					source = attempt.SourceDue
				}
				dl := testDelivery(p, source)
				dl.endpoint = endpoints[rng.IntN(len(endpoints))]
				all = append(all, dl)
				switch d.gates.enter(dl, now) {
				case entered:
					d.queue(dl)
				case full, refused, paced:
					accounted[dl] = true
				case waits:
				}
			case op < 16:
				if take(); len(busy) > 0 {
					finish(rng.IntN(len(busy)))
				}
			case op < 17:
				for _, dl := range d.gates.widened(now) {
					d.queue(dl)
				}
			case op < 18:
				i := rng.IntN(len(endpoints))
				changed := *endpoints[i]
				changed.MaxInFlight = 1 + rng.IntN(4)
				endpoints[i] = &changed
			case op < 19:
				now = now.Add(300 * time.Millisecond)
				for _, dl := range d.gates.expired(now) {
					accounted[dl] = true
				}
			default:
				i := rng.IntN(len(lanes))
				closed[lanes[i]] = true
				for _, dl := range d.permits.close(&lanes[i].queues) {
					d.release(dl)
				}
				lanes[i] = &partition{} // assigned again
			}
		}
		for take(); len(busy) > 0; take() {
			finish(0)
		}
		if n := d.permits.inUse(); n != 0 {
			t.Fatalf("seed %d: %d permits are still out", seed, n)
		}
		for id, g := range d.gates.by {
			if g.inFlight != 0 || g.waiting.len() != 0 {
				t.Fatalf("seed %d: endpoint %s has %d places out and %d waiting", seed, id, g.inFlight, g.waiting.len())
			}
		}
		for _, dl := range all {
			if !accounted[dl] && !closed[dl.slot.part] {
				t.Fatalf("seed %d: a delivery got no turn", seed)
			}
		}
	}
}

// TestARaisedLimitCountsWhileAQueueWaits: places that a raised limit adds are handed out
// although the queue never runs empty.
func TestARaisedLimitCountsWhileAQueueWaits(t *testing.T) {
	g, now, lane := newGates(1000, 8), time.Now(), &partition{}
	wide := &endpoint.Endpoint{ID: "e", MaxInFlight: 4}
	g.enter(testDelivery(lane, attempt.SourceEvents), now)
	for range 10 {
		dl := testDelivery(lane, attempt.SourceEvents)
		dl.endpoint = wide
		if g.enter(dl, now) == full {
			t.Fatal("no room to wait")
		}
	}
	in := g.by["e"].inFlight + len(g.widened(now))
	if got := g.by["e"].inFlight; got != 4 || in < got {
		t.Errorf("%d places are taken, want 4", got)
	}
}

// TestParkedDeliveriesThatReturnElsewhereAreForgotten: the estimate of the backlog outside
// must not grow for ever when lanes move, nor keep the gate.
func TestParkedDeliveriesThatReturnElsewhereAreForgotten(t *testing.T) {
	g, now, lane := newGates(1000, 8), time.Now(), &partition{}
	first := testDelivery(lane, attempt.SourceEvents)
	g.enter(first, now)
	for range 500 {
		g.enter(testDelivery(lane, attempt.SourceEvents), now)
	}
	g.expired(now.Add(waitLimit))
	if d := g.parkDelay(first.endpoint, parkLimit, 0.5, now); d < 4*time.Second {
		t.Errorf("a large backlog parks for %s, want 5 s", d)
	}
	g.leave(first, now)
	now = now.Add(parkMemory)
	g.expired(now)
	now = now.Add(parkMemory)
	g.expired(now)
	if d := g.parkDelay(first.endpoint, parkLimit, 0.5, now); d != parkMin {
		t.Errorf("a backlog of long ago parks for %s, want %s", d, parkMin)
	}
	if len(g.by) != 0 {
		t.Error("a gate that nobody uses is kept")
	}
}
