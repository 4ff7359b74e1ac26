package idwindow

import (
	"math/rand/v2"
	"testing"
	"time"
)

func entry(id byte, hash uint64, offset int64) Entry {
	return Entry{ID: Identity{id}, Hash: hash, Offset: offset, AtMs: time.Now().UnixMilli()}
}

func loaded(t *testing.T, limit int) *Window[int] {
	t.Helper()
	w := New[int](limit, time.Hour)
	if waiting := w.Loaded(nil, 0); len(waiting) != 0 {
		t.Fatalf("%d handles waited in a new window", len(waiting))
	}
	return w
}

func TestARepeatJoinsWhileInFlightAndIsDroppedAfter(t *testing.T) {
	w := loaded(t, 10)
	if _, a := w.Claim(entry(1, 7, 0), 100); a != Fresh {
		t.Fatalf("first: %v", a)
	}
	if first, a := w.Claim(entry(1, 7, 1), 101); a != InFlight || first != 100 {
		t.Fatalf("repeat in flight: %v of %d", a, first)
	}
	if _, a := w.Claim(entry(1, 8, 2), 102); a != Conflict {
		t.Fatalf("other body in flight: %v", a)
	}
	w.Settle(Identity{1})
	if _, a := w.Claim(entry(1, 7, 3), 103); a != Settled {
		t.Fatalf("repeat after: %v", a)
	}
	if _, a := w.Claim(entry(1, 8, 4), 104); a != Conflict {
		t.Fatalf("other body after: %v", a)
	}
}

func TestUnloadedWindowKeepsEventsInOrder(t *testing.T) {
	w := New[int](10, time.Hour)
	for i := range 3 {
		if _, a := w.Claim(entry(1, 7, int64(10+i)), i); a != Loading {
			t.Fatalf("claim %d: %v", i, a)
		}
	}
	waiting := w.Loaded([]Entry{entry(2, 9, 3)}, 10)
	if len(waiting) != 3 || waiting[0] != 0 || waiting[2] != 2 {
		t.Fatalf("handed back %v", waiting)
	}
	if _, a := w.Claim(entry(2, 9, 20), 9); a != Settled {
		t.Fatalf("loaded entry: %v", a)
	}
}

// A record above the watermark that is done may be added before Load brings the first of
// its id: the first by offset must win, or its repeat would make the first a conflict.
func TestTheFirstByOffsetStays(t *testing.T) {
	w := New[int](10, time.Hour)
	w.Add(entry(1, 99, 50))
	w.Loaded([]Entry{entry(1, 7, 5)}, 10)
	if _, a := w.Claim(entry(1, 7, 60), 1); a != Settled {
		t.Fatalf("repeat of the first: %v", a)
	}
	if _, a := w.Claim(entry(1, 99, 61), 1); a != Conflict {
		t.Fatalf("body of the later one: %v", a)
	}
}

// TestTheLaterOfTwoGenerationsStays: an id that was used again after its age is another event,
// whose own repeats are measured from it.
func TestTheLaterOfTwoGenerationsStays(t *testing.T) {
	early, late, repeat := entry(1, 7, 0), entry(1, 8, 5), entry(1, 8, 9)
	early.AtMs -= (90 * time.Minute).Milliseconds()
	late.AtMs -= (10 * time.Minute).Milliseconds()
	for _, order := range [][]Entry{{early, late}, {late, early}} {
		w := loaded(t, 10)
		for _, e := range order {
			w.Add(e)
		}
		if _, a := w.Claim(repeat, 1); a != Settled {
			t.Errorf("repeat of the later one, added as %d then %d: %v", order[0].Offset, order[1].Offset, a)
		}
	}
}

func TestExpiredAndEvictedIDsAreFreshAgain(t *testing.T) {
	w := loaded(t, 2)
	for id := byte(1); id <= 3; id++ {
		w.Claim(entry(id, 7, int64(id)), 0)
		w.Settle(Identity{id})
	}
	if _, a := w.Claim(entry(1, 7, 9), 0); a != Fresh {
		t.Fatalf("evicted by count: %v", a)
	}
	later := entry(3, 8, 10)
	later.AtMs += (2 * time.Hour).Milliseconds()
	w.now = func() time.Time { return time.UnixMilli(later.AtMs) }
	if _, a := w.Claim(later, 0); a != Fresh {
		t.Fatalf("expired by age: %v", a)
	}
}

// TestAgeIsThatOfTheLog reads events hours after they were written: the dispatchers were down.
func TestAgeIsThatOfTheLog(t *testing.T) {
	w := loaded(t, 10)
	at := func(id byte, offset int64, age time.Duration) Entry {
		e := entry(id, 7, offset)
		e.AtMs -= age.Milliseconds()
		return e
	}
	settle := func(e Entry, want Answer) {
		t.Helper()
		if _, a := w.Claim(e, 0); a != want {
			t.Errorf("id %d at offset %d: %v, want %v", e.ID[0], e.Offset, a, want)
		}
		w.Settle(e.ID)
	}
	settle(at(1, 0, 5*time.Hour), Fresh)
	settle(at(2, 1, 5*time.Hour), Fresh)
	settle(at(1, 2, 5*time.Hour-time.Second), Settled)
	settle(at(3, 3, 3*time.Hour), Fresh)
	if w.Len() != 1 {
		t.Errorf("%d ids are known, want one: the others were written hours before", w.Len())
	}
	settle(at(1, 4, 3*time.Hour), Fresh)
	settle(at(4, 5, -1000*time.Hour), Fresh) // a producer's clock that is ahead
	settle(at(5, 6, 0), Fresh)
	settle(at(4, 7, -1000*time.Hour), Settled)
	settle(at(5, 8, 0), Settled)
}

// TestSegmentsCoverWhatIsCommitted drives a window at random and rebuilds another from its
// segments and a scan of the rest: both must answer alike.
func TestSegmentsCoverWhatIsCommitted(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := loaded(t, 1<<20)
		var log []Entry // events by offset
		first := map[Identity]Entry{}
		var segments []Segment
		var next int64
		for range 300 {
			e := entry(byte(rng.IntN(120)), uint64(rng.IntN(2)), int64(len(log)))
			log = append(log, e)
			if _, a := w.Claim(e, 0); a == Fresh {
				first[e.ID] = e
				w.Settle(e.ID)
			}
			if rng.IntN(40) == 0 {
				for _, s := range w.Segments(next, e.Offset+1) {
					back, err := DecodeSegment(s.Append(nil))
					if err != nil {
						t.Fatal(err)
					}
					segments, next = append(segments, back), s.To
				}
			}
		}
		var entries []Entry
		for _, s := range segments {
			entries = append(entries, s.Entries...)
		}
		entries = append(entries, log[next:]...)
		again := New[int](1<<20, time.Hour)
		again.Loaded(entries, next)
		for id, e := range first {
			if _, a := again.Claim(Entry{ID: id, Hash: e.Hash, Offset: 1000, AtMs: e.AtMs}, 0); a != Settled {
				t.Fatalf("seed %d: id %d of offset %d is %v after the rebuild", seed, id[0], e.Offset, a)
			}
		}
	}
}

func FuzzDecodeSegment(f *testing.F) {
	s := Segment{From: 3, To: 900, Entries: []Entry{entry(1, 2, 5), entry(2, 3, 6)}}
	f.Add(s.Append(nil))
	f.Add([]byte{})
	// Whatever decodes encodes to the same bytes; nothing panics.
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeSegment(b)
		if err != nil {
			return
		}
		if string(s.Append(nil)) != string(b) {
			t.Fatalf("segment changes on a round trip: %x", b)
		}
	})
}
