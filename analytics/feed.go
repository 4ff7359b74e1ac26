package analytics

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	errNotOwned = errors.New("the partition is not ours any more")
	errHanded   = errors.New("the partition is handed over")
)

// feed is one partition that we own. Its goroutine (Sink.work) takes batches from it and inserts
// them; the reader's goroutine fills the one that is open.
type feed struct {
	sink      *Sink
	src       source
	pool      *pool
	topic     string
	partition int32
	id        string // of the topic
	table     string // the label of metrics

	owned   atomic.Bool // false = commit nothing; set under committer.mu when handed over
	ctx     context.Context
	cancel  context.CancelCauseFunc
	closing chan struct{} // closed when nothing new may begin
	closed  sync.Once
	ended   chan struct{} // closed when its goroutine has ended
	news    chan struct{} // capacity 1

	mu         sync.Mutex // guards the following
	opened     bool       // reading has begun
	open       *batch     // nil until the first record of a batch
	next       int64      // offset that is read next
	generation int
	reading    bool  // records are accepted
	reopen     error // why the partition has to be opened again
	hurry      bool  // memory is short: insert what there is
	linger     time.Duration
	quietSince time.Time
	holding    *batch    // that the goroutine works on
	done       int64     // offset behind what is committed
	lastMs     int64     // of the last record that was taken
	logEnd     int64     // as last heard
	suspectAt  time.Time // when the position is to be committed once more; zero = not
	trouble    error     // why its insert does not succeed; nil while it does
}

