package retrytiers

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/retrytiers/tier"
)

func batch(from int64, n int, at time.Time) []*kgo.Record {
	recs := make([]*kgo.Record, 0, n)
	for i := range n {
		r := newRecord("x", at.Add(time.Hour), 0)
		r.Offset, r.Timestamp = from+int64(i), at
		recs = append(recs, r)
	}
	return recs
}

// TestMaturityIsARunningMaximum: whatever the timestamps say, log order is the order of
// maturity, and no future timestamp holds a slot longer than its floor.
func TestMaturityIsARunningMaximum(t *testing.T) {
	now := time.UnixMilli(1_790_000_000_000)
	s := newTestSlot(tier.DefaultLadder(), "retry.15m", 3)
	wait := s.floor - s.lead
	f := func(stamp time.Time, want time.Time) {
		t.Helper()
		r := newRecord("x", now, 0)
		r.Offset, r.Timestamp = s.ledger.Next(), stamp
		s.read([]*kgo.Record{r}, now.UnixMilli())
		got := s.waiting[len(s.waiting)-1].matureMs
		if want := want.Add(wait).UnixMilli(); got != want {
			t.Errorf("record of %s matures %d ms off", stamp, got-want)
		}
	}
	f(now.Add(-time.Minute), now.Add(-time.Minute))
	f(now.Add(-2*time.Minute), now.Add(-time.Minute)) // stepped back
	f(now.Add(time.Hour), now)                        // a clock that is ahead
	f(now.Add(-time.Second), now)
	now = now.Add(time.Second)
	f(now, now)
}

func TestSlotPausesWithHysteresis(t *testing.T) {
	now := time.UnixMilli(1_790_000_000_000)
	s := newTestSlot(tier.DefaultLadder(), "retry.1h", 0)
	check := func(want bool) {
		t.Helper()
		pause, _ := s.wantPause(now.UnixMilli())
		s.paused = pause
		if pause != want {
			t.Errorf("with %d buffered pause is %v", s.buffered(), pause)
		}
	}
	check(false)
	s.read(batch(0, pauseAt-1, now), now.UnixMilli())
	check(false)
	s.read(batch(pauseAt-1, 1, now), now.UnixMilli())
	check(true)
	for s.buffered() > resumeAt+1 {
		s.advance()
		check(true)
	}
	s.advance()
	check(false)
	s.read(batch(pauseAt, pauseAt-resumeAt-1, now), now.UnixMilli())
	check(false)
}

func TestSlotReadsAheadShortlyBeforeMaturity(t *testing.T) {
	start := time.UnixMilli(1_790_000_000_000)
	s := newTestSlot(tier.DefaultLadder(), "retry.1h", 0)
	s.read(batch(0, 200, start), start.UnixMilli())
	pause, nearMs := s.wantPause(start.UnixMilli())
	mature := s.waiting[0].matureMs
	if !pause || nearMs != mature-near.Milliseconds() {
		t.Fatalf("long before: pause %v, look again %d ms before maturity", pause, mature-nearMs)
	}
	s.paused = true
	if pause, _ := s.wantPause(nearMs); pause {
		t.Error("a second before maturity it still pauses")
	}
	s.paused = false
	s.read(batch(200, nearLimit, start), start.UnixMilli())
	if pause, _ := s.wantPause(nearMs); !pause {
		t.Error("reading ahead has no bound")
	}
	// Mature but not admitted: the wheel is full. Then no reading ahead.
	s = newTestSlot(tier.DefaultLadder(), "retry.1h", 0)
	s.read(batch(0, pauseAt, start), start.UnixMilli())
	if pause, nearMs := s.wantPause(mature); !pause || nearMs != 0 {
		t.Error("a slot that is not admitted reads on")
	}
}

func TestSlotIgnoresASecondReading(t *testing.T) {
	now := time.UnixMilli(1_790_000_000_000)
	s := newTestSlot(tier.DefaultLadder(), "retry.2m", 0)
	s.ledger.MarkRange(5, 8)
	if got := s.read(batch(0, 10, now), now.UnixMilli()); got != 7 {
		t.Errorf("read %d, want 7 that are not marked", got)
	}
	if got := s.read(batch(4, 8, now), now.UnixMilli()); got != 2 {
		t.Errorf("read %d the second time, want the 2 new ones", got)
	}
	if s.buffered() != 9 {
		t.Errorf("%d are buffered, want 9", s.buffered())
	}
}
