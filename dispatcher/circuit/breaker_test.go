package circuit

import (
	"math/rand/v2"
	"testing"
	"testing/quick"
	"time"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestTheBreakerOpensOnARatioOfFailures(t *testing.T) {
	for _, c := range []struct {
		name            string
		oks, fails      int
		gap             time.Duration
		open            bool
		failuresComeRow Signal
	}{
		{"half of twenty", 10, 10, time.Millisecond, true, Failed},
		{"less than half", 11, 9, time.Millisecond, false, Failed},
		{"too few", 0, 19, time.Millisecond, false, Failed},
		{"spread over more than the window", 0, 40, 3 * time.Second, false, Failed},
		{"overload counts", 10, 10, time.Millisecond, true, Overloaded},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b Breaker
			now := epoch
			for range c.oks {
				b.Record(OK, false, now, 0.5)
				now = now.Add(c.gap)
			}
			for range c.fails {
				b.Record(c.failuresComeRow, false, now, 0.5)
				now = now.Add(c.gap)
			}
			if got := b.State(now) == Open; got != c.open {
				t.Errorf("open = %v, want %v", got, c.open)
			}
		})
	}
}

func TestFiveConnectionsInARowThatCannotBeMadeOpen(t *testing.T) {
	var b Breaker
	for i := range 4 {
		if b.Record(Unreachable, false, epoch, 0.5) {
			t.Fatalf("opened after %d", i+1)
		}
	}
	b.Record(OK, false, epoch, 0.5)
	for range 4 {
		b.Record(Unreachable, false, epoch, 0.5)
	}
	if b.State(epoch) != Closed {
		t.Fatal("a success in between did not break the row")
	}
	if !b.Record(Unreachable, false, epoch, 0.5) || b.State(epoch) != Open {
		t.Fatal("not open after five in a row")
	}
}

// trip opens b at now by unreachable connections.
func trip(b *Breaker, now time.Time, u float64) {
	for range maxConnects {
		b.Record(Unreachable, false, now, u)
	}
}

func TestOpeningsGrowLongerUpToFiveMinutes(t *testing.T) {
	var b Breaker
	now := epoch
	trip(&b, now, 0.5)
	for i, want := range []time.Duration{
		5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, maxOpen, maxOpen,
	} {
		if got := b.Until().Sub(now); got != want {
			t.Fatalf("opening %d lasts %s, want %s", i+1, got, want)
		}
		now = b.Until()
		if allowed, probe := b.Ask(now); !allowed || !probe {
			t.Fatalf("no probe at the end of opening %d", i+1)
		}
		b.Record(Failed, true, now, 0.5)
	}
	if got := b.OpenFor(now); got != now.Sub(epoch) {
		t.Errorf("open for %s, want since the first opening (%s)", got, now.Sub(epoch))
	}
}

func TestTheLengthOfAnOpeningIsSpread(t *testing.T) {
	for u, want := range map[float64]time.Duration{0: 4 * time.Second, 0.5: 5 * time.Second} {
		var b Breaker
		trip(&b, epoch, u)
		if got := b.Until().Sub(epoch); got != want {
			t.Errorf("u=%v: %s, want %s", u, got, want)
		}
	}
}

func TestHalfOpenLetsOneThroughThenThree(t *testing.T) {
	var b Breaker
	trip(&b, epoch, 0.5)
	now := b.Until()
	ask := func() int {
		n := 0
		for {
			allowed, probe := b.Ask(now)
			if !allowed {
				return n
			}
			if !probe {
				t.Fatal("a half-open breaker let an attempt through that is no probe")
			}
			n++
		}
	}
	if n := ask(); n != 1 {
		t.Fatalf("%d probes at first, want 1", n)
	}
	b.Record(OK, true, now, 0.5)
	if n := ask(); n != 3 {
		t.Fatalf("%d probes after the first succeeded, want 3", n)
	}
	b.Record(OK, true, now, 0.5)
	b.Record(OK, true, now, 0.5)
	if b.State(now) != HalfOpen {
		t.Fatal("closed too soon")
	}
	if !b.Record(OK, true, now, 0.5) || b.State(now) != Closed {
		t.Fatal("not closed after four")
	}
}

