package dispatcher

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/retrytiers/tier"
)

// settlement carries one outcome through its durable steps, always in this order: copy or
// dead letter acked, endpoint that is gone disabled (gone.go), feedback events about a dead letter
// acked (feedback.go), attempt record acked, delivery finished. It holds its ledger slot and
// its permit until the end; a step that fails is tried again, never skipped.
type settlement struct {
	dl       *delivery
	copy     *kgo.Record // retry copy or dead letter, nil = the outcome needs none
	row      attempt.Record
	posted   bool               // a POST was made: the row is worth writing even if the lane was lost
	gone     *endpoint.Endpoint // as it was when it answered 410; nil once that is seen to
	disabled bool               // by this settlement
	told     bool               // notices holds what was to be told
	notices  []notice
	backoff  *backoff.ExponentialBackOff
}

// settle takes the next step. It may be called from a client's promise: it only buffers.
func (d *Dispatcher) settle(s *settlement) {
	if !s.dl.slot.part.live() {
		d.forfeit(s)
		return
	}
	switch {
	case s.copy != nil:
		d.produceCopy(s)
	case s.gone != nil:
		d.disableGone(s)
	case s.untold():
		d.tell(s)
	default:
		d.writeRow(s)
	}
}

func (d *Dispatcher) produceCopy(s *settlement) {
	d.copies.Produce(d.background, s.copy, func(_ *kgo.Record, err error) {
		if err != nil {
			d.copyFailed(s, err)
			return
		}
		s.copy = nil
		d.settle(s)
	})
}

// copyFailed keeps the slot and tries again. Only a record that the broker will never take
// is changed: what is too large is cut to a dead letter that points at the event.
func (d *Dispatcher) copyFailed(s *settlement, err error) {
	if !s.dl.slot.part.live() {
		d.forfeit(s) // the lane ended, or the client did at our stop
		return
	}
	d.metrics.produceFailures.WithLabelValues(d.topics.room(s.copy.Topic)).Inc()
	if errors.Is(err, kerr.MessageTooLarge) {
		d.tooLarge(s)
		return
	}
	d.throttled.warn("produce failed, the delivery keeps its slot", "topic", s.copy.Topic, "error", err)
	// A record that failed may not be handed to the client twice: it keeps client state.
	s.copy = &kgo.Record{Topic: s.copy.Topic, Partition: s.copy.Partition, Key: s.copy.Key, Value: s.copy.Value, Headers: s.copy.Headers}
	d.again(s)
}

// again repeats the current step after a pause, off the client's promise goroutine.
func (d *Dispatcher) again(s *settlement) {
	if s.backoff == nil {
		s.backoff = backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(50*time.Millisecond),
			backoff.WithMaxInterval(5*time.Second),
			backoff.WithMaxElapsedTime(0), // never gives up: the event would be lost
		)
	}
	time.AfterFunc(s.backoff.NextBackOff(), func() { d.settle(s) })
}

// tooLarge turns a copy that the broker refuses for its size into a dead letter, and a dead
// letter into one without its body: hl_orig says where the body lies.
func (d *Dispatcher) tooLarge(s *settlement) {
	sl := s.dl.slot
	t := s.dl.ticket
	t.Attempt, t.Reason = attemptsMade(s), tier.TooLarge
	letter := d.letter(sl, &t, "")
	switch {
	case sl.fault != "": // key and headers may be what is too large: the fault names the place
		letter.Key, letter.Value = nil, nil
		letter.Headers = tier.AppendPoison(nil, nil, sl.fault)
	case s.row.Reason == string(tier.TooLarge):
		letter.Value = nil
	default:
		d.metrics.dead.WithLabelValues(string(tier.TooLarge)).Inc()
	}
	s.copy = letter
	if sl.fault == "" {
		s.row.Outcome, s.row.Reason, s.row.NextRetryMs = attempt.Dead, string(tier.TooLarge), 0
	}
	d.again(s)
}

func attemptsMade(s *settlement) int {
	if s.posted {
		return s.dl.ticket.Attempt + 1
	}
	return s.dl.ticket.Attempt
}

// writeRow produces the attempt record. Its position is a promise that the copy is durable,
// so this is only called behind the copy's ack, and forfeit takes the position out.
func (d *Dispatcher) writeRow(s *settlement) {
	p := s.dl.slot.part
	d.rows.write(p.number, &s.row, func(offset int64, err error) {
		if err != nil {
			d.metrics.produceFailures.WithLabelValues("attempts").Inc()
			d.throttled.warn("attempt record not written, the delivery keeps its slot", "error", err)
			d.again(s)
			return
		}
		p.finish(s.dl, stepAfter(s.row.Outcome, s.dl.ticket.Attempt, s.dl.ticket.Parks), offset)
		d.release(s.dl)
		d.metrics.outcomes.WithLabelValues(s.row.Outcome.String()).Inc()
	})
}

