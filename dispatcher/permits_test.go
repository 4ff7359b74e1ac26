package dispatcher

import (
	"sync"
	"testing"
	"time"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/endpoint"
)

func testDelivery(q *partition, source attempt.SourceTopic) *delivery {
	s := &stream{source: source}
	return &delivery{slot: &slot{part: q, stream: s}, endpoint: &endpoint.Endpoint{ID: "e", MaxInFlight: 1}}
}

// TestPermitsAreDealtRoundRobinAndHalfToDue queues a flood on one lane and a few on another:
// the flood must not make the few wait, nor fresh deliveries the due ones.
func TestPermitsAreDealtRoundRobinAndHalfToDue(t *testing.T) {
	var order []*delivery
	ran := make(chan struct{}, 1000)
	var mu sync.Mutex
	p := newPermits(1, func(d *delivery) {
		mu.Lock()
		order = append(order, d)
		mu.Unlock()
		ran <- struct{}{}
	})
	flood, few := &partition{}, &partition{}
	hold := testDelivery(flood, attempt.SourceEvents)
	p.offer(&flood.queues, hold) // takes the only permit
	<-ran
	for range 100 {
		p.offer(&flood.queues, testDelivery(flood, attempt.SourceEvents))
	}
	for range 100 {
		p.offer(&flood.queues, testDelivery(flood, attempt.SourceDue))
	}
	for range 4 {
		p.offer(&few.queues, testDelivery(few, attempt.SourceEvents))
	}
	for range 16 {
		p.release()
		<-ran
	}
	count := map[string]int{}
	for _, d := range order[1:9] { // the first 8 after the held one
		switch {
		case d.slot.part == few:
			count["few"]++
		case d.slot.stream.isDue():
			count["due"]++
		default:
			count["fresh"]++
		}
	}
	if count["few"] != 4 || count["due"] != 2 || count["fresh"] != 2 {
		t.Errorf("first 8 permits went to %v, want few 4, due 2, fresh 2", count)
	}
	if n := p.inUse(); n != 1 {
		t.Errorf("%d permits in use, want 1", n)
	}
}

func TestClosedLaneGetsNoPermit(t *testing.T) {
	ran := make(chan *delivery, 10)
	p := newPermits(1, func(d *delivery) { ran <- d })
	a, b := &partition{}, &partition{}
	p.offer(&a.queues, testDelivery(a, attempt.SourceEvents))
	<-ran
	p.offer(&a.queues, testDelivery(a, attempt.SourceEvents))
	want := testDelivery(b, attempt.SourceEvents)
	p.offer(&b.queues, want)
	if waiting := p.close(&a.queues); len(waiting) != 1 {
		t.Fatalf("close returned %d deliveries, want 1", len(waiting))
	}
	if p.offer(&a.queues, testDelivery(a, attempt.SourceEvents)) {
		t.Fatal("a closed lane's delivery was taken")
	}
	p.release()
	if got := <-ran; got != want {
		t.Fatal("the permit went to the closed lane")
	}
}

func TestGateLimitsWaitsAndExpires(t *testing.T) {
	g, now := newGates(1000, 8), time.Now()
	lane := &partition{}
	first, second := testDelivery(lane, attempt.SourceEvents), testDelivery(lane, attempt.SourceEvents)
	if g.enter(first, now) != entered {
		t.Fatal("a free place was refused")
	}
	if g.enter(second, now) != waits {
		t.Fatal("a second one did not wait")
	}
	if got := g.leave(first, now); got != second {
		t.Fatal("the place did not pass to the one that waits")
	}
	third := testDelivery(lane, attempt.SourceEvents)
	g.enter(third, now)
	if got := g.expired(now.Add(waitLimit - time.Millisecond)); len(got) != 0 {
		t.Fatal("expired before its time")
	}
	if got := g.expired(now.Add(waitLimit)); len(got) != 1 || got[0] != third {
		t.Fatalf("expired %v, want the third", got)
	}
	if got := g.leave(second, now); got != nil {
		t.Fatal("an expired delivery got the place")
	}
	var refused bool
	for range 10_000 {
		if g.enter(testDelivery(lane, attempt.SourceEvents), now) == full {
			refused = true
			break
		}
	}
	if !refused {
		t.Error("the queue of one endpoint has no bound")
	}
	for range 100 {
		if d := g.parkDelay(first.endpoint, parkLimit, 0.999, now); d < 800*time.Millisecond || d > 360*time.Second {
			t.Fatalf("park delay %s is out of bounds", d)
		}
	}
}

func TestForksKeepTheHighestDurableStep(t *testing.T) {
	f := newForks(4)
	k := forkKey{event: "e", endpoint: "x"}
	if f.seen(k, step{0, 0}) {
		t.Fatal("an unknown chain looks seen")
	}
	f.settle(k, step{1, 2})
	for _, c := range []struct {
		at   step
		seen bool
	}{{step{0, 9}, true}, {step{1, 1}, true}, {step{1, 2}, true}, {step{1, 3}, false}, {step{2, 0}, false}} {
		if f.seen(k, c.at) != c.seen {
			t.Errorf("step %+v: seen %v, want %v", c.at, !c.seen, c.seen)
		}
	}
	f.settle(k, step{1, 0}) // a late lower one changes nothing
	if !f.seen(k, step{1, 2}) {
		t.Error("a lower step took a higher one back")
	}
	f.settle(k, ended)
	if !f.seen(k, step{500, 500}) {
		t.Error("a copy after the end is not recognised")
	}
	if f.seen(forkKey{event: "e", endpoint: "x", replay: "r"}, step{0, 0}) {
		t.Error("a replay is judged by the original chain")
	}
	for i := range 100 {
		f.settle(forkKey{event: string(rune('a' + i))}, ended)
	}
	if n := len(f.current) + len(f.older); n > 8 {
		t.Errorf("%d chains kept, bound is 8", n)
	}
}
