package dispatcher

import (
	"math/rand/v2"
	"time"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/retrytiers/tier"
)

// run is the life of a delivery that was dealt a permit. It has a goroutine of its own, since
// the HTTP client blocks; the goroutine ends with the POST, the rest happens in promises.
func (d *Dispatcher) run(dl *delivery) {
	dl.holdsPermit = true
	p := dl.slot.part
	if !p.startDelivery(dl) {
		d.release(dl)
		return
	}
	// The view of now, not of when the delivery was queued: a revoked key never signs again.
	ep, ok := d.registry.Snapshot().Get(dl.ticket.Endpoint)
	now := time.Now()
	switch {
	case !ok && !d.viewProven():
		// Its removal was seen, and whether it was made again cannot be: that is no verdict.
		d.parkStarted(dl, dl.endpoint, parkLocal)
	case !ok || ep.Tenant != dl.slot.event.Tenant:
		d.ruleStarted(dl, deleted)
	case !ep.Enabled || ep.Fault != nil:
		d.parkStarted(dl, ep, parkDisabled)
	case expired(&dl.ticket, ep, now):
		d.bury(dl, ep, d.newRow(dl, now), tier.Expired, false)
	case now.Sub(dl.slot.read)+time.Duration(ep.Timeout) > slotDeadline:
		d.parkStarted(dl, ep, parkDeadline)
	case d.gates.holds(dl, now):
		d.parkStarted(dl, ep, parkCircuit)
	default:
		d.attempt(dl, ep)
	}
}

// attempt makes one POST and carries its outcome out.
func (d *Dispatcher) attempt(dl *delivery, ep *endpoint.Endpoint) {
	ev, t := &dl.slot.event, &dl.ticket
	start := time.Now()
	res := d.sender.Send(d.workCtx, &Request{
		Endpoint: ep, EventID: ev.ID, Attempt: t.Attempt + 1, Seq: t.Seq,
		ContentType: ev.ContentType, Traceparent: ev.Traceparent, Body: ev.Body,
		Timeout: time.Duration(ep.Timeout),
	})
	d.metrics.attemptSeconds.Observe(res.Total.Seconds())
	dl.signal, dl.took, dl.class = SignalOf(&res), res.Total, res.ErrorClass
	probe := dl.probe
	d.leavePlace(dl)
	if res.Ours() {
		d.ourFault(dl, ep, &res)
		return
	}
	row := d.newRow(dl, start)
	row.Attempt, row.MaxAttempts = clamp16(t.Attempt+1), clamp16(ep.Retry.MaxAttempts)
	fill(&row, &res)
	if probe {
		row.Circuit = attempt.HalfOpen
	}
	dl.lastError = res.ErrorText

	now := time.Now()
	v := Decide(PolicyOf(ep), State{Attempt: t.Attempt + 1, First: time.UnixMilli(t.FirstMs)}, res, now, rand.Float64())
	switch v.Kind {
	case Delivered:
		row.Outcome = attempt.Delivered
		d.settle(&settlement{dl: dl, row: row, posted: true})
	case DeadLetter:
		d.bury(dl, ep, row, v.Reason, true)
	case RetryAt:
		next := dl.ticket
		next.Attempt++
		next.Status, next.Error = res.Status, res.ErrorText
		next.DueMs = now.Add(v.Delay).UnixMilli()
		row.Outcome, row.NextRetryMs = attempt.Retry, next.DueMs
		d.settle(&settlement{dl: dl, copy: d.retryCopy(dl.slot, &next, v.Delay), row: row, posted: true})
	}
}

// ourFault ends an attempt that says nothing about the endpoint. Cut off by our own stop it
// has no outcome and the slot stays open for the next owner; without a local resource the
// delivery waits and keeps its attempt.
func (d *Dispatcher) ourFault(dl *delivery, ep *endpoint.Endpoint, res *Result) {
	if d.workCtx.Err() != nil {
		dl.slot.part.endDelivery()
		d.release(dl)
		return
	}
	d.throttled.warn("attempt not made for a local reason, the delivery is parked", "endpoint_id", ep.ID, "error", res.ErrorText)
	d.parkStarted(dl, ep, parkLocal)
}

// leavePlace frees the endpoint for the next delivery as soon as the answer is in; the permit
// stays until the attempt record is acked.
func (d *Dispatcher) leavePlace(dl *delivery) {
	for dl.holdsPlace {
		dl.holdsPlace = false
		next := d.gates.leave(dl, time.Now())
		if next == nil {
			return
		}
		next.holdsPlace = true
		if d.permits.offer(&next.slot.part.queues, next) {
			return
		}
		dl = next // of a lane that is closing: its place goes on to the one behind it
	}
}

// fill copies what the transport measured.
func fill(row *attempt.Record, res *Result) {
	us := func(t time.Duration) uint32 { return uint32(min(max(t.Microseconds(), 0), 1<<32-1)) }
	row.StatusCode, row.ErrorClass = clamp16(res.Status), res.ErrorClass
	row.DNSUs, row.ConnectUs, row.TLSUs = us(res.DNS), us(res.Connect), us(res.TLS)
	row.TTFBUs, row.TotalUs = us(res.TTFB), us(res.Total)
	row.ConnReused, row.HTTPVersion = res.Reused, res.HTTPVersion
	row.RequestBytes, row.ResponseBytes = res.RequestBytes, res.ResponseBytes
}
