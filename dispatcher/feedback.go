package dispatcher

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/circuit"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

// notice is what a tenant is told about one of its endpoints, by an event of its own.
type notice struct {
	kind             string // event.DeliveryDead and so on
	tenant, endpoint string
	event, replay    string // the delivery that it is about, or that showed it
	reason           string
	at               time.Time
}

const (
	// noticeQueue bounds the notices about breakers that wait to be sent.
	noticeQueue = 1024
	// Reasons of the notices about a breaker.
	reasonOpened, reasonClosed = "circuit_open", "circuit_closed"
)

// noticeBody is a native event.
type noticeBody struct {
	Event      string `json:"event"`
	MessageID  string `json:"message_id"`
	EndpointID string `json:"endpoint_id"`
	EventID    string `json:"event_id"`
	Reason     string `json:"reason"`
	OccurredAt string `json:"occurred_at"`
}

// wanted reports whether an endpoint of the tenant names the kind of event.
func (d *Dispatcher) wanted(tenant, kind string) bool {
	return len(d.registry.Snapshot().Match(tenant, kind)) > 0
}

// about makes a notice about a delivery; false when nobody may be told: the delivery is of a notice
// itself, or has no endpoint.
func about(dl *delivery, kind, reason string, at time.Time) (notice, bool) {
	ev := &dl.slot.event
	if ev.IsFeedback() || dl.ticket.Endpoint == "" {
		return notice{}, false
	}
	return notice{
		kind: kind, tenant: ev.Tenant, endpoint: dl.ticket.Endpoint,
		event: ev.ID, replay: dl.ticket.Replay, reason: reason, at: at,
	}, true
}

// record is the notice as ingest would have written it. Its id says what it is about and not when,
// so a repeat after a crash is a repeat to window A.
func (d *Dispatcher) noticeRecord(n *notice) *kgo.Record {
	at := n.at.UTC().Truncate(time.Millisecond)
	body, err := json.Marshal(noticeBody{
		Event: n.kind, MessageID: n.endpoint, EndpointID: n.endpoint, EventID: n.event, Reason: n.reason,
		OccurredAt: at.Format(time.RFC3339Nano),
	})
	if err != nil {
		panic("BUG: dispatcher: feedback event: " + err.Error()) // texts
	}
	ev := event.Event{
		ID:   event.DeriveID(n.tenant, n.kind, n.endpoint, n.event+"\n"+n.reason+"\n"+n.replay),
		Type: n.kind, Source: event.FeedbackSource, MessageID: n.endpoint, Tenant: n.tenant,
		Origin: event.OriginFeedback, Schema: "1", OccurredAt: at, AcceptedMs: at.UnixMilli(),
		ContentType: event.DefaultContentType, Sequence: -1,
	}
	return &kgo.Record{
		Topic: d.topics.events, Partition: event.Partition(n.endpoint, d.topics.lanes),
		Key: []byte(n.endpoint), Value: body, Headers: ev.Headers(nil),
	}
}

// tell is the step of a settlement behind its dead letter: what is to be told about it is made once,
// then one notice after the other becomes durable.
func (d *Dispatcher) tell(s *settlement) {
	if !s.told {
		if s.notices, s.told = d.noticesOf(s); !s.told {
			d.again(s)
			return
		}
	}
	if len(s.notices) == 0 {
		d.writeRow(s)
		return
	}
	n := &s.notices[0]
	d.copies.Produce(d.background, d.noticeRecord(n), func(_ *kgo.Record, err error) {
		switch {
		case errors.Is(err, kerr.MessageTooLarge): // it will never be taken, and the dead letter is durable
			d.throttled.warn("feedback event is too large for the topic and is left out", "topic", d.topics.events)
		case err != nil:
			if s.dl.slot.part.live() {
				d.metrics.produceFailures.WithLabelValues(event.EventsSuffix).Inc()
				d.throttled.warn("feedback event not written, the delivery keeps its slot", "error", err)
				d.again(s)
				return
			}
		default:
			d.metrics.feedback.WithLabelValues(n.kind).Inc()
		}
		s.notices = s.notices[1:]
		d.settle(s)
	})
}

// noticesOf is what is to be told about a dead letter; false when it is not known whether somebody
// wants to hear of it.
func (d *Dispatcher) noticesOf(s *settlement) (out []notice, known bool) {
	proven, now := d.viewProven(), time.Now()
	add := func(kind, reason string) bool {
		n, ok := about(s.dl, kind, reason, now)
		if !ok {
			return true
		}
		if d.wanted(n.tenant, kind) {
			out = append(out, n)
			return true
		}
		return proven
	}
	if s.disabled && !add(event.EndpointDisabled, string(tier.EndpointGone)) || !add(event.DeliveryDead, s.row.Reason) {
		return nil, false
	}
	return out, true
}

// breakerChanged hears from a gate, with the gates' lock held, that its breaker opened or closed by
// the attempt of dl. It does not wait: a notice that finds the queue full is counted and left out.
func (d *Dispatcher) breakerChanged(dl *delivery, was circuit.State, b breaker) {
	d.advise(dl.endpoint.ID, b)
	n, ok := breakerNotice(dl, was, b.State, time.Now())
	if !ok {
		return
	}
	select {
	case d.notices <- n:
	default:
		d.metrics.feedbackLost.Inc()
	}
}

// breakerNotice is what a change of a breaker says to the tenant: one notice when it opens, whatever
// becomes of its probes, and one when it closes again.
func breakerNotice(dl *delivery, was, is circuit.State, at time.Time) (notice, bool) {
	switch {
	case is == circuit.Closed:
		return about(dl, event.EndpointRecovered, reasonClosed, at)
	case was == circuit.Closed:
		return about(dl, event.EndpointFailing, reasonOpened, at)
	}
	return notice{}, false
}

// noticeLoop sends the notices about breakers. They are hints: one that the client cannot take, or
// that our stop overtakes, is not sent.
func (d *Dispatcher) noticeLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-d.notices:
			if !d.wanted(n.tenant, n.kind) {
				continue
			}
			d.copies.TryProduce(d.background, d.noticeRecord(&n), func(_ *kgo.Record, err error) {
				if err != nil {
					d.metrics.feedbackLost.Inc()
					return
				}
				d.metrics.feedback.WithLabelValues(n.kind).Inc()
			})
		}
	}
}

// untold reports whether the step that tells about a dead letter is still ahead.
func (s *settlement) untold() bool {
	return !s.told && s.row.Outcome == attempt.Dead || len(s.notices) > 0
}
