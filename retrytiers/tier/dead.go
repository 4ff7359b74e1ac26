package tier

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event"
)

// AppendDead appends the headers of a dead letter: those of the event in headers, then the
// ticket. t.Reason must be set; t.Endpoint is empty when the whole event ended, for example
// as id_conflict. Key and value of the letter are those of the record, untouched.
func AppendDead(dst, headers []kgo.RecordHeader, t *Ticket) []kgo.RecordHeader {
	return t.AppendHeaders(StripTicket(dst, headers))
}

// AppendPoison appends the headers of a dead letter whose record could not be understood.
// Everything that it carried is kept as it is, since nobody can say what of it matters; only
// reason and error are ours. why names the record's position and what is wrong with it.
func AppendPoison(dst, headers []kgo.RecordHeader, why string) []kgo.RecordHeader {
	for i := range headers {
		if h := headers[i]; h.Key != HeaderReason && h.Key != HeaderError {
			dst = append(dst, h)
		}
	}
	return append(dst,
		kgo.RecordHeader{Key: HeaderError, Value: []byte(cutText(why, MaxError))},
		kgo.RecordHeader{Key: HeaderReason, Value: []byte(Poison)},
	)
}

// DeadPartition is where the dead letter of a key lies. A record without a key, which only
// poison can be, goes to the first.
func DeadPartition(key []byte, partitions int32) int32 {
	if len(key) == 0 {
		return 0
	}
	return event.Partition(string(key), partitions)
}

// DeadLetter is one record of dead, for listing (CONTRACT section 7). Key, Value and Headers
// belong to the record.
type DeadLetter struct {
	Partition  int32      `json:"partition"`
	Offset     int64      `json:"offset"`
	EventID    string     `json:"event_id"`
	MessageID  string     `json:"message_id"`
	EndpointID string     `json:"endpoint_id"`
	Tenant     string     `json:"tenant"`
	EventType  string     `json:"event_type"`
	Reason     Reason     `json:"reason"`
	Attempts   int        `json:"attempts"`
	LastStatus int        `json:"last_status"`
	LastError  string     `json:"last_error"`
	FirstAt    *time.Time `json:"first_at"` // nil: it has no ticket
	DeadAt     time.Time  `json:"dead_at"`

	Ticket  Ticket             `json:"-"`
	Key     []byte             `json:"-"`
	Value   []byte             `json:"-"`
	Headers []kgo.RecordHeader `json:"-"`
}

// DecodeDead reads a record of dead. It never fails: dead is where things end that could not
// be read, and they must be listed too. What is missing or broken stays empty; a letter
// without a reason is poison.
func DecodeDead(r *kgo.Record) DeadLetter {
	d := DeadLetter{
		Partition: r.Partition, Offset: r.Offset, DeadAt: r.Timestamp.UTC(),
		MessageID: cutText(string(r.Key), event.MaxMessageID),
		Key:       r.Key, Value: r.Value, Headers: r.Headers,
	}
	for i := range r.Headers {
		h := &r.Headers[i]
		switch h.Key {
		case event.HeaderID:
			d.EventID = cutText(string(h.Value), event.MaxID)
		case event.HeaderType:
			d.EventType = cutText(string(h.Value), event.MaxType)
		case event.HeaderTenant:
			d.Tenant = cutText(string(h.Value), event.MaxTenant)
		default:
			field := d.Ticket
			if _, err := field.take(h); err == nil {
				d.Ticket = field
			}
		}
	}
	if d.Ticket.Reason == "" {
		d.Ticket.Reason = Poison
	}
	d.EndpointID = d.Ticket.Endpoint
	d.Reason = d.Ticket.Reason
	d.Attempts = d.Ticket.Attempt
	d.LastStatus = d.Ticket.Status
	d.LastError = d.Ticket.Error
	if d.Ticket.FirstMs > 0 {
		first := time.UnixMilli(d.Ticket.FirstMs).UTC()
		d.FirstAt = &first
	}
	return d
}
