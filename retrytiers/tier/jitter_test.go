package tier

import (
	"math"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// TestFullJitterBounds is the schedule as the product states it: base 2 s, factor 2.
func TestFullJitterBounds(t *testing.T) {
	s := DefaultSchedule()
	f := func(n int, bound time.Duration) {
		t.Helper()
		if got := s.Bound(n); got != bound {
			t.Errorf("Bound(%d) = %s, want %s", n, got, bound)
		}
		if got := s.Delay(n, 0); got != 0 {
			t.Errorf("Delay(%d, 0) = %s, want 0", n, got)
		}
		if got := s.Delay(n, 1); got != bound {
			t.Errorf("Delay(%d, 1) = %s, want %s", n, got, bound)
		}
		if got := s.Delay(n, 0.5); got != bound/2 {
			t.Errorf("Delay(%d, 0.5) = %s, want %s", n, got, bound/2)
		}
	}
	f(1, 2*time.Second)
	f(2, 4*time.Second)
	f(3, 8*time.Second)
	f(4, 16*time.Second)
	f(11, 2048*time.Second)
	f(12, time.Hour)
	f(16, time.Hour)
	f(1<<40, time.Hour)
}

func TestBoundOfOddSchedules(t *testing.T) {
	f := func(s Schedule, n int, want time.Duration) {
		t.Helper()
		if got := s.Bound(n); got != want {
			t.Errorf("%+v.Bound(%d) = %s, want %s", s, n, got, want)
		}
	}
	f(Schedule{Base: time.Second, Factor: 1, Cap: time.Minute}, 50, time.Second)
	f(Schedule{Base: time.Second, Factor: 0.5, Cap: time.Minute}, 50, time.Second)
	f(Schedule{Base: time.Second, Factor: math.NaN(), Cap: time.Minute}, 3, time.Second)
	f(Schedule{Base: time.Second, Factor: math.Inf(1), Cap: time.Minute}, 3, time.Minute)
	f(Schedule{Base: time.Hour, Factor: 2, Cap: time.Minute}, 1, time.Minute)
	f(Schedule{Base: time.Second, Factor: 2, Cap: math.MaxInt64}, 500, math.MaxInt64)
	f(Schedule{}, 1, 0)
	f(DefaultSchedule(), 0, 2*time.Second)
	f(DefaultSchedule(), -7, 2*time.Second)
}

func TestPolicyKeepsNoState(t *testing.T) {
	p := Policy{Schedule: DefaultSchedule(), Attempt: 3, Max: 4, Rand: func() float64 { return 0.25 }}
	for range 3 {
		if got := p.NextBackOff(); got != 2*time.Second {
			t.Fatalf("NextBackOff() = %s, want 2s", got)
		}
		p.Reset()
	}
	p.Attempt = 4
	if got := p.NextBackOff(); got != backoff.Stop {
		t.Errorf("NextBackOff() after the last attempt = %s, want Stop", got)
	}
}
