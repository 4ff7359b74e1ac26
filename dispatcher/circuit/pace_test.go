package circuit

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A receiver that takes most attempts a second and fails all of a second in which more came.
type fragile struct {
	most   int
	stamps []time.Time
}

func (f *fragile) serve(now time.Time) (Signal, int) {
	f.stamps = append(f.stamps, now)
	for len(f.stamps) > 0 && now.Sub(f.stamps[0]) >= time.Second {
		f.stamps = f.stamps[1:]
	}
	if len(f.stamps) > f.most {
		return Overloaded, len(f.stamps)
	}
	return OK, len(f.stamps)
}

// TestABacklogDrainsWithoutASecondCollapse feeds a fragile receiver: a modest stream at
// first, then far too much, and looks at what it gets after the breaker has let the first
// probe through.
func TestABacklogDrainsWithoutASecondCollapse(t *testing.T) {
	const most = 200
	var b Breaker
	var p Pace
	rx := &fragile{most: most}
	step := time.Millisecond
	collapsed, probed := false, false
	var after []int
	highest := 0
	served := 0
	for i := range 240_000 { // four minutes
		now := epoch.Add(time.Duration(i) * step)
		arrivals := 0
		switch {
		case i < 20_000 && i%10 == 0: // 100/s
			arrivals = 1
		case i >= 20_000 && i < 22_000: // 5,000/s
			arrivals = 5
		case i >= 22_000: // a backlog: always somebody waits
			arrivals = 1
		}
		for range arrivals {
			allowed, probe := b.Ask(now)
			if !allowed || !probe && p.Take(0, now) > 0 {
				continue
			}
			s, n := rx.serve(now)
			if probe {
				probed = true
			}
			if probed {
				highest = max(highest, n)
				served++
			}
			p.Record(s, now)
			if b.Record(s, probe, now, 0.5) && b.State(now) == Open {
				if probed {
					t.Fatalf("a second collapse at %s", now.Sub(epoch))
				}
				collapsed = true
				p.Opened(now)
			}
		}
		if probed && i%1000 == 0 {
			after = append(after, served)
			served = 0
		}
	}
	if !collapsed || !probed {
		t.Fatal("the receiver never collapsed or was never tried again: the test shows nothing")
	}
	if highest > most {
		t.Errorf("%d attempts in one second after the first probe, it takes %d", highest, most)
	}
	if last := after[len(after)-1]; last < most/4 {
		t.Errorf("at the end %d a second are served of %d: it does not rise", last, most)
	}
}

func TestTheRateIsExact(t *testing.T) {
	for _, rate := range []float64{1, 3, 10, 100, 1000} {
		var p Pace
		n := 0
		for i := range 20_000 {
			now := epoch.Add(time.Duration(i) * time.Millisecond)
			for range 3 {
				if p.Take(rate, now) == 0 && i >= 10_000 {
					n++
				}
			}
		}
		if want := 10 * rate; float64(n) < 0.9*want || float64(n) > 1.1*want {
			t.Errorf("rate %v: %d in 10 s, want %v", rate, n, want)
		}
	}
}

// Parked deliveries that come back when they were told get through, in a rate that stays
// exact; those that do not come lose their place and hold up nobody for ever.
func TestPromisesAreKept(t *testing.T) {
	for _, late := range []time.Duration{0, 20 * time.Millisecond} {
		var p Pace
		const rate = 1.0
		r := rand.New(rand.NewPCG(1, 2))
		var back []time.Time // when parked deliveries return
		got := 0
		for i := range 60_000 {
			now := epoch.Add(time.Duration(i) * time.Millisecond)
			arrive := 0
			if r.IntN(500) == 0 { // 2/s, twice the rate
				arrive = 1
			}
			for len(back) > 0 && !back[0].After(now) {
				back = back[1:]
				if !p.Claim(now) {
					t.Fatalf("a delivery came back at its time and was not let in")
				}
				if i >= 30_000 {
					got++
				}
			}
			for range arrive {
				if p.Take(rate, now) == 0 {
					if i >= 30_000 {
						got++
					}
					continue
				}
				delay, ok := p.Reserve(rate, now)
				if !ok {
					t.Fatal("no room for a promise")
				}
				back = append(back, now.Add(delay+late))
			}
		}
		if got < 27 || got > 33 {
			t.Errorf("late %s: %d in 30 s at 1/s", late, got)
		}
	}
	var p Pace
	p.Reserve(1, epoch)
	if p.Claim(epoch.Add(claimFor + 2*time.Second)) {
		t.Error("a promise of long ago still counts")
	}
}

func TestARampIsNotFasterThanItWasTried(t *testing.T) {
	var p Pace
	p.Opened(epoch)
	now := epoch
	for range 100 { // one a second: the ramp has no reason to rise beyond
		now = now.Add(time.Second)
		p.Record(OK, now)
	}
	if r := p.Rate(0); r > 4 {
		t.Errorf("with 1 a second tried the ramp allows %v", r)
	}
	if r := p.Rate(1.5); r != 1.5 {
		t.Errorf("the operator's rate is %v, want 1.5", r)
	}
}

// An endpoint that fails a fifth of everything must not be held at the foot of the ramp.
func TestTheRampOfAFlakyEndpointRises(t *testing.T) {
	var p Pace
	p.Opened(epoch)
	n := 0
	for i := range 30_000 {
		now := epoch.Add(time.Duration(i) * time.Millisecond)
		if p.Take(0, now) > 0 {
			continue
		}
		s := OK
		if n++; n%5 == 0 {
			s = Overloaded
		}
		p.Record(s, now)
	}
	if n < 5000 {
		t.Errorf("%d attempts in 30 s", n)
	}
}

// A backlog that is told to come back as Drain predicts keeps the ramp rising and is worked
// off in seconds, not in the minutes that the foot of the ramp would take.
func TestABacklogComesBackAsTheRampRises(t *testing.T) {
	var p Pace
	p.Opened(epoch)
	const n = 4_000
	due := make([]time.Time, n)
	for i := range due {
		due[i] = epoch.Add(max(time.Second, p.Drain(float64(i), 0, 1)))
	}
	now, hops := epoch, 0
	for left := n; left > 0; {
		now = now.Add(time.Millisecond)
		if now.Sub(epoch) > time.Minute {
			t.Fatalf("%d of %d are left after a minute, %d hops", left, n, hops)
		}
		waiting := 0
		for i := range due {
			if due[i].IsZero() || due[i].After(now) {
				continue
			}
			if p.Take(0, now) == 0 {
				p.Record(OK, now)
				due[i] = time.Time{}
				left--
				continue
			}
			waiting++
			hops++
			due[i] = now.Add(max(time.Second, p.Drain(float64(waiting), 0, 1)))
		}
	}
	if hops > 3*n/2 { // besides the one that took it away
		t.Errorf("%d hops for %d deliveries", hops, n)
	}
}
