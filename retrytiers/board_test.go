package retrytiers

import (
	"fmt"
	"testing"
	"time"

	"github.com/hookline/hookline/retrytiers/tier"
)

var boardStart = time.UnixMilli(1_790_000_000_000)

// fill reads n records into s, the i-th due at start + i*gap.
func fill(s *slot, n int, gap time.Duration) {
	nowMs := boardStart.UnixMilli()
	for i := range n {
		r := newRecord(fmt.Sprintf("%s-%d-%d", s.suffix, s.partition, i), boardStart.Add(time.Duration(i)*gap), 1)
		r.Offset, r.Timestamp = int64(i), boardStart
		s.read(append(batch(0, 0, boardStart), r), nowMs)
	}
}

func TestFullWheelAdmitsNothingAndLosesNothing(t *testing.T) {
	l := tier.DefaultLadder()
	b := newBoard(12, 100, 1<<20)
	a, c := newTestSlot(l, "retry.15s", 0), newTestSlot(l, "retry.15s", 1)
	b.add(a)
	b.add(c)
	fill(a, 300, time.Millisecond)
	fill(c, 300, time.Millisecond)
	now := boardStart.UnixMilli()
	done := map[string]bool{}
	var flight []*entry
	for rounds := 0; len(done) < 600; rounds++ {
		if rounds > 10_000 {
			t.Fatalf("%d of 600 after %d rounds", len(done), rounds)
		}
		p := b.step(now)
		flight = append(flight, p.out...)
		if b.held > 100 {
			t.Fatalf("%d are held, the bound is 100", b.held)
		}
		if b.held == 100 && !b.starved && a.buffered()+c.buffered() > 0 {
			t.Fatal("nobody knows that records wait for room")
		}
		if a.buffered() >= pauseAt && !a.paused {
			t.Fatal("a slot that is not admitted is not paused")
		}
		for range min(7, len(flight)) { // acknowledgements trickle in
			e := flight[0]
			flight = flight[1:]
			id := idOf(e.headers)
			if done[id] {
				t.Fatalf("%s was released twice", id)
			}
			done[id] = true
			b.acked(e)
		}
		now++
	}
	if b.held != 0 || b.heldBytes != 0 || b.wheel.Len() != 0 || a.paused || c.paused {
		t.Errorf("left over: %d held, %d bytes, %d in the wheel", b.held, b.heldBytes, b.wheel.Len())
	}
	if a.ledger.Watermark() != 300 || c.ledger.Watermark() != 300 {
		t.Errorf("watermarks are %d and %d, want 300", a.ledger.Watermark(), c.ledger.Watermark())
	}
}

func TestBytesBoundTheWheel(t *testing.T) {
	b := newBoard(12, 1000, 10*sizeOf(newRecord("x", boardStart, 1)))
	s := newTestSlot(tier.DefaultLadder(), "retry.15s", 0)
	b.add(s)
	for i := range 20 {
		r := newRecord("x", boardStart, 1)
		r.Offset, r.Timestamp = int64(i), boardStart
		if i == 15 {
			r.Value = make([]byte, 1<<20) // more than the bound alone
		}
		s.read(append(batch(0, 0, boardStart), r), boardStart.UnixMilli())
	}
	released, largest := 0, 0
	for s.ledger.Watermark() < 20 {
		out := b.step(boardStart.UnixMilli()).out
		if len(out) == 0 {
			t.Fatalf("stuck after %d", released)
		}
		largest = max(largest, len(out))
		for _, e := range out {
			b.acked(e)
		}
		released += len(out)
	}
	if released != 20 || largest > 10 {
		t.Errorf("released %d, at most %d at once, want 20 and 10", released, largest)
	}
}

func TestFailedProduceIsHeldAndTriedAgain(t *testing.T) {
	b := newBoard(12, 100, 1<<20)
	s := newTestSlot(tier.DefaultLadder(), "retry.15s", 0)
	b.add(s)
	fill(s, 3, 0)
	now := boardStart.UnixMilli()
	out := b.step(now).out
	if len(out) != 3 {
		t.Fatalf("released %d, want 3", len(out))
	}
	b.acked(out[0])
	b.failed(out[1], now+500)
	b.acked(out[2])
	if at := s.ledger.Watermark(); at != 1 {
		t.Fatalf("watermark is %d, want 1: it passed a record that failed", at)
	}
	if p := b.step(now + 499); len(p.out) != 0 || p.next != now+500 {
		t.Fatalf("tried again too early: %d, next %d", len(p.out), p.next-now)
	}
	again := b.step(now + 500).out
	if len(again) != 1 || again[0] != out[1] || again[0].tries != 1 || len(again[0].value) == 0 {
		t.Fatalf("not tried again: %v", again)
	}
	b.acked(again[0])
	if at := s.ledger.Watermark(); at != 3 {
		t.Errorf("watermark is %d, want 3", at)
	}
}

func TestClosedSlotReleasesNothingMore(t *testing.T) {
	l := tier.DefaultLadder()
	b := newBoard(12, 1000, 1<<20)
	gone, stays := newTestSlot(l, "retry.15s", 0), newTestSlot(l, "retry.15s", 1)
	b.add(gone)
	b.add(stays)
	fill(gone, 10, time.Second)
	fill(stays, 10, time.Second)
	now := boardStart.UnixMilli() + 2000
	out := b.step(now).out
	if len(out) != 6 {
		t.Fatalf("released %d, want 3 of each", len(out))
	}
	var flight []*entry
	for _, e := range out {
		if e.slot == gone {
			flight = append(flight, e)
		} else {
			b.acked(e)
		}
	}
	b.close([]*slot{gone})
	if b.held != 3+7 {
		t.Errorf("%d are held, want 3 in flight and 7 of the other slot", b.held)
	}
	idle := make(chan struct{})
	gone.idle = idle
	b.acked(flight[0])
	b.failed(flight[1], now)
	if at := gone.ledger.Watermark(); at != 1 {
		t.Errorf("watermark is %d, want 1", at)
	}
	b.remove([]*slot{gone})
	b.acked(flight[2]) // after the slot went to somebody else
	select {
	case <-idle:
	default:
		t.Error("nobody was told that the slot is idle")
	}
	if at := gone.ledger.Watermark(); at != 1 {
		t.Errorf("a late acknowledgement moved the watermark to %d", at)
	}
	for _, e := range b.step(now + 60_000).out {
		if e.slot == gone {
			t.Fatal("a closed slot released a record")
		}
		b.acked(e)
	}
	if b.held != 0 || b.heldBytes != 0 {
		t.Errorf("%d entries and %d bytes are left", b.held, b.heldBytes)
	}
	if gone.read(batch(10, 5, boardStart), now) != 0 {
		t.Error("a closed slot reads on")
	}
}

// TestStuckRecordStopsItsSlotInTheEnd: one record that cannot be produced must not let the
// ledger grow without bound.
func TestStuckRecordStopsItsSlotInTheEnd(t *testing.T) {
	b := newBoard(12, 1000, 1<<20)
	s := newTestSlot(tier.DefaultLadder(), "retry.15s", 0)
	b.add(s)
	fill(s, 1, 0)
	now := boardStart.UnixMilli()
	b.failed(b.step(now).out[0], now+1<<40)
	r := newRecord("far", boardStart, 1)
	r.Offset, r.Timestamp = maxAhead, boardStart
	s.read(append(batch(0, 0, boardStart), r), now)
	if out := b.step(now).out; len(out) != 0 {
		t.Error("the slot runs ahead without bound")
	}
}
