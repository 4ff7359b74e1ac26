package circuit

import (
	"testing"
	"time"
)

const startLimit = 8

// feed lets rounds of full use answer in took.
func feed(l *Limit, now *time.Time, rounds, most int, s Signal, took time.Duration) {
	for range rounds {
		n := l.N(most)
		for range n {
			l.Record(s, took, n, most, *now)
		}
		*now = now.Add(took)
	}
}

func TestTheLimitGrowsWhileItIsUsed(t *testing.T) {
	l, now := NewLimit(startLimit), epoch
	if l.N(64) != startLimit {
		t.Fatalf("starts at %d", l.N(64))
	}
	feed(&l, &now, 10, 64, OK, 10*time.Millisecond)
	if got := l.N(64); got < startLimit+8 {
		t.Errorf("after ten full rounds %d, want %d", got, startLimit+8)
	}
	feed(&l, &now, 100, 64, OK, 10*time.Millisecond)
	if got := l.N(64); got != 64 {
		t.Errorf("%d, want the most", got)
	}
	idle := NewLimit(startLimit)
	for range 1000 {
		idle.Record(OK, 10*time.Millisecond, 1, 64, now)
	}
	if idle.N(64) != startLimit {
		t.Errorf("grew to %d without being used", idle.N(64))
	}
}

func TestTheLimitFallsOnceARound(t *testing.T) {
	l, now := NewLimit(startLimit), epoch
	feed(&l, &now, 200, 64, OK, 10*time.Millisecond)
	for range 64 {
		l.Record(Overloaded, 5*time.Second, 64, 64, now)
	}
	if got := l.N(64); got != 44 {
		t.Errorf("one wave of overload left %d of 64, want 44", got)
	}
	for range 300 {
		l.Record(Overloaded, 5*time.Second, 1, 64, now)
	}
	if got := l.N(64); got != 1 {
		t.Errorf("%d, want at least and at most 1", got)
	}
	if !l.Slow() {
		t.Error("five seconds an answer is not slow")
	}
}

// An endpoint that answers every fifth attempt with 503 whatever the load would be strangled
// by a limit that falls for each.
func TestFailuresThatLoadDoesNotCauseKeepTheLimit(t *testing.T) {
	l := NewLimit(startLimit)
	for i := range 10_000 {
		s := OK
		if i%5 == 0 {
			s = Overloaded
		}
		l.Record(s, 2*time.Millisecond, startLimit, 64, epoch.Add(time.Duration(i)*time.Millisecond))
	}
	if got := l.N(64); got < startLimit/2 {
		t.Errorf("the limit fell to %d", got)
	}
}

func TestAnswersThatGetSlowLowerTheLimit(t *testing.T) {
	l, now := NewLimit(startLimit), epoch
	feed(&l, &now, 200, 64, OK, 20*time.Millisecond)
	feed(&l, &now, 1, 64, OK, 60*time.Millisecond)
	if got := l.N(64); got != 64 {
		t.Errorf("40 ms more is noise, the limit fell to %d", got)
	}
	feed(&l, &now, 1, 64, OK, 400*time.Millisecond)
	if got := l.N(64); got >= 64 {
		t.Error("answers twenty times slower left the limit as it was")
	}
	now = now.Add(2 * bestFor)
	feed(&l, &now, 1, 64, OK, 400*time.Millisecond)
	now = now.Add(2 * bestFor)
	before := l.N(64)
	feed(&l, &now, 3, 64, OK, 400*time.Millisecond)
	if l.N(64) <= before {
		t.Error("an endpoint that has become slow for good is held down for ever")
	}
}

func TestARestartDoubles(t *testing.T) {
	l, now := NewLimit(startLimit), epoch
	l.Restart()
	for _, want := range []int{1, 2, 4, 8, 16, 32, 64, 64} {
		if got := l.N(64); got != want {
			t.Fatalf("%d, want %d", got, want)
		}
		feed(&l, &now, 1, 64, OK, 10*time.Millisecond)
	}
}
