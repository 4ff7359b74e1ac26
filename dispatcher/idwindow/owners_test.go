package idwindow

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestNoOwnerLeavesAHoleInTheSegments hands a partition from owner to owner at random
// moments. Each knows the segments so far and reads the log behind the last contiguous one;
// what it remembers must be what one owner for ever would.
func TestNoOwnerLeavesAHoleInTheSegments(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var log []Entry
		first := map[Identity]Entry{}
		var segments []Segment
		for range 5 {
			watermark := int64(len(log))
			var entries []Entry
			var next int64
			for _, s := range segments {
				if s.From > next {
					break
				}
				entries, next = append(entries, s.Entries...), max(next, s.To)
			}
			entries = append(entries, log[next:watermark]...)
			w := New[int](1<<20, time.Hour)
			w.Loaded(entries, next)
			for id, e := range first {
				if _, a := w.Claim(Entry{ID: id, Hash: e.Hash, Offset: watermark, AtMs: e.AtMs}, 0); a != Settled {
					t.Fatalf("seed %d: id %d of offset %d is %v for a later owner", seed, id[0], e.Offset, a)
				}
			}
			for range rng.IntN(60) {
				e := entry(byte(rng.IntN(200)), 7, int64(len(log)))
				log = append(log, e)
				if _, a := w.Claim(e, 0); a == Fresh {
					first[e.ID] = e
					w.Settle(e.ID)
				}
				if rng.IntN(10) == 0 {
					for _, s := range w.Segments(next, int64(len(log))) {
						segments, next = append(segments, s), s.To
					}
				}
			}
		}
	}
}

func TestALongStretchWithoutKeysIsASegment(t *testing.T) {
	w := loaded(t, 10)
	if got := w.Segments(5, 5+emptySpan-1); len(got) != 0 {
		t.Errorf("a short stretch made %v", got)
	}
	got := w.Segments(5, 5+emptySpan)
	if len(got) != 1 || got[0].From != 5 || got[0].To != 5+emptySpan || len(got[0].Entries) != 0 {
		t.Fatalf("got %v", got)
	}
	if back, err := DecodeSegment(got[0].Append(nil)); err != nil || back.To != got[0].To {
		t.Errorf("decoded %v: %v", back, err)
	}
}
