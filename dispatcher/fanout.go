package dispatcher

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/dispatcher/idwindow"
	"github.com/hookline/hookline/dispatcher/ledger"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

// verdict is what becomes of a whole record without an attempt.
type verdict uint8

const (
	unrouted   verdict = iota // no endpoint of the tenant wants the event
	repeated                  // the outcome of the same event or step is durable already
	conflicted                // the event id came before with another body
	unreadable                // the record cannot be understood
	deleted                   // the endpoint that a due delivery is owed to is gone
	misplaced                 // the record lies in the wrong partition of events
)

// admitted collects what admission decided under a partition's lock, to be started without it.
type admitted struct {
	deliveries []*delivery
	verdicts   []ruled
}

type ruled struct {
	dl      *delivery
	verdict verdict
}

// admitLocked makes a slot of a record and decides who it is owed to. The endpoint view is
// proven at this moment, so targets, "unrouted" and "endpoint deleted" may be decided.
func (p *partition) admitLocked(s *stream, r *kgo.Record, work *admitted) {
	marks := s.marks[r.Offset]
	delete(s.marks, r.Offset)
	if r.Offset < s.ledger.Next() {
		return // before the committed position: a fetch may start inside a batch
	}
	if r.Attrs.IsControl() {
		// The end of a transaction. Passed over like a hole it would be seen with the next
		// record only, and until then the lane would look as if it were behind.
		s.ledger.Skip(r.Offset + 1)
		p.dirty = true
		return
	}
	size := recordBytes(r)
	if s.ledger.Open(r.Offset, size) == ledger.AlreadyDone {
		p.rememberDone(s, r)
		p.dirty = true
		return
	}
	p.d.addBytes(int64(size))
	sl := &slot{part: p, stream: s, record: r, read: time.Now(), lowRow: -1}
	s.slots[r.Offset] = sl

	ev, err := p.d.decode(r)
	if err != nil {
		p.poisonLocked(sl, marks, err, work)
		return
	}
	sl.event = ev
	if s.isDue() {
		p.admitDueLocked(sl, marks, work)
		return
	}
	p.admitFreshLocked(sl, marks, work)
}

// admitFreshLocked fans an event out. Endpoints whose outcome a takeover mark proves are
// left out; when all are, the slot is done.
func (p *partition) admitFreshLocked(sl *slot, marks []mark, work *admitted) {
	ev := &sl.event
	sl.ticket = tier.Ticket{
		Orig:    tier.Orig{TopicID: p.place.TopicID, Partition: p.number, Offset: sl.record.Offset},
		Seq:     p.base + uint64(sl.record.Offset),
		FirstMs: sl.read.UnixMilli(),
	}
	marks = matching(marks, ev.ID, &sl.ticket)
	if sl.marked, sl.lowRow = marks, lowestRow(marks); len(marks) > 0 {
		p.partial[sl] = struct{}{} // also while it waits for the idempotency window
	}
	for _, m := range marks {
		if m.endpoint == "" { // the whole record ended with this row
			p.rememberDone(sl.stream, sl.record)
			p.endSlotLocked(sl, work)
			return
		}
		p.forks.settle(forkKey{event: ev.ID, endpoint: m.endpoint}, m.at)
	}
	if p.place.Misplaced(ev) {
		p.verdictLocked(sl, misplaced, work)
		return
	}
	if p.place.Keyed(ev) && !p.claimLocked(sl, work) {
		return
	}
	p.fanOutLocked(sl, marks, work)
}

// claimLocked asks the idempotency window about a keyed event; false when the slot is ruled
// on, joined to another, or waits for the window to load.
func (p *partition) claimLocked(sl *slot, work *admitted) bool {
	switch first, answer := p.ids.Claim(idwindow.EntryOf(&sl.event, sl.record), sl); answer {
	case idwindow.Fresh:
		sl.keyed = true
		return true
	case idwindow.Settled:
		p.verdictLocked(sl, repeated, work)
	case idwindow.Conflict:
		p.verdictLocked(sl, conflicted, work)
	case idwindow.InFlight:
		first.joined = append(first.joined, sl)
	case idwindow.Loading: // the window hands the slot back through idsLoaded
	}
	return false
}

