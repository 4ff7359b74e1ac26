package reconcile

import (
	"maps"
	"slices"
	"time"
)

// hours remembers the sums of each hour by partition of events.
type hours map[time.Time]map[int32]Sums

// recent hours are counted in each round: events may still come into them, since a Kafka
// producer may be late, and most of what is open ends soon.
const recent = 2

// due lists the hours to count in round n, oldest first, and forgets those that have left the
// window.
func (h hours) due(n int, cfg *Config, now time.Time) []time.Time {
	now = now.UTC()
	first, last := now.Add(-cfg.Window).Truncate(time.Hour), now.Add(time.Hour).Truncate(time.Hour)
	maps.DeleteFunc(h, func(at time.Time, _ map[int32]Sums) bool { return at.Before(first) })
	var out []time.Time
	for at := first; !at.After(last); at = at.Add(time.Hour) {
		sums, counted := h[at]
		switch {
		case !counted, n%cfg.SweepEvery == 0, !at.Before(now.Add(-recent * time.Hour).Truncate(time.Hour)):
			out = append(out, at)
		case n%cfg.OpenEvery == 0 && open(sums):
			out = append(out, at)
		}
	}
	return out
}

func open(sums map[int32]Sums) bool {
	for _, s := range sums {
		if s.Pending+s.Unaccounted > 0 {
			return true
		}
	}
	return false
}

// Totals is what all hours of the window add up to.
type Totals struct {
	All         Sums
	ByPartition map[int32]uint64     // unaccounted
	ByHour      map[time.Time]uint64 // unaccounted, only hours with some
}

func (h hours) totals() *Totals {
	t := &Totals{ByPartition: map[int32]uint64{}, ByHour: map[time.Time]uint64{}}
	for at, sums := range h {
		for p, s := range sums {
			t.All.add(s)
			t.ByPartition[p] += s.Unaccounted
			if s.Unaccounted > 0 {
				t.ByHour[at] += s.Unaccounted
			}
		}
	}
	return t
}

// worst is the hour with the most that is unaccounted for.
func (t *Totals) worst() (hour time.Time, n uint64) {
	for _, at := range slices.SortedFunc(maps.Keys(t.ByHour), time.Time.Compare) {
		if t.ByHour[at] > n {
			hour, n = at, t.ByHour[at]
		}
	}
	return hour, n
}
