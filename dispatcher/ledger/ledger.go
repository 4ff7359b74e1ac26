package ledger

import (
	"fmt"
	"slices"
)

// Default window of a lane (DESIGN section 6).
const (
	DefaultOffsets = 8192
	DefaultBytes   = 64 << 20
)

// Limits bound how far a partition may be read ahead of its watermark. Zero means no limit.
type Limits struct {
	Offsets int64 // Next - Watermark
	Bytes   int64 // sum over open records
}

// DefaultLimits is the window of a lane.
func DefaultLimits() Limits { return Limits{Offsets: DefaultOffsets, Bytes: DefaultBytes} }

// State is what Open says about a record.
type State uint8

// States of a record at its opening.
const (
	// Opened: the caller owes a Done.
	Opened State = iota
	// AlreadyDone: it was marked done before it was read; the caller drops it.
	AlreadyDone
)

// Run is a range of offsets [From, To).
type Run struct {
	From, To int64
}

// entry is one record that was read and is not yet below the watermark. 16 bytes: a slot of
// a retry tier without a window may hold many.
type entry struct {
	offset int64
	bytes  int32
	done   bool
}

// Ledger is the window of one partition. It is not safe for concurrent use.
type Ledger struct {
	limits    Limits
	start     int64
	next      int64
	window    []entry // ascending; window[head] is open, or head == len(window)
	head      int
	open      int
	openBytes int64
	marks     marks
}

// New returns an empty ledger of a partition that is read from start on.
func New(start int64, limits Limits) *Ledger {
	return &Ledger{limits: limits, start: start, next: start}
}

// MarkDone says that the record at offset is done although it was not read here: from
// commit metadata or from a takeover mark. It must come before the record is read; an
// offset below Next is ignored, because a needless repeat is better than a doubtful skip.
func (l *Ledger) MarkDone(offset int64) { l.MarkRange(offset, offset+1) }

// MarkRange is MarkDone for every offset of [from, to).
func (l *Ledger) MarkRange(from, to int64) {
	from = max(from, l.next)
	if from < to {
		l.marks.add(from, to)
	}
}

// Open takes note of a record that was read. Offsets must increase; whatever lies between
// two of them was never there and counts as done.
func (l *Ledger) Open(offset int64, bytes int) State {
	if offset < l.next {
		panic(fmt.Sprintf("BUG: ledger: open %d below next %d", offset, l.next))
	}
	l.next = offset + 1
	if l.marks.take(offset) {
		if l.open > 0 { // else the watermark passes it at once
			l.push(entry{offset: offset, done: true})
		}
		return AlreadyDone
	}
	l.push(entry{offset: offset, bytes: int32(min(bytes, 1<<31-1))})
	l.open++
	l.openBytes += int64(bytes)
	return Opened
}

// Skip says that nothing that was not opened will come below to: markers, compaction, a
// trimmed head. Those offsets count as done.
func (l *Ledger) Skip(to int64) {
	if to > l.next {
		l.next = to
		l.marks.dropBelow(to)
	}
}

// Done completes a record. Order does not matter and a second call is harmless; an offset
// that was never opened is a broken invariant.
func (l *Ledger) Done(offset int64) {
	if offset >= l.start && offset < l.Watermark() {
		return
	}
	e := l.find(offset)
	if e == nil {
		panic(fmt.Sprintf("BUG: ledger: done %d was never opened (start %d, next %d)", offset, l.start, l.next))
	}
	if e.done {
		return
	}
	e.done = true
	l.open--
	l.openBytes -= int64(e.bytes)
	for l.head < len(l.window) && l.window[l.head].done {
		l.head++
	}
	if l.head == len(l.window) {
		l.window, l.head = l.window[:0], 0
	}
}

// Watermark is the offset that is safe to commit: the lowest open one, else Next.
func (l *Ledger) Watermark() int64 {
	if l.head < len(l.window) {
		return l.window[l.head].offset
	}
	return l.next
}

// Next is the lowest offset that may still be opened.
func (l *Ledger) Next() int64 { return l.next }

// Full reports whether the window is used up and fetching must stop. It is checked before
// a record is opened; records that are already fetched may be opened beyond it.
func (l *Ledger) Full() bool {
	return l.limits.Offsets > 0 && l.next-l.Watermark() >= l.limits.Offsets ||
		l.limits.Bytes > 0 && l.openBytes >= l.limits.Bytes
}

// OpenCount is the number of records that are open.
func (l *Ledger) OpenCount() int { return l.open }

// OpenBytes is the sum of the sizes of the open records.
func (l *Ledger) OpenBytes() int64 { return l.openBytes }

// Oldest returns the lowest open offset.
func (l *Ledger) Oldest() (offset int64, ok bool) {
	return l.Watermark(), l.open > 0
}

// DoneAbove calls fn with ascending, disjoint, non-adjacent runs of what is done above the
// watermark: completed records, gaps, and marks of records that were not read again yet.
func (l *Ledger) DoneAbove(fn func(from, to int64)) {
	pending := Run{From: l.next, To: l.next}
	if l.open > 0 {
		from := l.Watermark() + 1
		for _, e := range l.window[l.head+1:] {
			if e.done {
				continue
			}
			if from < e.offset {
				fn(from, e.offset)
			}
			from = e.offset + 1
		}
		pending.From = from
	}
	for _, r := range l.marks.runs() {
		if r.From > pending.To {
			if pending.From < pending.To {
				fn(pending.From, pending.To)
			}
			pending = r
			continue
		}
		pending.To = r.To
	}
	if pending.From < pending.To {
		fn(pending.From, pending.To)
	}
}

// AppendDone appends the runs of DoneAbove to dst.
func (l *Ledger) AppendDone(dst []Run) []Run {
	l.DoneAbove(func(from, to int64) { dst = append(dst, Run{From: from, To: to}) })
	return dst
}

// push appends to the window and gives back its passed part once that is the larger one.
func (l *Ledger) push(e entry) {
	if l.head > 1024 && l.head > len(l.window)/2 {
		n := copy(l.window, l.window[l.head:])
		l.window, l.head = l.window[:n], 0
	}
	l.window = append(l.window, e)
}

// find returns the entry of offset. Without gaps its index is its distance to the first
// entry; gaps only move it nearer.
func (l *Ledger) find(offset int64) *entry {
	w := l.window[l.head:]
	if len(w) == 0 || offset < w[0].offset {
		return nil
	}
	guess := int(min(offset-w[0].offset, int64(len(w)-1)))
	if w[guess].offset == offset {
		return &w[guess]
	}
	i, ok := slices.BinarySearchFunc(w[:guess], offset, func(e entry, at int64) int {
		switch {
		case e.offset < at:
			return -1
		case e.offset > at:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return &w[i]
}
