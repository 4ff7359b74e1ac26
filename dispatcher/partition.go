package dispatcher

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/idwindow"
	"github.com/hookline/hookline/dispatcher/ledger"
	"github.com/hookline/hookline/ingest/event"
)

const (
	// A stream is paused when this much of it is polled and has no slot yet, and resumed
	// when a quarter is left: pausing throws away what was fetched and not polled, so it
	// must be rare.
	backlogRecords = 2048
	backlogBytes   = 4 << 20
	// forkChains bounds window B, per lane and generation.
	forkChains = 16 << 10
	// slotDeadline is how old a slot may be when its attempt ends: an attempt starts only if
	// the slot's age and the attempt's timeout fit, else the delivery parks. It keeps the
	// watermark, and with it restart cost, bounded by time.
	slotDeadline = 20 * time.Second
)

// partition is a lane: events/p and due/p with one owner. It turns records into slots and
// slots into deliveries, and knows which offsets are safe to commit.
//
// Lock order: Dispatcher.commitMu, then mu. Never take the locks of gates, permits or a
// client while holding mu.
type partition struct {
	d      *Dispatcher
	number int32
	ctx    context.Context // done once the lane was revoked or lost
	cancel context.CancelFunc
	queues queues // guarded by the permits' lock

	mu      sync.Mutex // guards all below
	started bool       // offsets, marks and sequence base are known, streams are being read
	closing bool       // no new slots, no new attempts
	closed  bool       // results mark and produce nothing
	active  int        // deliveries between begin and end
	idle    chan struct{}

	fresh, due *stream
	base       uint64 // sequence base of the events topic
	place      event.Place
	forks      *forks
	ids        *idwindow.Window[*slot]
	idsNext    int64              // where the next window segment continues
	segments   []idwindow.Segment // taken from the window and not acked yet
	written    []pastSegment
	partial    map[*slot]struct{} // open slots with at least one acked row
	inherited  int64              // offset of events below which the owner before may have worked
	rowFloor   int64              // attempts offset up to which marks were read at the takeover
	dirty      bool               // something was done since the last commit
	lastCommit time.Time
}

func newPartition(d *Dispatcher, number int32) *partition {
	ctx, cancel := context.WithCancel(d.workCtx)
	return &partition{
		d: d, number: number, ctx: ctx, cancel: cancel,
		idle:    make(chan struct{}),
		fresh:   newStream(d.topics.events, attempt.SourceEvents),
		due:     newStream(d.topics.due, attempt.SourceDue),
		forks:   newForks(forkChains),
		ids:     idwindow.New[*slot](d.cfg.IdempotencyIDs, d.cfg.IdempotencyAge),
		partial: make(map[*slot]struct{}),
	}
}

func newStream(topic string, source attempt.SourceTopic) *stream {
	return &stream{topic: topic, source: source, slots: make(map[int64]*slot), marks: make(map[int64][]mark)}
}

func (p *partition) stream(topic string) *stream {
	if topic == p.due.topic {
		return p.due
	}
	return p.fresh
}

// begin installs what a takeover found; from here on polled records become slots.
func (p *partition) begin(t takeover) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.started { // else a try before this one got here, and told
		p.d.note(p.number, t.start[attempt.SourceEvents], p.fresh.topic)
		p.d.note(p.number, t.start[attempt.SourceDue], p.due.topic)
	}
	p.place, p.base, p.rowFloor = p.d.place(p.number, t.topicID), t.base, t.rowsEnd
	for _, s := range []*stream{p.fresh, p.due} {
		start := t.start[s.source]
		s.ledger = ledger.New(start.at, ledger.Limits{Offsets: p.d.cfg.WindowOffsets, Bytes: p.d.cfg.WindowBytes})
		for _, r := range start.done {
			s.ledger.MarkRange(r.From, r.To)
		}
		s.marks, s.committed = start.marks, start.committed
	}
	p.inherited = p.fresh.ledger.Next() + p.d.cfg.WindowOffsets
	p.started, p.dirty = true, true // the first commit pins the positions
}

// take accepts polled records of one of the lane's topics, in offset order.
func (p *partition) take(topic string, recs []*kgo.Record) {
	p.mu.Lock()
	if !p.started || p.closing {
		p.mu.Unlock()
		return
	}
	s := p.stream(topic)
	for _, r := range recs {
		s.backlog.push(r)
		s.bytes += int64(recordBytes(r))
	}
	if !s.paused && (s.backlog.len() >= backlogRecords || s.bytes >= backlogBytes) {
		s.paused = true
		p.d.reader.Pause(s.topic, p.number)
	}
	p.mu.Unlock()
	p.pump()
}

