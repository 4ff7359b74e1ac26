package report

import "time"

// Pull is what a producer is told of its own events.
type Pull struct {
	MessageID string      `json:"message_id"`
	Events    []PullEvent `json:"events"`
	AsOf      string      `json:"as_of"`
	Lag       *float64    `json:"lag_seconds"`
	Truncated bool        `json:"truncated"`
}

// PullEvent is one event of a Pull.
type PullEvent struct {
	ID         string         `json:"id"`
	Event      string         `json:"event"`
	AcceptedAt *time.Time     `json:"accepted_at"`
	Sequence   uint64         `json:"sequence"`
	State      string         `json:"state"`
	Deliveries []PullDelivery `json:"deliveries"`
}

// PullDelivery is one delivery of a PullEvent.
type PullDelivery struct {
	EndpointID  string     `json:"endpoint_id"`
	State       string     `json:"state"`
	Attempts    uint64     `json:"attempts"`
	LastStatus  uint64     `json:"last_status"`
	NextRetryAt *time.Time `json:"next_retry_at"`
}

// Pull is the answer about a message id.
func (f *Found) Pull(messageID string) *Pull {
	out := &Pull{MessageID: messageID, Events: make([]PullEvent, len(f.Events)), AsOf: stamp(f.AsOf), Lag: f.LagSeconds(), Truncated: f.Truncated}
	for i := range f.Events {
		e := &f.Events[i]
		p := PullEvent{ID: e.ID, Event: e.Type, Sequence: e.Sequence, State: e.State, Deliveries: make([]PullDelivery, len(e.Deliveries))}
		if !e.AcceptedAt.IsZero() {
			p.AcceptedAt = &e.AcceptedAt
		}
		for j, d := range e.Deliveries {
			p.Deliveries[j] = PullDelivery{d.EndpointID, d.State, d.Attempts, d.LastStatus, d.NextRetryAt}
		}
		out.Events[i] = p
	}
	return out
}
