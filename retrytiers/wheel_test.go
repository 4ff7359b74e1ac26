package retrytiers

import (
	"math/rand/v2"
	"testing"
)

func TestWheelReleasesInTimeOrderAndTiesInAdmissionOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var w wheel
	const n = 5000
	for i := range n {
		w.put(&entry{at: rnd.Int64N(500), seq: uint64(i)})
	}
	var last *entry
	count := 0
	for now := int64(0); now < 500; now += 7 {
		for e := w.take(now); e != nil; e = w.take(now) {
			if e.at > now || e.index != -1 {
				t.Fatalf("entry of %d at index %d taken at %d", e.at, e.index, now)
			}
			if last != nil && (e.at < last.at || e.at == last.at && e.seq < last.seq) {
				t.Fatalf("entry %d/%d came after %d/%d", e.at, e.seq, last.at, last.seq)
			}
			last = e
			count++
		}
		if at, ok := w.first(); ok && at <= now {
			t.Fatalf("first is %d after taking up to %d", at, now)
		}
	}
	for e := w.take(500); e != nil; e = w.take(500) {
		count++
	}
	if count != n {
		t.Errorf("took %d of %d", count, n)
	}
}

func TestWheelRemoveIfKeepsOrderOfTheRest(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var w wheel
	for i := range 1000 {
		w.put(&entry{at: rnd.Int64N(100), seq: uint64(i)})
	}
	w.removeIf(func(e *entry) bool { return e.seq%3 == 0 })
	for i, e := range w.entries {
		if e.index != i {
			t.Fatalf("entry at %d says %d", i, e.index)
		}
	}
	last, count := int64(-1), 0
	for e := w.take(100); e != nil; e = w.take(100) {
		if e.at < last || e.seq%3 == 0 {
			t.Fatalf("took %d after %d, seq %d", e.at, last, e.seq)
		}
		last = e.at
		count++
	}
	if count != 666 {
		t.Errorf("%d entries are left, want 666", count)
	}
}
