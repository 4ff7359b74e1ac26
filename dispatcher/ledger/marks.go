package ledger

import (
	"slices"
	"sort"
)

// marks is a set of offsets as ascending, disjoint, non-adjacent runs. It is filled in
// nearly ascending order and consumed from the front.
type marks struct {
	set []Run
}

func (m *marks) runs() []Run { return m.set }

// add puts [from, to) into the set and merges what it touches.
func (m *marks) add(from, to int64) {
	// [i, j) are the runs that touch or overlap the new one.
	i := sort.Search(len(m.set), func(i int) bool { return m.set[i].To >= from })
	j := i + sort.Search(len(m.set)-i, func(k int) bool { return m.set[i+k].From > to })
	if i < j {
		from = min(from, m.set[i].From)
		to = max(to, m.set[j-1].To)
	}
	m.set = slices.Replace(m.set, i, j, Run{From: from, To: to})
}

// take removes everything up to and including offset and reports whether offset was in.
func (m *marks) take(offset int64) bool {
	if len(m.set) == 0 {
		return false
	}
	m.dropBelow(offset)
	in := len(m.set) > 0 && m.set[0].From <= offset
	m.dropBelow(offset + 1)
	return in
}

// dropBelow removes every offset < to.
func (m *marks) dropBelow(to int64) {
	n := 0
	for n < len(m.set) && m.set[n].To <= to {
		n++
	}
	m.set = m.set[n:]
	if len(m.set) > 0 && m.set[0].From < to {
		m.set[0].From = to
	}
}
