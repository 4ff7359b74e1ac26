package dispatcher

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/circuit"
	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/retrytiers/tier"
)

// TestABreakerParksAndKeepsTheAttempts fails an endpoint until its breaker opens: what comes
// then is parked with the attempts it had, its record says circuit_open, no POST is made, and
// other endpoints do not notice.
func TestABreakerParksAndKeepsTheAttempts(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("bad", nil)
	r.endpoint("ok", nil)
	r.recv.answers(func(p post) int {
		if p.path == "bad" {
			return 500
		}
		return 200
	})
	p := r.start("a", nil)
	const first = 40
	for i := range first {
		r.publish(fmt.Sprint("m-", i), nil)
	}
	eventually(t, "the first rows", func() bool { return len(r.rowsOf()) == 2*first })
	before := len(r.recv.all())
	const more = 10
	for i := range more {
		r.publish(fmt.Sprint("n-", i), nil)
	}
	eventually(t, "all rows", func() bool { return len(r.rowsOf()) == 2*(first+more) })
	if got := len(r.recv.all()) - before; got != more {
		t.Errorf("%d posts with the breaker open, want %d: only the healthy endpoint's", got, more)
	}
	parked := 0
	for _, row := range r.rowsOf()[2*first:] {
		if row.Endpoint != "bad" {
			continue
		}
		parked++
		if row.Outcome != attempt.Parked || row.Circuit != attempt.Open || row.ErrorClass != attempt.CircuitOpen || row.StatusCode != 0 {
			t.Errorf("row %+v, want parked by an open circuit", row)
		}
	}
	if parked != more {
		t.Errorf("%d parked, want %d", parked, more)
	}
	for _, rec := range r.copies() {
		ticket, err := tier.DecodeTicket(rec.Headers)
		if err != nil {
			t.Fatal(err)
		}
		if ticket.Parks > 0 && ticket.Attempt > 0 {
			t.Errorf("a park cost an attempt: %+v", ticket)
		}
	}
	p.end(t)
}

func TestWhenOpenFailEndsAsADeadLetter(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("bad", func(e *endpoint.Endpoint) { e.WhenOpen = endpoint.WhenOpenFail })
	r.recv.answers(func(post) int { return 500 })
	p := r.start("a", nil)
	for i := range 40 {
		r.publish(fmt.Sprint("m-", i), nil)
	}
	eventually(t, "the first rows", func() bool { return len(r.rowsOf()) == 40 })
	r.publish("late", nil)
	eventually(t, "its dead letter", func() bool {
		rows := r.rowsOf()
		last := rows[len(rows)-1]
		return last.MessageID == "late" && last.Outcome == attempt.Dead && last.Reason == string(tier.CircuitOpen)
	})
	p.end(t)
}

// TestHalfOpenProbesAreDeliveries lets an open breaker's time pass: the next delivery is the
// probe, and four that succeed close it.
func TestHalfOpenProbesAreDeliveries(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("e", nil)
	var up atomic.Bool
	r.recv.answers(func(post) int {
		if up.Load() {
			return 200
		}
		return 500
	})
	p := r.start("a", nil)
	for i := range 40 {
		r.publish(fmt.Sprint("m-", i), nil)
	}
	eventually(t, "the rows", func() bool { return len(r.rowsOf()) == 40 })
	up.Store(true)
	p.gates.mu.Lock()
	p.gates.by["e"].breaker.LearnClosed(time.Now()) // its time is up
	p.gates.mu.Unlock()
	half, n := 0, 0
	eventually(t, "a closed breaker", func() bool { // on a busy machine some leave before their turn
		n++
		r.publish(fmt.Sprint("n-", n), nil)
		p.gates.mu.Lock()
		defer p.gates.mu.Unlock()
		return p.gates.by["e"].breaker.State(time.Now()) == circuit.Closed
	})
	eventually(t, "the records of four probes", func() bool {
		half = 0
		for _, row := range r.rowsOf() {
			if row.Circuit == attempt.HalfOpen {
				half++
				if row.Outcome != attempt.Delivered {
					t.Errorf("probe %+v, want delivered", row)
				}
			}
		}
		return half >= 4
	})
	if half != 4 {
		t.Errorf("%d rows of probes, want 4", half)
	}
	p.end(t)
}

