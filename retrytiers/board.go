package retrytiers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/retrytiers/tier"
)

// passLimit bounds what one pass admits and what it releases, so that the lock is held for a
// few milliseconds at most.
const passLimit = 2048

// place names a partition.
type place struct {
	topic     string
	partition int32
}

// board is the state of all owned slots and the wheel. It is pure: time is an argument and
// nothing is sent. Guarded by Mover.mu.
type board struct {
	duePartitions int32
	maxRecords    int
	maxBytes      int64

	slots map[place]*slot
	order []*slot // the same, in the order in which admission visits them
	turn  int     // where in order the next pass begins, so that no slot is always last

	wheel     wheel
	held      int   // entries in the wheel and with the producer
	heldBytes int64 // their sizes
	seq       uint64
	starved   bool // the last pass left a mature record outside for want of room

	names map[string]string // header names seen, one copy of each
}

func newBoard(duePartitions int32, maxRecords int, maxBytes int64) *board {
	return &board{
		duePartitions: duePartitions,
		maxRecords:    maxRecords,
		maxBytes:      maxBytes,
		slots:         make(map[place]*slot),
		names:         make(map[string]string),
	}
}

func (b *board) add(s *slot) {
	b.slots[place{s.topic, s.partition}] = s
	b.order = append(b.order, s)
}

// pass is what must happen now, and when to look again.
type pass struct {
	out            []*entry // to produce, in due order
	pauses, resume []*slot
	next           int64 // Unix ms of the next change by time alone; 0 = none
	more           bool  // the limit of a pass was reached: look again at once
}

// step admits what has matured, releases what is due and settles which slots fetch.
func (b *board) step(nowMs int64) pass {
	var p pass
	admitted := 0
	b.starved = false
	for i := range b.order {
		s := b.order[(b.turn+i)%len(b.order)]
		for w := s.mature(nowMs); w != nil && admitted < passLimit; w = s.mature(nowMs) {
			if !b.room(w.rec) {
				b.starved = true
				break
			}
			b.admit(s, w.rec, nowMs)
			s.advance()
			admitted++
		}
	}
	if len(b.order) > 0 {
		b.turn = (b.turn + 1) % len(b.order)
	}
	for len(p.out) < passLimit {
		e := b.wheel.take(nowMs)
		if e == nil {
			break
		}
		e.slot.inflight++
		p.out = append(p.out, e)
	}
	busy := admitted == passLimit
	p.more = busy || len(p.out) == passLimit
	if at, ok := b.wheel.first(); ok {
		p.next = at
	}
	for _, s := range b.order {
		// A slot whose records only wait for the next pass must not be paused for it: a
		// pause throws away what is fetched ahead.
		if !busy || s.buffered() >= nearLimit {
			b.settleFetch(s, nowMs, &p)
		}
	}
	return p
}

// settleFetch decides whether s fetches, and notes when it will change by time alone.
func (b *board) settleFetch(s *slot, nowMs int64, p *pass) {
	if s.closing || s.ledger == nil {
		return
	}
	pause, nearMs := s.wantPause(nowMs)
	if pause != s.paused {
		s.paused = pause
		if pause {
			p.pauses = append(p.pauses, s)
		} else {
			p.resume = append(p.resume, s)
		}
	}
	if s.paused && nearMs > 0 {
		p.sooner(nearMs)
	}
	if w := s.first(); w != nil && w.matureMs > nowMs {
		p.sooner(w.matureMs)
	}
}

func (p *pass) sooner(ms int64) {
	if p.next == 0 || ms < p.next {
		p.next = ms
	}
}

// room reports whether r may be admitted. A record larger than the whole bound is admitted
// alone rather than never.
func (b *board) room(r *kgo.Record) bool {
	return b.held == 0 || b.held < b.maxRecords && b.heldBytes+sizeOf(r) <= b.maxBytes
}

func sizeOf(r *kgo.Record) int64 {
	n := entryOverhead + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Value) + 40 // kgo.RecordHeader
	}
	return int64(n)
}

