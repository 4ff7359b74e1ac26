package ingest

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

func TestStallSeesTheOldestOpenEvent(t *testing.T) {
	s := newStall(time.Second)
	at := func(d time.Duration) time.Time { return s.start.Add(d) }
	if s.stalled(at(48*time.Hour)) || s.age(at(48*time.Hour)) != 0 {
		t.Fatal("stalled with nothing open")
	}
	now := 48 * time.Hour
	first := s.add(at(now))
	second := s.add(at(now + 500*time.Millisecond))
	for d, want := range map[time.Duration]bool{0: false, 900 * time.Millisecond: false, 1100 * time.Millisecond: true, time.Hour: true} {
		if got := s.stalled(at(now + d)); got != want {
			t.Errorf("stalled after %s: %v", d, got)
		}
	}
	if got := s.age(at(now + time.Hour)); got < time.Hour || got > time.Hour+stallWidth {
		t.Errorf("age is %s", got)
	}
	s.done(first)
	if !s.stalled(at(now + time.Hour)) {
		t.Error("the second event is forgotten")
	}
	s.done(second)
	if s.stalled(at(now+time.Hour)) || s.age(at(now+time.Hour)) != 0 {
		t.Error("stalled after all are done")
	}
}

// Any order of finishing: stalled equals what a list of the open events says, within the
// width of a slot.
func TestStallEqualsAList(t *testing.T) {
	const limit = 200 * time.Millisecond
	s := newStall(limit)
	type item struct {
		at   time.Duration
		slot int64
	}
	var open []item
	now := time.Duration(0)
	for range 200_000 {
		now += time.Duration(rand.IntN(6)) * time.Millisecond
		if rand.IntN(2000) == 0 {
			now += time.Duration(rand.IntN(60)) * time.Second
		}
		oldest := now
		for _, o := range open {
			oldest = min(oldest, o.at)
		}
		got := s.stalled(s.start.Add(now))
		if age := now - oldest; got && age < limit-stallWidth || !got && age > limit+2*stallWidth {
			t.Fatalf("stalled is %v, the oldest is %s old", got, age)
		}
		if !got && rand.IntN(2) == 0 {
			open = append(open, item{now, s.add(s.start.Add(now))})
		}
		if len(open) > 0 && (len(open) > 20 || rand.IntN(2) == 0) {
			i := rand.IntN(len(open))
			s.done(open[i].slot)
			open = append(open[:i], open[i+1:]...)
		}
	}
}

func TestStallUnderConcurrency(t *testing.T) {
	s := newStall(maxStall) // far above any pause of the scheduler
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20_000 {
				now := time.Now()
				if s.stalled(now) {
					t.Error("stalled although everything finishes at once")
					return
				}
				s.done(s.add(now))
			}
		})
	}
	wg.Wait()
}