// TestTheFleetLearnsOfAnOpenBreaker fails an endpoint in one process: another that has not
// sent it anything holds its breaker open, too, and lets go when the first finds it up again.
func TestTheFleetLearnsOfAnOpenBreaker(t *testing.T) {
	r := newRig(t, 1) // one lane: the second process owns nothing
	r.endpoint("e", nil)
	var up atomic.Bool
	r.recv.answers(func(post) int {
		if up.Load() {
			return 200
		}
		return 500
	})
	first := r.start("a", nil)
	second := r.start("b", nil)
	state := func(p *process) circuit.State {
		p.gates.mu.Lock()
		defer p.gates.mu.Unlock()
		if gt := p.gates.by["e"]; gt != nil {
			return gt.breaker.State(time.Now())
		}
		return circuit.Closed
	}
	eventually(t, "a lane", func() bool { return len(first.owned())+len(second.owned()) == 1 })
	owner, other := first, second
	if len(second.owned()) == 1 {
		owner, other = second, first
	}
	for i := range 40 {
		r.publish(fmt.Sprint("m-", i), nil)
	}
	eventually(t, "an open breaker in the other process", func() bool { return state(other) == circuit.Open })
	other.gates.mu.Lock()
	until := other.gates.by["e"].breaker.Until()
	other.gates.mu.Unlock()
	up.Store(true)
	owner.gates.mu.Lock()
	owner.gates.by["e"].breaker.LearnClosed(time.Now()) // its time is up
	owner.gates.mu.Unlock()
	n := 0
	eventually(t, "a half-open breaker in the other process", func() bool {
		n++
		r.publish(fmt.Sprint("n-", n), nil)
		return state(other) != circuit.Open
	})
	if !time.Now().Before(until) {
		t.Error("it only waited for its time")
	}
	first.end(t)
	second.end(t)
}

func FuzzAdvice(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(breaker{State: circuit.Open, Until: time.UnixMilli(1_800_000_000_000), Trips: 3}.encode("w"))
	f.Add([]byte(`{"v":2}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		b, worker, err := decodeAdvice(value)
		if err != nil {
			return
		}
		again, _, err := decodeAdvice(b.encode(worker))
		if err != nil || again.State != b.State || !again.Until.Equal(b.Until) || again.Trips != b.Trips {
			t.Fatalf("%+v came back as %+v, %v", b, again, err)
		}
	})
}

// TestSlowEndpointsShareAQuarter fills the gates of endpoints that are known to be slow.
func TestSlowEndpointsShareAQuarter(t *testing.T) {
	const permits = 100
	g, now, lane := newGates(permits, 8), time.Now(), &partition{}
	taken := 0
	for i := range 50 {
		slow := &endpoint.Endpoint{ID: fmt.Sprint("slow-", i), MaxInFlight: 8}
		for range 4 { // learns that it is slow
			dl := testDelivery(lane, attempt.SourceEvents)
			dl.endpoint = slow
			if g.enter(dl, now) == entered {
				dl.signal, dl.took = circuit.OK, 14*time.Second
				g.leave(dl, now)
			}
		}
		for range 8 {
			dl := testDelivery(lane, attempt.SourceEvents)
			dl.endpoint = slow
			if g.enter(dl, now) == entered {
				taken++
			}
		}
	}
	// One each is always let in: an endpoint that never gets a turn never shows that it is well.
	if taken > permits/slowShare+50 {
		t.Errorf("slow endpoints hold %d of %d places", taken, permits)
	}
	fast := testDelivery(lane, attempt.SourceEvents)
	fast.endpoint = &endpoint.Endpoint{ID: "fast", MaxInFlight: 8}
	if g.enter(fast, now) != entered {
		t.Error("a fast endpoint has to wait for the slow ones")
	}
}

// TestTheRateOfAnEndpointHolds publishes twice what its rate allows for a while and counts
// what it gets, parked deliveries included: they come back through due as the tiers would
// bring them.
func TestTheRateOfAnEndpointHolds(t *testing.T) {
	r := newRig(t, 2)
	const rate = 20.0
	r.endpoint("e", func(e *endpoint.Endpoint) { e.RatePerSecond = rate })
	p := r.start("a", nil)
	for i := range 200 {
		r.publish(fmt.Sprint("m-", i), nil)
	}
	start := time.Now()
	moved := 0
	eventually(t, "100 deliveries", func() bool {
		copies := r.copies()
		for ; moved < len(copies); moved++ {
			rec := copies[moved]
			ticket, err := tier.DecodeTicket(rec.Headers)
			if err != nil {
				t.Error(err)
				return true
			}
			time.AfterFunc(time.Until(time.UnixMilli(ticket.DueMs)), func() {
				r.cl.Produce(t.Context(), &kgo.Record{
					Topic: r.topic(tier.DueSuffix), Partition: ticket.Orig.Partition, Key: rec.Key, Value: rec.Value, Headers: rec.Headers,
				}, nil)
			})
		}

		return len(r.recv.all()) >= 100
	})
	took := time.Since(start)
	if got := 100 / took.Seconds(); got > 1.1*rate+1/took.Seconds() || got < 0.4*rate { // a busy machine is late; the exact rate is circuit's test
		t.Errorf("%.1f a second, want %v", got, rate)
	}
	p.end(t)
}