// admit copies a matured record into the wheel.
func (b *board) admit(s *slot, r *kgo.Record, nowMs int64) {
	v := decide(r.Headers, nowMs, s.width, b.duePartitions)
	b.seq++
	e := &entry{
		slot: s, offset: r.Offset, recordMs: r.Timestamp.UnixMilli(),
		kind: v.kind, at: v.at, seq: b.seq, dueMs: v.dueMs, target: v.target,
		size: sizeOf(r),
	}
	if v.kind == poison {
		e.why = fmt.Sprintf("%s/%d@%d: %s", s.topic, s.partition, r.Offset, v.why)
	}
	b.copyPayload(e, r)
	b.held++
	b.heldBytes += e.size
	s.hold(e)
	b.wheel.put(e)
}

// copyPayload makes one allocation for all bytes and one for the header table. A nil key or
// value stays nil: it is not the same as an empty one.
func (b *board) copyPayload(e *entry, r *kgo.Record) {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Value)
	}
	buf := make([]byte, 0, n)
	keep := func(p []byte) []byte {
		if p == nil {
			return nil
		}
		from := len(buf)
		buf = append(buf, p...)
		return buf[from:len(buf):len(buf)]
	}
	e.key, e.value = keep(r.Key), keep(r.Value)
	e.headers = make([]kgo.RecordHeader, len(r.Headers))
	for i, h := range r.Headers {
		e.headers[i] = kgo.RecordHeader{Key: b.name(h.Key), Value: keep(h.Value)}
	}
}

// name returns one copy of a header name for all entries that carry it. The client makes a
// string per header and record, which for a full wheel would be a third of its memory.
func (b *board) name(s string) string {
	if known, ok := b.names[s]; ok {
		return known
	}
	s = strings.Clone(s)
	if len(b.names) < 64 && len(s) <= 64 {
		b.names[s] = s
	}
	return s
}

// acked ends an entry whose copy is durable.
func (b *board) acked(e *entry) {
	s := e.slot
	if !s.gone {
		s.ledger.Done(e.offset)
		s.dirty = true
	}
	b.forget(e)
	s.settle()
}

// failed gives an entry back to the wheel after a produce that failed. An entry of a slot
// that is being given up is dropped instead: it is still in the log, and not done.
func (b *board) failed(e *entry, retryMs int64) {
	s := e.slot
	if s.closing || s.gone {
		b.forget(e)
	} else {
		e.tries++
		e.at = retryMs
		b.wheel.put(e)
	}
	s.settle()
}

func (b *board) forget(e *entry) {
	e.slot.drop(e)
	b.held--
	b.heldBytes -= e.size
	e.key, e.value, e.headers = nil, nil, nil
}

// close stops slots from admitting and releasing. What they hold in the wheel is dropped;
// what is with the producer may still be acknowledged.
func (b *board) close(slots []*slot) {
	for _, s := range slots {
		s.closing = true
		s.waiting, s.head = nil, 0
	}
	b.wheel.removeIf(func(e *entry) bool {
		if e.slot.closing {
			b.forget(e)
		}
		return e.slot.closing
	})
}

// remove ends slots: acknowledgements that come later count for nothing.
func (b *board) remove(slots []*slot) {
	for _, s := range slots {
		s.gone = true
		if p := (place{s.topic, s.partition}); b.slots[p] == s {
			delete(b.slots, p)
		}
	}
	kept := b.order[:0]
	for _, s := range b.order {
		if !s.gone {
			kept = append(kept, s)
		}
	}
	clear(b.order[len(kept):])
	b.order, b.turn = kept, 0
}

// record builds what an entry becomes on its topic. topics maps a suffix to its full name.
// The timestamp is left to the broker or the client: maturity counts from it.
func (e *entry) record(ladder tier.Ladder, topic func(suffix string) string, deadPartitions int32, nowMs int64) *kgo.Record {
	r := &kgo.Record{Key: e.key, Value: e.value, Headers: e.headers}
	switch e.kind {
	case release:
		r.Topic, r.Partition = topic(tier.DueSuffix), e.target
	case lap:
		suffix, partition := ladder.Place(time.Duration(e.dueMs-nowMs)*time.Millisecond, string(e.key))
		r.Topic, r.Partition = topic(suffix), partition
		r.Headers = slices.Clone(e.headers)
		for i := range r.Headers {
			if r.Headers[i].Key == tier.HeaderTier {
				r.Headers[i].Value = []byte(suffix)
			}
		}
	case poison:
		r.Topic, r.Partition = topic(tier.DeadSuffix), tier.DeadPartition(e.key, deadPartitions)
		r.Headers = tier.AppendPoison(nil, e.headers, e.why)
	}
	return r
}