// forfeit ends a settlement whose lane was lost: it must not produce a copy that the new
// owner does not know of. A POST that was made is still told, by a row that marks nothing.
func (d *Dispatcher) forfeit(s *settlement) {
	p := s.dl.slot.part
	end := func() {
		p.endDelivery()
		d.release(s.dl)
	}
	if !s.posted {
		end()
		return
	}
	s.row.Position, s.row.NextRetryMs = attempt.Position{}, 0
	d.rows.write(p.number, &s.row, func(int64, error) { end() })
}

// newRow fills what every row about a delivery says.
func (d *Dispatcher) newRow(dl *delivery, now time.Time) attempt.Record {
	sl := dl.slot
	ev, t := &sl.event, &dl.ticket
	row := attempt.Record{
		AttemptedMs: now.UnixMilli(), AcceptedMs: ev.AcceptedMs, OccurredMs: ev.AcceptedMs,
		Tenant: ev.Tenant, Endpoint: t.Endpoint, EventType: ev.Type, Source: ev.Origin,
		EventID: ev.ID, MessageID: ev.MessageID, Worker: d.cfg.Worker, ReplayID: t.Replay,
		Sequence: t.Seq, Parks: clamp16(t.Parks), Deliveries: clamp16(t.FanOut),
		Trigger: attempt.Auto, Circuit: attempt.Closed,
		Position: attempt.Position{
			Topic: sl.stream.source, Partition: sl.part.number,
			Offset: sl.record.Offset, Attempt: clamp16(t.Attempt),
		},
	}
	if sl.fault != "" { // nothing in it can be believed but when it came
		row.AcceptedMs = sl.record.Timestamp.UnixMilli()
		row.OccurredMs = row.AcceptedMs
	}
	if !ev.OccurredAt.IsZero() {
		row.OccurredMs = ev.OccurredAt.UnixMilli()
	}
	if t.Replay != "" {
		row.Trigger = attempt.Replay
	}
	since := row.AcceptedMs
	if sl.stream.isDue() && sl.fault == "" {
		since = t.DueMs
		row.DueErrorMs = int32(min(max(row.AttemptedMs-t.DueMs, math.MinInt32), math.MaxInt32))
		row.Tier = t.Tier
	}
	row.QueueWaitUs = uint64(max(0, now.UnixMicro()-since*1000))
	return row
}

func clamp16(n int) uint16 { return uint16(min(max(n, 0), math.MaxUint16)) }

// retryCopy is the record that waits in a delay slot until t.DueMs. Its headers are built
// from what was read, not copied: an id that was derived from the place of the first record
// must not be derived again from the copy's.
func (d *Dispatcher) retryCopy(sl *slot, t *tier.Ticket, delay time.Duration) *kgo.Record {
	suffix, slotNumber := d.cfg.Ladder.Place(delay, sl.event.MessageID)
	t.Tier = suffix
	return &kgo.Record{
		Topic: d.prefix + suffix, Partition: slotNumber,
		Key: sl.record.Key, Value: sl.record.Value,
		Headers: t.AppendHeaders(sl.event.Headers(make([]kgo.RecordHeader, 0, 24))),
	}
}

// letter is the dead letter of a record; why is set for poison only.
func (d *Dispatcher) letter(sl *slot, t *tier.Ticket, why string) *kgo.Record {
	r := &kgo.Record{
		Topic: d.topics.dead, Partition: tier.DeadPartition(sl.record.Key, d.topics.deadN),
		Key: sl.record.Key, Value: sl.record.Value,
	}
	if t.Reason == tier.Poison {
		r.Headers = tier.AppendPoison(nil, sl.record.Headers, why)
	} else {
		r.Headers = tier.AppendDead(nil, sl.event.Headers(nil), t)
	}
	return r
}

// parkReason says why a delivery leaves without an attempt.
type parkReason uint8

const (
	parkLimit    parkReason = iota // its endpoint has no place for it
	parkCircuit                    // its endpoint's breaker is open
	parkRate                       // its endpoint's rate has no room for it soon
	parkDisabled                   // its endpoint is disabled, or cannot be used as stored
	parkDeadline                   // its slot is too old for an attempt to fit
	parkLocal                      // this process lacks what an attempt needs
)

// disabledParkDelay is how long a delivery to a disabled endpoint waits before it looks again.
const disabledParkDelay = 30 * time.Second

// park moves a delivery that has not started into a delay slot.
func (d *Dispatcher) park(dl *delivery, why parkReason) {
	if !dl.slot.part.startDelivery(dl) {
		return
	}
	d.parkStarted(dl, dl.endpoint, why)
}

