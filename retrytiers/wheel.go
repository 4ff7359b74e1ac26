package retrytiers

import (
	"container/heap"

	"github.com/twmb/franz-go/pkg/kgo"
)

// kind is what happens to an entry when its time has come.
type kind uint8

const (
	release kind = iota // to due
	lap                 // to another slot: its due time is further off than this slot reaches
	poison              // to dead: its ticket cannot be understood
)

func (k kind) String() string { return [...]string{"due", "lap", "poison"}[k] }

// entryOverhead is what an entry costs beside its payload: the struct, its place in the
// heap, and the producer's record while it is in flight.
const entryOverhead = 512

// entry is one matured record that is held in memory until its copy is acknowledged. The
// payload is a copy: a record of the client pins its whole decompressed batch.
type entry struct {
	slot     *slot
	offset   int64
	recordMs int64 // timestamp of the record, for the age of the slot's head

	kind   kind
	at     int64  // not before, Unix ms; hl_due_ms, or when to try again
	seq    uint64 // admission order, breaks ties
	dueMs  int64
	target int32  // partition of due
	why    string // position of poison, and what is wrong with it
	tries  int    // failed produces

	key, value []byte
	headers    []kgo.RecordHeader
	size       int64

	index      int    // in the wheel; -1 while it is with the producer
	prev, next *entry // held entries of the slot in offset order
}

// wheel orders entries by time. It holds one slot width of records, so a heap is fast enough
// and, unlike a wheel of buckets, exact.
type wheel struct {
	entries []*entry
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (w *wheel) Len() int { return len(w.entries) }

func (w *wheel) Less(i, j int) bool {
	a, b := w.entries[i], w.entries[j]
	if a.at != b.at {
		return a.at < b.at
	}
	return a.seq < b.seq
}

func (w *wheel) Swap(i, j int) {
	w.entries[i], w.entries[j] = w.entries[j], w.entries[i]
	w.entries[i].index = i
	w.entries[j].index = j
}

func (w *wheel) Push(x any) {
	e := x.(*entry)
	e.index = len(w.entries)
	w.entries = append(w.entries, e)
}

func (w *wheel) Pop() any {
	last := len(w.entries) - 1
	e := w.entries[last]
	w.entries[last] = nil
	w.entries = w.entries[:last]
	e.index = -1
	return e
}

func (w *wheel) put(e *entry) { heap.Push(w, e) }

// take removes and returns the first entry whose time is not after now, or nil.
func (w *wheel) take(nowMs int64) *entry {
	if len(w.entries) == 0 || w.entries[0].at > nowMs {
		return nil
	}
	return heap.Pop(w).(*entry)
}

// first returns the time of the first entry.
func (w *wheel) first() (ms int64, ok bool) {
	if len(w.entries) == 0 {
		return 0, false
	}
	return w.entries[0].at, true
}

// removeIf drops the entries for which drop holds, in one sweep.
func (w *wheel) removeIf(drop func(*entry) bool) {
	kept := w.entries[:0]
	for _, e := range w.entries {
		if drop(e) {
			e.index = -1
			continue
		}
		e.index = len(kept)
		kept = append(kept, e)
	}
	clear(w.entries[len(kept):])
	w.entries = kept
	heap.Init(w)
}