func TestAProbeThatWasNotMadeIsGivenBack(t *testing.T) {
	var b Breaker
	trip(&b, epoch, 0.5)
	now := b.Until()
	b.Ask(now)
	if allowed, _ := b.Ask(now); allowed {
		t.Fatal("two probes at once")
	}
	b.Record(None, true, now, 0.5)
	if allowed, probe := b.Ask(now); !allowed || !probe {
		t.Fatal("the place of a probe that was not made is gone for good")
	}
}

func TestOpeningsAreForgottenAfterCalm(t *testing.T) {
	var b Breaker
	now := epoch
	trip(&b, now, 0.5)
	now = b.Until()
	for range closeAfter {
		b.Ask(now)
		b.Record(OK, true, now, 0.5)
	}
	trip(&b, now.Add(time.Second), 0.5)
	if got := b.Until().Sub(now.Add(time.Second)); got != 10*time.Second {
		t.Fatalf("opened again at once for %s, want 10 s", got)
	}
	now = b.Until()
	for range closeAfter {
		b.Ask(now)
		b.Record(OK, true, now, 0.5)
	}
	now = now.Add(calm)
	b.Record(OK, false, now, 0.5)
	trip(&b, now, 0.5)
	if got := b.Until().Sub(now); got != 5*time.Second {
		t.Fatalf("after calm it opens for %s, want 5 s", got)
	}
}

func TestWhatAnotherProcessSawOnlyDelays(t *testing.T) {
	var b Breaker
	b.Learn(epoch.Add(10*time.Second), 2, epoch)
	if b.State(epoch) != Open || b.Until() != epoch.Add(10*time.Second) || b.Trips() != 2 {
		t.Fatalf("not open as told: %+v", b)
	}
	b.Learn(epoch.Add(5*time.Second), 1, epoch)
	if b.Until() != epoch.Add(10*time.Second) {
		t.Error("a shorter opening shortened ours")
	}
	b.Learn(epoch.Add(100*time.Hour), 1, epoch)
	if b.Until().Sub(epoch) > 6*time.Minute {
		t.Errorf("told nonsense it opens for %s", b.Until().Sub(epoch))
	}
	var c Breaker
	c.Learn(epoch.Add(-time.Second), 1, epoch)
	if c.State(epoch) != Closed {
		t.Error("an opening of the past opened it")
	}
}

// Whatever happens, a breaker is never stuck: some time after the last signal it lets an
// attempt through, and while half-open never more than three at once.
func TestABreakerIsNeverStuck(t *testing.T) {
	f := func(seed uint64) bool {
		r := rand.New(rand.NewPCG(seed, 1))
		var b Breaker
		now := epoch
		var probes, plain int
		for range 2000 {
			now = now.Add(time.Duration(r.IntN(2000)) * time.Millisecond)
			switch r.IntN(4) {
			case 0, 1:
				allowed, probe := b.Ask(now)
				if probe {
					probes++
				} else if allowed {
					plain++
				}
				if probes > moreProbes+closeAfter {
					return false
				}
			case 2:
				if probes > 0 {
					probes--
					b.Record(Signal(r.IntN(5)), true, now, r.Float64())
				}
			case 3:
				if plain > 0 {
					plain--
					b.Record(Signal(r.IntN(5)), false, now, r.Float64())
				}
			}
		}
		for ; probes > 0; probes-- {
			b.Record(None, true, now, 0)
		}
		allowed, _ := b.Ask(now.Add(2 * maxOpen))
		return allowed
	}
	if err := quick.Check(f, nil); err != nil {
		t.Error(err)
	}
}
