package report

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/hookline/hookline/ingest/event"
)

// Subject is what a look-up is about: one event or one message, of one tenant unless that
// is empty.
type Subject struct {
	Tenant    string
	EventID   string
	MessageID string
}

// Found is what a look-up returns: the newest events first come, but listed in the order in
// which they were accepted.
type Found struct {
	Events    []Event
	Truncated bool // the message has more events, older ones
	AsOf      time.Time
	Lag       time.Duration // negative: could not be measured
}

// LagSeconds is the lag as answers show it, nil if it could not be measured.
func (f *Found) LagSeconds() *float64 { return lagSeconds(f.Lag) }

// MaxEvents is the most events of a message that a look-up returns.
const MaxEvents = 1000

const (
	lookupBack  = 32 * day // raw rows are kept for 30
	maxChains   = MaxRows
	ulidSlack   = 10 * time.Minute
	lookupSlack = time.Second // events and rows of one event carry equal times; only order may differ
)

// Lookup finds events and their deliveries. An event of which only attempts have reached
// ClickHouse is found too: the two come through topics of their own.
func (r *Reporter) Lookup(ctx context.Context, s Subject) (*Found, error) {
	out := &Found{}
	out.AsOf, out.Lag = r.asOf(ctx)
	since := out.AsOf.Add(-lookupBack)
	if at, ok := madeAt(s.EventID); ok && at.Add(-ulidSlack).After(since) {
		since = at.Add(-ulidSlack)
	}
	rows, err := r.ask(ctx, eventsOf(s, since, out.AsOf))
	if err != nil {
		return nil, fmt.Errorf("look up events: %w", err)
	}
	events := map[string]*Event{}
	if len(rows) > MaxEvents {
		rows, out.Truncated = rows[:MaxEvents], true
	}
	for _, row := range rows {
		e := &Event{ID: row[0].(string), MessageID: row[1].(string), Tenant: row[2].(string), Type: row[3].(string)}
		e.AcceptedAt, _ = row[4].(time.Time)
		events[e.ID] = e
		if out.Truncated { // what is older was cut off, its rows are not wanted either
			since = e.AcceptedAt.Add(-lookupSlack)
		}
	}
	chains, err := r.ask(ctx, chainsOf(s, since, out.AsOf))
	if err != nil {
		return nil, fmt.Errorf("look up deliveries: %w", err)
	}
	if len(chains) > maxChains {
		chains, out.Truncated = chains[:maxChains], true
	}
	out.Events = assemble(events, chains, out.Truncated)
	return out, nil
}

// madeAt reads the time out of an id that ingest made at random.
func madeAt(id string) (time.Time, bool) {
	if !event.IsRandomID(id) {
		return time.Time{}, false
	}
	u, err := ulid.ParseStrict(id[len(id)-ulid.EncodedSize:])
	if err != nil {
		return time.Time{}, false
	}
	return ulid.Time(u.Time()), true
}

func (s *Subject) conditions(column string, since, now time.Time) *conditions {
	c := newConditions()
	c.raw(column, &Query{Since: since.Truncate(time.Millisecond), Until: now.Add(skew)})
	c.filters(&Query{Tenant: s.Tenant, EventID: s.EventID, MessageID: s.MessageID})
	return c
}

// eventsOf lists the newest first: they are kept when there are too many. Repeats of one id
// are one event.
func eventsOf(s Subject, since, now time.Time) *statement {
	c := s.conditions("accepted_at", since, now)
	return c.statement(&Query{Limit: MaxEvents}, `
SELECT event_id, any(message_id), any(tenant_id), any(event_type), min(accepted_at) AS accepted
FROM hookline.events
WHERE `+c.String()+`
GROUP BY event_id
ORDER BY accepted DESC, event_id DESC`)
}

// chainsOf makes one row of each event and endpoint; endpoint "" are verdicts about the
// event. POSTs are the rows with an attempt that are not parks. A verdict about a repeat, or a record
// in the wrong partition, names the sequence of that record, which no delivery carries.
func chainsOf(s Subject, since, now time.Time) *statement {
	c := s.conditions("attempted_at", since, now)
	return c.statement(&Query{Limit: maxChains}, `
SELECT event_id, endpoint_id, any(message_id), any(tenant_id), any(event_type), min(accepted_at),
       if(endpoint_id = '', maxIf(sequence, outcome = 'unrouted'), max(sequence)), maxIf(deliveries, trigger IN ('auto', 'probe')),
       multiIf(endpoint_id = '', toString(max(outcome)), countIf(outcome = 'delivered') > 0, 'delivered',
               toString(argMax(outcome, (attempted_at, src_offset)))) AS last_state,
       countIf(outcome = 'unrouted') > 0, countIf(outcome = 'dead') > 0,
       countIf(attempt > 0 AND outcome != 'parked'),
       argMaxIf(status_code, (attempted_at, src_offset), attempt > 0 AND outcome != 'parked'),
       argMaxIf(error_class, (attempted_at, src_offset), attempt > 0),
       minIf(attempted_at, attempt > 0 AND outcome != 'parked'),
       maxIf(attempted_at, attempt > 0 AND outcome != 'parked'),
       argMax(next_retry_at, (attempted_at, src_offset))
FROM hookline.attempts FINAL
WHERE `+c.String()+`
  AND (endpoint_id = '' OR outcome != 'dropped')
GROUP BY event_id, endpoint_id
ORDER BY min(accepted_at) DESC, event_id, endpoint_id`)
}

// assemble joins chains to their events. With known only events that are in the map count:
// the list was cut.
func assemble(events map[string]*Event, chains [][]any, known bool) []Event {
	said := map[string]verdicts{}
	for _, row := range chains {
		id, endpoint := row[0].(string), row[1].(string)
		e := events[id]
		if e == nil && known {
			continue
		}
		if e == nil {
			e = &Event{ID: id, MessageID: row[2].(string), Tenant: row[3].(string), Type: row[4].(string)}
			e.AcceptedAt, _ = row[5].(time.Time)
			events[id] = e
		}
		e.Sequence = max(e.Sequence, row[6].(uint64))
		if endpoint == "" {
			v := said[id]
			said[id] = verdicts{unrouted: v.unrouted || row[9].(uint64) > 0, conflicted: v.conflicted || row[10].(uint64) > 0}
			continue
		}
		e.Owed = max(e.Owed, row[7].(uint64))
		e.Deliveries = append(e.Deliveries, delivery(e, row))
	}
	out := make([]Event, 0, len(events))
	for id, e := range events {
		e.settle(said[id])
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b Event) int {
		if c := a.AcceptedAt.Compare(b.AcceptedAt); c != 0 {
			return c
		}
		if a.Sequence != b.Sequence {
			return map[bool]int{true: -1, false: 1}[a.Sequence < b.Sequence]
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out
}

func delivery(e *Event, row []any) Delivery {
	d := Delivery{
		EventID: e.ID, MessageID: e.MessageID, Tenant: e.Tenant, EventType: e.Type,
		EndpointID: row[1].(string), State: row[8].(string), Attempts: row[11].(uint64),
		LastStatus: row[12].(uint64), LastErrorClass: row[13].(string),
		FirstAttemptAt: timeOf(row[14]), LastAttemptAt: timeOf(row[15]),
	}
	if at := e.AcceptedAt; !at.IsZero() {
		d.AcceptedAt = &at
	}
	if d.State == "retry" || d.State == "parked" {
		d.NextRetryAt = timeOf(row[16])
	}
	return d
}

func timeOf(v any) *time.Time {
	t, ok := v.(time.Time)
	if !ok {
		return nil
	}
	return &t
}
