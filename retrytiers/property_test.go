package retrytiers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/retrytiers/tier"
)

// sim is the default ladder in virtual time: an appender, one log per slot, a reader that
// respects pauses, and the board. Producing takes no time, so whatever is late is late by
// the mechanism itself.
type sim struct {
	t       *testing.T
	ladder  tier.Ladder
	board   *board
	logs    map[*slot][]*kgo.Record // appended, not yet read
	resumed map[*slot]int64         // ms from which a resumed slot is fetched again
	bySlot  map[string]map[int32]*slot
	nowMs   int64
	lateMs  []int64
	waits   map[string]int64 // id -> ms from placement to release
	placed  map[string]int64
	due     map[string]int64
}

const (
	simFetchMs = 5   // a fetch answers this long after an append
	simWaitMs  = 250 // a resumed partition joins the fetch after the one that waits
	simBatch   = 200 // records of one fetch
)

func newSim(t *testing.T) *sim {
	s := &sim{
		t: t, ladder: tier.DefaultLadder(), board: newBoard(12, 200_000, 256<<20),
		logs: map[*slot][]*kgo.Record{}, resumed: map[*slot]int64{}, bySlot: map[string]map[int32]*slot{},
		nowMs: boardStart.UnixMilli(), waits: map[string]int64{}, placed: map[string]int64{}, due: map[string]int64{},
	}
	for _, topic := range s.ladder.Topics() {
		s.bySlot[topic.Suffix] = map[int32]*slot{}
		for p := range topic.Partitions {
			slot := newTestSlot(s.ladder, topic.Suffix, p)
			s.board.add(slot)
			s.bySlot[topic.Suffix][p] = slot
		}
	}
	return s
}

// place appends a delivery that must wait delay; the append is acknowledged after took.
func (s *sim) place(id string, delay, took time.Duration) {
	r := newRecord(id, time.UnixMilli(s.nowMs).Add(delay), 1)
	s.placed[id], s.due[id] = s.nowMs, s.nowMs+delay.Milliseconds()
	s.append(r, delay, took)
}

func (s *sim) append(r *kgo.Record, delay, took time.Duration) {
	suffix, partition := s.ladder.Place(delay, string(r.Key))
	slot := s.bySlot[suffix][partition]
	r.Timestamp = time.UnixMilli(s.nowMs).Add(took)
	if log := s.logs[slot]; len(log) > 0 { // LogAppendTime
		if last := log[len(log)-1].Timestamp; r.Timestamp.Before(last) {
			r.Timestamp = last
		}
	}
	s.logs[slot] = append(s.logs[slot], r)
}

// fetch delivers what each slot may read now and returns when there is more.
func (s *sim) fetch() (next int64) {
	next = math.MaxInt64
	for slot, log := range s.logs {
		if slot.paused || len(log) == 0 {
			continue
		}
		n := 0
		from := max(s.resumed[slot], 0)
		for n < len(log) && n < simBatch && max(from, log[n].Timestamp.UnixMilli()+simFetchMs) <= s.nowMs {
			log[n].Offset = slot.ledger.Next() + int64(n)
			n++
		}
		slot.read(log[:n], s.nowMs)
		s.logs[slot] = log[n:]
		if n < len(log) {
			next = min(next, max(from, log[n].Timestamp.UnixMilli()+simFetchMs, s.nowMs+1))
		}
	}
	return next
}

// turn runs one moment and returns the next one.
func (s *sim) turn() (next int64) {
	next = s.fetch()
	p := s.board.step(s.nowMs)
	for _, slot := range p.resume {
		s.resumed[slot] = s.nowMs + simWaitMs
		next = min(next, s.nowMs+simWaitMs)
	}
	for _, e := range p.out {
		s.release(e)
	}
	for _, slot := range s.board.order {
		if n := slot.buffered(); n > nearLimit+simBatch {
			s.t.Fatalf("%s/%d buffers %d records", slot.suffix, slot.partition, n)
		}
	}
	if p.more {
		next = s.nowMs
	}
	if p.next > 0 {
		next = min(next, p.next)
	}
	return next
}

func (s *sim) release(e *entry) {
	id := idOf(e.headers)
	if e.kind == lap {
		r := &kgo.Record{Key: e.key, Value: e.value, Headers: e.headers}
		s.append(r, time.Duration(e.dueMs-s.nowMs)*time.Millisecond, 2*time.Millisecond)
		s.board.acked(e)
		return
	}
	late := s.nowMs - s.due[id]
	if late < 0 {
		s.t.Fatalf("%s was released %d ms early", id, -late)
	}
	if _, twice := s.waits[id]; twice {
		s.t.Fatalf("%s was released twice", id)
	}
	s.lateMs = append(s.lateMs, late)
	s.waits[id] = s.nowMs - s.placed[id]
	s.board.acked(e)
}