// parkStarted moves a delivery into a delay slot without consuming an attempt.
func (d *Dispatcher) parkStarted(dl *delivery, ep *endpoint.Endpoint, why parkReason) {
	now := time.Now()
	if expired(&dl.ticket, ep, now) {
		d.bury(dl, ep, d.newRow(dl, now), tier.Expired, false)
		return
	}
	row := d.newRow(dl, now)
	if why == parkCircuit {
		row.Circuit, row.ErrorClass = attempt.Open, attempt.CircuitOpen
		if ep.WhenOpen == endpoint.WhenOpenFail {
			d.bury(dl, ep, row, tier.CircuitOpen, false)
			return
		}
	}
	u := rand.Float64()
	var delay time.Duration
	switch why {
	case parkCircuit:
		delay = d.gates.parkDelay(ep, why, u, now)
	case parkLimit, parkRate:
		delay = d.gates.parkDelay(ep, why, u, now)
		row.ErrorClass = attempt.RateLimited
	case parkDisabled:
		delay = time.Duration((0.8 + 0.4*u) * float64(disabledParkDelay))
	case parkLocal:
		row.ErrorClass = attempt.Internal
		delay = time.Duration((0.8 + 0.4*u) * float64(disabledParkDelay))
	case parkDeadline:
		delay = time.Duration((0.8 + 0.4*u) * float64(parkMin))
	}
	t := dl.ticket
	t.Parks++
	t.DueMs = now.Add(delay).UnixMilli()
	row.Outcome, row.Attempt, row.MaxAttempts = attempt.Parked, clamp16(t.Attempt+1), clamp16(ep.Retry.MaxAttempts)
	row.NextRetryMs = t.DueMs
	d.metrics.parks.WithLabelValues(why.String()).Inc()
	d.settle(&settlement{dl: dl, copy: d.retryCopy(dl.slot, &t, delay), row: row})
}

func (r parkReason) String() string {
	return [...]string{"limit", "circuit", "rate", "disabled", "deadline", "local"}[r]
}

// expired reports whether a delivery is older than its endpoint lets it become.
func expired(t *tier.Ticket, ep *endpoint.Endpoint, now time.Time) bool {
	return now.UnixMilli()-t.FirstMs >= time.Duration(ep.Retry.MaxAge).Milliseconds()
}

// bury ends a delivery as a dead letter.
func (d *Dispatcher) bury(dl *delivery, ep *endpoint.Endpoint, row attempt.Record, reason tier.Reason, posted bool) {
	t := dl.ticket
	t.Reason = reason
	row.Outcome, row.Reason = attempt.Dead, string(reason)
	if ep != nil {
		row.MaxAttempts = clamp16(ep.Retry.MaxAttempts)
	}
	if posted {
		t.Attempt++
		t.Status, t.Error = int(row.StatusCode), dl.lastError
	}
	d.metrics.dead.WithLabelValues(string(reason)).Inc()
	s := &settlement{dl: dl, copy: d.letter(dl.slot, &t, ""), row: row, posted: posted}
	if reason == tier.EndpointGone {
		s.gone = ep
	}
	d.settle(s)
}

// rule carries out a verdict about a whole record.
func (d *Dispatcher) rule(dl *delivery, v verdict) {
	if !dl.slot.part.startDelivery(dl) {
		return
	}
	d.ruleStarted(dl, v)
}

func (d *Dispatcher) ruleStarted(dl *delivery, v verdict) {
	row := d.newRow(dl, time.Now())
	switch v {
	case unrouted:
		row.Outcome = attempt.Unrouted
		d.settle(&settlement{dl: dl, row: row})
	case repeated:
		row.Outcome = attempt.Dropped
		d.settle(&settlement{dl: dl, row: row})
	case conflicted:
		d.throttled.warn("one event id came with two bodies, the later event is dead: an idempotency key is used twice, or a producer changes what it repeats",
			"tenant", row.Tenant, "event_id", row.EventID, "partition", row.Position.Partition, "offset", row.Position.Offset)
		d.bury(dl, nil, row, tier.IDConflict, false)
	case deleted:
		d.bury(dl, nil, row, tier.EndpointDeleted, false)
	case misplaced:
		row.Outcome, row.Reason = attempt.Dropped, attempt.Forwarded
		d.metrics.forwarded.Inc()
		sl := dl.slot
		d.settle(&settlement{dl: dl, copy: sl.part.place.Forward(sl.record, &sl.event), row: row})
	case unreadable:
		row.Outcome, row.Reason = attempt.Dead, string(tier.Poison)
		t := tier.Ticket{Reason: tier.Poison}
		d.metrics.dead.WithLabelValues(string(tier.Poison)).Inc()
		d.settle(&settlement{dl: dl, copy: d.letter(dl.slot, &t, dl.slot.fault), row: row})
	}
}