// pump makes slots of polled records while there is room and starts their deliveries.
func (p *partition) pump() {
	p.mu.Lock()
	if !p.started || p.closing {
		p.mu.Unlock()
		return
	}
	var work admitted
	proven := p.d.viewProven()
	for _, s := range []*stream{p.due, p.fresh} {
		for s.backlog.len() > 0 && proven && s.waiting < p.d.readAhead() && !s.ledger.Full() && p.d.bytesFree() {
			r := s.backlog.pop()
			s.bytes -= int64(recordBytes(r))
			p.admitLocked(s, r, &work)
		}
		if s.paused && s.backlog.len() <= backlogRecords/4 && s.bytes <= backlogBytes/4 {
			s.paused = false
			p.d.reader.Resume(s.topic, p.number)
		}
	}
	p.mu.Unlock()
	p.d.start(&work)
}

// startDelivery counts a delivery as under way; false when the lane is closing: the delivery
// is then nobody's, its slot stays open and is read again by the next owner.
func (p *partition) startDelivery(dl *delivery) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return false
	}
	dl.slot.stream.waiting--
	p.active++
	return true
}

// endDelivery undoes startDelivery.
func (p *partition) endDelivery() {
	p.mu.Lock()
	p.endLocked()
	p.mu.Unlock()
}

func (p *partition) endLocked() {
	p.active--
	if p.closing && p.active == 0 {
		close(p.idle)
	}
}

// live reports whether results of the lane may still be produced.
func (p *partition) live() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.closed
}

// finish says that the outcome of a delivery is durable: its copy or dead letter and its row
// are acked. at is how far the chain has come with it, row the row's offset in the attempts
// topic.
func (p *partition) finish(dl *delivery, at step, row int64) {
	var work admitted
	p.mu.Lock()
	sl := dl.slot
	if !p.closed {
		if dl.ticket.Endpoint != "" && p.mayForkLocked(sl, at) {
			p.forks.settle(keyOf(&dl.ticket, sl.event.ID), at)
		}
		if sl.lowRow < 0 || row < sl.lowRow {
			sl.lowRow = row
		}
		sl.pending--
		if sl.pending == 0 {
			p.endSlotLocked(sl, &work)
		} else {
			p.partial[sl] = struct{}{}
		}
	}
	p.endLocked()
	p.mu.Unlock()
	p.d.start(&work)
	p.pump()
}

// mayForkLocked reports whether another copy of a chain can exist: it is in due, it leaves a
// copy behind now, or the owner before may have made one of the same event before it died.
// All others, nearly every event, need no place in window B.
func (p *partition) mayForkLocked(sl *slot, at step) bool {
	return sl.stream.isDue() || at != ended || sl.record.Offset < p.inherited
}

// endSlotLocked closes a slot whose outcomes are all durable. Slots that joined it now know
// that they are repeats: each becomes a verdict of its own.
func (p *partition) endSlotLocked(sl *slot, work *admitted) {
	s := sl.stream
	s.ledger.Done(sl.record.Offset)
	delete(s.slots, sl.record.Offset)
	delete(p.partial, sl)
	p.d.addBytes(-int64(recordBytes(sl.record)))
	p.dirty = true
	if sl.keyed {
		p.ids.Settle(idwindow.IdentityOf(sl.event.Tenant, sl.event.Source, sl.event.ID))
	}
	if k := keyOf(&sl.ticket, sl.event.ID); s.isDue() && p.forks.working[k] == sl {
		delete(p.forks.working, k)
	}
	for _, j := range sl.joined {
		p.verdictLocked(j, repeated, work)
	}
	sl.joined = nil
}

// close stops the intake at once and drops what has not started.
func (p *partition) close() {
	p.mu.Lock()
	if !p.closing {
		p.closing = true
		if p.active == 0 {
			close(p.idle)
		}
	}
	p.mu.Unlock()
	p.cancel()
	for _, dl := range p.d.permits.close(&p.queues) {
		p.d.release(dl)
	}
}

// disown closes the lane to commits and results.
func (p *partition) disown() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

// seal makes every later result of the lane worthless and gives its memory back. The caller
// holds commitMu, so no commit of the lane is under way.
func (p *partition) seal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, s := range []*stream{p.fresh, p.due} {
		for _, sl := range s.slots {
			p.d.addBytes(-int64(recordBytes(sl.record)))
		}
		s.slots, s.backlog = nil, fifo[*kgo.Record]{}
	}
}

// age returns how long the oldest open slot has been open.
func (p *partition) age(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var oldest time.Duration
	for _, s := range []*stream{p.fresh, p.due} {
		if s.ledger == nil {
			continue
		}
		if off, ok := s.ledger.Oldest(); ok {
			if sl := s.slots[off]; sl != nil {
				oldest = max(oldest, now.Sub(sl.read))
			}
		}
	}
	return oldest
}