// run plays n arrivals, one every gap, then lets the rest come due.
func (s *sim) run(n int, gap time.Duration, delay func(i int) (delay, took time.Duration)) {
	arrived := 0
	nextArrival := s.nowMs
	for len(s.waits) < n {
		for arrived < n && nextArrival <= s.nowMs {
			d, took := delay(arrived)
			s.place(fmt.Sprint(arrived), d, took)
			arrived++
			nextArrival = boardStart.UnixMilli() + (time.Duration(arrived) * gap).Milliseconds()
		}
		next := s.turn()
		if arrived < n {
			next = min(next, nextArrival)
		}
		if next == math.MaxInt64 && len(s.waits) < n {
			s.t.Fatalf("%d of %d released and nothing will happen any more", len(s.waits), n)
		}
		if len(s.waits) < n {
			s.nowMs = max(next, s.nowMs)
		}
	}
}

func (s *sim) percentile(q float64) int64 {
	slices.Sort(s.lateMs)
	return s.lateMs[int(q*float64(len(s.lateMs)-1))]
}

// TestJitterStaysUniformAndNothingIsEarly is why slots exist. With a pause until the head is
// due the mean of U(0, 1 h) would be nearly an hour.
func TestJitterStaysUniformAndNothingIsEarly(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	s := newSim(t)
	const n = 20_000
	s.run(n, 50*time.Millisecond, func(int) (time.Duration, time.Duration) {
		return time.Duration(rnd.Int64N(int64(time.Hour))), time.Duration(rnd.Int64N(int64(30 * time.Millisecond)))
	})
	// A delay shorter than append + fetch is late by what is left of them, 35 ms here. No
	// other is late at all, also not one just above a floor (leadOf).
	if most := s.percentile(1); most > 36 {
		t.Errorf("largest lateness is %d ms", most)
	}
	for id, wait := range s.waits {
		if delay := s.due[id] - s.placed[id]; delay > 36 && wait != delay {
			t.Errorf("%s waited %d ms instead of %d", id, wait, delay)
		}
	}
	waits := make([]int64, 0, n)
	for _, w := range s.waits {
		waits = append(waits, w)
	}
	slices.Sort(waits)
	// Kolmogorov-Smirnov against U(0, 1 h); 1.95/sqrt(n) is the 0.1 % level.
	worst := 0.0
	for i, w := range waits {
		worst = max(worst, math.Abs(float64(w)/3_600_000-float64(i)/n))
	}
	if limit := 1.95 / math.Sqrt(n); worst > limit {
		t.Errorf("waits are %.4f away from uniform, want at most %.4f", worst, limit)
	}
}

// TestScheduleOfEveryAttempt plays the real schedule, short delays most.
func TestScheduleOfEveryAttempt(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 10))
	s := newSim(t)
	schedule := tier.DefaultSchedule()
	s.run(20_000, 20*time.Millisecond, func(i int) (time.Duration, time.Duration) {
		return schedule.Delay(1+i%16, rnd.Float64()), time.Duration(rnd.Int64N(int64(30 * time.Millisecond)))
	})
	if p99, most := s.percentile(0.99), s.percentile(1); p99 > 30 || most > 36 {
		t.Errorf("lateness p99 is %d ms, largest %d ms", p99, most)
	}
}

// TestHotSlotKeepsUp: one Retry-After for everybody fills a single slot at 2,000 a second,
// far above 64 records per fetch.
func TestHotSlotKeepsUp(t *testing.T) {
	s := newSim(t)
	s.run(40_000, 500*time.Microsecond, func(int) (time.Duration, time.Duration) {
		return 130 * time.Second, 2 * time.Millisecond
	})
	if p99 := s.percentile(0.99); p99 > 1 {
		t.Errorf("lateness p99 is %d ms, largest %d ms", p99, s.percentile(1))
	}
}

// TestLongDelaysLap: a day of Retry-After passes through the last slot again and again and
// is as exact as any other.
func TestLongDelaysLap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 12))
	s := newSim(t)
	s.run(500, time.Second, func(int) (time.Duration, time.Duration) {
		return time.Duration(rnd.Int64N(int64(24 * time.Hour))), 5 * time.Millisecond
	})
	if most := s.percentile(1); most > 10 {
		t.Errorf("largest lateness is %d ms", most)
	}
}