func (p *partition) fanOutLocked(sl *slot, marks []mark, work *admitted) {
	targets := p.d.registry.Snapshot().Match(sl.event.Tenant, sl.event.Type)
	if len(targets) == 0 {
		if len(marks) > 0 { // what it was owed to is durable, and gone since
			p.endSlotLocked(sl, work)
			return
		}
		p.verdictLocked(sl, unrouted, work)
		return
	}
	for _, ep := range targets {
		if !markedFor(marks, ep.ID) {
			t := sl.ticket
			t.Endpoint = ep.ID
			t.FanOut = len(targets)
			p.deliverLocked(sl, ep, t, work)
		}
	}
	if sl.pending == 0 {
		p.endSlotLocked(sl, work)
	}
}

func (p *partition) admitDueLocked(sl *slot, marks []mark, work *admitted) {
	t, err := tier.DecodeTicket(sl.record.Headers)
	if err != nil {
		p.poisonLocked(sl, marks, err, work)
		return
	}
	sl.ticket = t
	k, at := keyOf(&t, sl.event.ID), step{t.Attempt, t.Parks}
	if marks = matching(marks, sl.event.ID, &t); markedFor(marks, t.Endpoint) {
		p.forks.settle(k, marks[0].at)
		p.endSlotLocked(sl, work)
		return
	}
	if p.forks.seen(k, at) {
		p.verdictLocked(sl, repeated, work)
		return
	}
	if twin := p.forks.working[k]; twin != nil && at.atOrBelow(step{twin.ticket.Attempt, twin.ticket.Parks}) {
		twin.joined = append(twin.joined, sl)
		return
	}
	p.forks.working[k] = sl
	ep, ok := p.d.registry.Snapshot().Get(t.Endpoint)
	if !ok || ep.Tenant != sl.event.Tenant {
		p.verdictLocked(sl, deleted, work)
		return
	}
	t.FanOut = max(1, t.FanOut)
	p.deliverLocked(sl, ep, t, work)
}

// rememberDone enters a record that was done before this owner read it into the windows, so
// that a later repeat of its event is still recognised.
func (p *partition) rememberDone(s *stream, r *kgo.Record) {
	if s.isDue() {
		return // its chain is judged by its next copy
	}
	ev, err := p.d.decode(r)
	if err != nil || !p.place.Keyed(&ev) {
		return
	}
	p.ids.Add(idwindow.EntryOf(&ev, r))
}

func (p *partition) deliverLocked(sl *slot, ep *endpoint.Endpoint, t tier.Ticket, work *admitted) {
	sl.pending++
	sl.stream.waiting++
	work.deliveries = append(work.deliveries, &delivery{slot: sl, endpoint: ep, ticket: t})
}

// poisonLocked sends a record that cannot be understood to dead. Its row says nothing of an
// event: what was read of one may be wrong.
func (p *partition) poisonLocked(sl *slot, marks []mark, err error, work *admitted) {
	sl.event, sl.ticket = event.Event{}, tier.Ticket{}
	if markedFor(matching(marks, "", &sl.ticket), "") {
		p.endSlotLocked(sl, work)
		return
	}
	sl.fault = fmt.Sprintf("%s/%d at %d: %v", sl.stream.topic, p.number, sl.record.Offset, err)
	p.verdictLocked(sl, unreadable, work)
}

func (p *partition) verdictLocked(sl *slot, v verdict, work *admitted) {
	sl.pending++
	sl.stream.waiting++
	work.verdicts = append(work.verdicts, ruled{dl: &delivery{slot: sl, ticket: sl.ticket}, verdict: v})
}

// start hands admitted deliveries on. It takes no partition lock while it calls.
func (d *Dispatcher) start(work *admitted) {
	now := time.Now()
	for _, dl := range work.deliveries {
		d.approach(dl, now)
	}
	for _, r := range work.verdicts {
		d.rule(r.dl, r.verdict)
	}
}

// approach brings a delivery to its endpoint's gate.
func (d *Dispatcher) approach(dl *delivery, now time.Time) {
	if !dl.endpoint.Enabled {
		d.park(dl, parkDisabled)
		return
	}
	switch d.gates.enter(dl, now) {
	case entered:
		d.queue(dl)
	case full:
		d.park(dl, parkLimit)
	case refused:
		d.park(dl, parkCircuit)
	case paced:
		d.park(dl, parkRate)
	case waits:
	}
}

// queue offers a delivery that holds a place to the permits.
func (d *Dispatcher) queue(dl *delivery) {
	dl.holdsPlace = true
	if !d.permits.offer(&dl.slot.part.queues, dl) {
		d.leavePlace(dl) // its lane is closing
	}
}

// release gives back what a delivery holds; the next in line at its gate goes on.
func (d *Dispatcher) release(dl *delivery) {
	d.leavePlace(dl)
	if dl.holdsPermit {
		dl.holdsPermit = false
		d.permits.release()
	}
}
