package dispatcher

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/circuit"
	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/dispatcher/ledger"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

// slot is one record of a lane, from its read until the outcome of every delivery in it is
// durable. Its partition's lock guards the fields below the line.
type slot struct {
	part   *partition
	stream *stream
	record *kgo.Record
	event  event.Event
	ticket tier.Ticket // of a due record; for a fresh one what its deliveries start from
	read   time.Time   // start of the slot's 20 s
	fault  string      // why the record cannot be understood; empty = it can

	// ---- guarded by part.mu
	pending int   // deliveries without a durable outcome
	lowRow  int64 // lowest attempts offset that holds a row of this slot, -1 = none
	marked  []mark
	keyed   bool    // its event id counts in the idempotency window
	joined  []*slot // slots that end when this one does (same event, or same due delivery)
}

// delivery is one event owed to one endpoint, while this process works on it. It is owned
// by one goroutine or one queue at a time.
type delivery struct {
	slot     *slot
	endpoint *endpoint.Endpoint // the view at the time its targets were decided; nil for a verdict about the whole record
	ticket   tier.Ticket

	waitingSince time.Time // guarded by the gates' lock
	probe        bool      // one of the few of a half-open breaker
	lastError    string    // of the attempt that was just made, bounded and without path or query
	holdsPermit  bool
	holdsPlace   bool

	// What the attempt said about the endpoint, for leave; None until it was made.
	signal circuit.Signal
	took   time.Duration
	class  string // error class, empty = a delivery
}

// stream is one topic of a lane: events/p or due/p. Its partition's lock guards it.
type stream struct {
	topic  string
	source attempt.SourceTopic

	ledger    *ledger.Ledger
	slots     map[int64]*slot
	backlog   fifo[*kgo.Record] // polled, no slot yet
	bytes     int64             // of the backlog
	marks     map[int64][]mark  // takeover marks by offset, taken when the record is read
	waiting   int               // deliveries handed to the gates and not yet dealt a permit
	paused    bool
	halted    bool // the broker refused its position: not read until a new one is found
	committed int64
	trimmed   int64
}

func (s *stream) isDue() bool { return s.source == attempt.SourceDue }

// nextPolledLocked is the offset behind the last polled record.
func (s *stream) nextPolledLocked() int64 {
	if n := s.backlog.len(); n > 0 {
		return s.backlog.items[(s.backlog.head+n-1)%len(s.backlog.items)].Offset + 1
	}
	return s.ledger.Next()
}

// recordBytes is what a record weighs in the window: key, value and headers.
func recordBytes(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}
