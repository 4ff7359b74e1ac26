package report

import "time"

// States of an event.
const (
	Received   = "received"   // in the log, nothing is known of a delivery yet
	Delivering = "delivering" // something that it is owed is not final
	Delivered  = "delivered"  // all that it is owed was delivered
	Dead       = "dead"       // final, and at least one delivery was given up
	Unrouted   = "unrouted"   // no endpoint of the tenant wants it
)

// Delivery is one event's way to one endpoint as its rows tell it.
type Delivery struct {
	EventID        string     `json:"event_id"`
	MessageID      string     `json:"message_id"`
	Tenant         string     `json:"tenant"`
	EventType      string     `json:"event_type"`
	EndpointID     string     `json:"endpoint_id"`
	State          string     `json:"state"` // delivered, dead, retry or parked
	Attempts       uint64     `json:"attempts"`
	LastStatus     uint64     `json:"last_status"` // 0 = no HTTP response
	LastErrorClass string     `json:"last_error_class"`
	AcceptedAt     *time.Time `json:"accepted_at"`
	FirstAttemptAt *time.Time `json:"first_attempt_at"`
	LastAttemptAt  *time.Time `json:"last_attempt_at"`
	NextRetryAt    *time.Time `json:"next_retry_at"` // only while it waits
}

// Event is one accepted event with what it is owed.
type Event struct {
	ID         string
	MessageID  string
	Tenant     string
	Type       string
	AcceptedAt time.Time
	Sequence   uint64 // Webhook-Sequence, which the first delivery tells; 0 before
	State      string
	Owed       uint64 // deliveries, 0 while none is known
	Deliveries []Delivery
}

// verdicts are rows about the event as a whole.
type verdicts struct{ unrouted, conflicted bool }

// settle finds the state of an event. An event that was repeated has rows of the repeat too
// (dropped, or dead for a conflict): they say nothing of the first.
func (e *Event) settle(v verdicts) {
	waiting, dead := uint64(len(e.Deliveries)) < e.Owed, false
	for i := range e.Deliveries {
		switch e.Deliveries[i].State {
		case Delivered:
		case Dead:
			dead = true
		default:
			waiting = true
		}
	}
	switch {
	case len(e.Deliveries) == 0 && v.unrouted:
		e.State = Unrouted
	case len(e.Deliveries) == 0 && v.conflicted:
		e.State = Dead
	case len(e.Deliveries) == 0 && e.Owed == 0:
		e.State = Received
	case waiting:
		e.State = Delivering
	case dead:
		e.State = Dead
	default:
		e.State = Delivered
	}
}