// wake makes the goroutine look.
func (f *feed) wake() {
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// close lets nothing new begin.
func (f *feed) close() {
	f.closed.Do(func() { close(f.closing) })
}

func (f *feed) isClosing() bool {
	select {
	case <-f.closing:
		return true
	default:
		return false
	}
}

// begin sets where the feed reads on. The partition is to be added to the reader after it.
func (f *feed) begin(p position, end int64) (at int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened, f.done, f.logEnd = true, p.from, end
	f.generation = p.generation
	f.next, f.reading, f.reopen = p.at, true, nil
	f.open = nil
	if p.replayEnd > 0 {
		f.open = &batch{
			from: p.from, end: p.from, block: f.pool.get(), generation: p.generation,
			replayEnd: p.replayEnd, readEnd: p.readEnd, announcedMs: p.announcedMs,
		}
		if p.lost { // what comes after the end of the log uses offsets again
			f.generation++
		}
	}
	return f.next
}

// deliver takes records; it runs in the reader's goroutine. When there is no place for all, the
// partition is to be removed from the reader (true), and added again at next when there is.
func (f *feed) deliver(recs []*kgo.Record) (remove bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.reading {
		return false // what the reader had fetched before it was told
	}
	for len(recs) > 0 && recs[0].Offset < f.next {
		recs = recs[1:]
	}
	if len(recs) == 0 {
		return false
	}
	if f.open == nil {
		if !f.sink.memory.room(f) {
			f.reading = false
			return true
		}
		f.open = &batch{from: f.next, end: f.next, block: f.pool.get(), generation: f.generation}
	}
	taken := f.fill(recs)
	if f.open.full {
		f.wake()
	}
	if taken < len(recs) {
		f.reading = false
		return true
	}
	if !f.open.full && !f.open.replay() && !f.sink.memory.room(f) {
		f.hurry, f.reading = true, false
		f.wake()
		return true
	}
	return false
}

// fill puts records into the open batch.
func (f *feed) fill(recs []*kgo.Record) (taken int) {
	b, c, begun := f.open, counts{}, f.open.some()
	taken = b.take(recs, f.src, f.sink.limits, time.Now(), &c, f.refuse)
	f.next = max(f.next, b.end)
	if taken > 0 {
		f.lastMs = recs[taken-1].Timestamp.UnixMilli()
	}
	grown := b.block.Memory() - b.memory
	b.memory += grown
	f.sink.memory.grow(grown)
	f.sink.met.count(f.table, c)
	if !begun && b.some() {
		f.wake() // the linger begins
	}
	return taken
}

// refuse tells of a record that gives no row. It is in the topic for 72 hours, and the events
// among them are dead letters by the dispatcher's hand.
func (f *feed) refuse(r *kgo.Record, err error) {
	f.sink.met.bad.WithLabelValues(f.table).Inc()
	if suppressed, ok := f.sink.badLog.allow(); ok {
		f.sink.log.Error("record cannot be understood; it gives no row in ClickHouse",
			"topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "error", err, "suppressed", suppressed)
	}
}

// ready returns how long the open batch still collects; 0 = it can be taken, -1 = there is none.
func (f *feed) ready(now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch b := f.open; {
	case b == nil || !b.some():
		if b != nil && b.full { // an announced batch of which nothing is left
			return 0
		}
		return -1
	case b.full, f.hurry && !b.replay():
		return 0
	case b.replay():
		return -1
	default:
		return max(0, f.linger-now.Sub(b.since))
	}
}

// take hands the open batch over to the goroutine. full = only a batch that is full.
func (f *feed) take(full bool) *batch {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.open
	if b == nil || full && !b.full || !b.some() && !b.full {
		return nil
	}
	f.open, f.hurry = nil, false
	f.adapt(b)
	f.holding = b
	if b.replay() {
		f.next = b.readEnd
	}
	return b
}

// peekFull returns the open batch if it is full, begins at an offset and has rows. It does not change
// any more.
func (f *feed) peekFull(from int64) *batch {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b := f.open; b != nil && b.full && !b.replay() && b.from == from && b.block.Rows() > 0 {
		return b
	}
	return nil
}

func (f *feed) currentGeneration() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.generation
}

// adapt sets how long the next batch collects: a trickle makes larger batches by and by, the first
// rows after a quiet time are seen soon.
func (f *feed) adapt(b *batch) {
	cfg := &f.sink.cfg
	switch {
	case b.since.Sub(f.quietSince) > cfg.LingerMax || b.full:
		f.linger = cfg.LingerMin
	case b.block.Rows() < cfg.BatchRows/10:
		f.linger = min(f.linger*3/2, cfg.LingerMax)
	default:
		f.linger = max(f.linger*2/3, cfg.LingerMin)
	}
	f.quietSince = time.Now()
}

// drop gives up what is held; the log has it.
func (f *feed) drop() {
	f.mu.Lock()
	var n int64
	for _, b := range []*batch{f.open, f.holding} {
		if b != nil {
			n += b.memory
		}
	}
	f.open, f.holding, f.reading = nil, nil, false
	f.mu.Unlock()
	f.sink.memory.forget(f)
	f.sink.memory.shrink(n)
}

// release ends the work on a batch that is committed.
func (f *feed) release(b *batch) {
	f.mu.Lock()
	f.holding, f.trouble, f.done = nil, nil, b.end
	f.mu.Unlock()
	n := b.memory
	f.pool.put(b.block)
	f.sink.memory.shrink(n)
}

// stalled says whether the partition waits to be added to the reader again, and at which offset.
func (f *feed) stalled() (at int64, ok bool, opening error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reopen != nil {
		return 0, true, f.reopen
	}
	if f.reading || f.open != nil && (f.open.full || f.hurry) || f.open == nil && !f.sink.memory.room(f) {
		return 0, false, nil
	}
	return f.next, true, nil
}

// again sets where a partition is read on that was opened again, and says what is unusual about it.
func (f *feed) again(start, end int64) (trimmed, lost bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reopen = nil
	switch {
	case f.next > end:
		if b := f.open; b != nil { // its rows were read and stay; what is appended now uses their offsets
			b.full = true
		}
		f.next, lost = end, true
		f.generation++
	case f.next < start:
		if b := f.open; b != nil && b.replay() && b.readEnd <= start {
			b.end, b.full = b.readEnd, true
		}
		f.next, trimmed = start, true
	}
	return trimmed, lost
}

// resume accepts records again.
func (f *feed) resume() {
	f.mu.Lock()
	f.reading = true
	f.mu.Unlock()
}

// failed notes that the reader cannot go on by itself.
func (f *feed) failed(err error) {
	f.mu.Lock()
	f.reading, f.reopen = false, err
	f.mu.Unlock()
	f.wake()
}

func (f *feed) setTrouble(err error) {
	f.mu.Lock()
	f.trouble = err
	f.mu.Unlock()
}

// position is the offset that is read next.
func (f *feed) position() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next
}

// ends notes where the log ends.
func (f *feed) ends(at int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logEnd = at
}

// health says why the feed is not ready.
func (f *feed) health() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !f.opened:
		return fmt.Errorf("analytics is opening %s/%d", f.topic, f.partition)
	case f.trouble != nil && mustStop(f.trouble):
		return fmt.Errorf("analytics cannot insert into %s: %w", f.table, f.trouble)
	}
	return nil
}

// suspect says when the position is to be committed once more.
func (f *feed) suspect(at time.Time) {
	f.mu.Lock()
	f.suspectAt = at
	f.mu.Unlock()
}

func (f *feed) suspicion() (done int64, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.done, f.suspectAt
}
