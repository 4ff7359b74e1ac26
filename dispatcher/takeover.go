package dispatcher

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/ledger"
	"github.com/hookline/hookline/ingest/event/scan"
	"github.com/hookline/hookline/retrytiers/tier"
)

// mark is what an attempt record proves about the source record that it names: the outcome
// for one endpoint (or for all, endpoint "") is durable.
type mark struct {
	event, endpoint, replay string
	attempt, parks          int // of the source record
	at                      step
	row                     int64 // offset of the attempt record
}

// startPoint is where a new owner begins in one topic of a lane.
type startPoint struct {
	at        int64 // first offset to read
	committed int64 // what the group has committed, -1 = nothing
	done      []ledger.Run
	marks     map[int64][]mark
	rowsFrom  int64 // attempts offset from which its marks are to be read, -1 = none
	gone      int64 // offsets that left the log before they were delivered
	unread    error // why the commit metadata could not be read
}

// takeover is all that a new owner learns before it reads the first record.
type takeover struct {
	start   map[attempt.SourceTopic]*startPoint
	rowsEnd int64 // attempts offset up to which marks were read
	topicID [16]byte
	base    uint64
}

// errPastEnd means that a position lies behind the end of the log: the log lost its tail, or
// is not the log that was read. Nobody but an operator can decide that.
var errPastEnd = errors.New("position is past the end of the log")

// takeOver reads what the owner before has committed, and from the attempts topic what it
// finished after its last commit. Order matters: offsets first, rows after, so that a row
// written between the two is seen.
func (p *partition) takeOver(ctx context.Context) (takeover, error) {
	d := p.d
	t := takeover{start: make(map[attempt.SourceTopic]*startPoint, 2)}
	from := int64(-1)
	for _, s := range []*stream{p.fresh, p.due} {
		sp, err := d.startPoint(ctx, s.topic, p.number)
		if err != nil {
			return t, err
		}
		t.start[s.source] = sp
		if sp.rowsFrom >= 0 && (from < 0 || sp.rowsFrom < from) {
			from = sp.rowsFrom
		}
	}
	id, base, err := d.sequences.Base(ctx)
	if err != nil {
		return t, err
	}
	t.topicID, t.base = id, base
	return t, p.readMarks(ctx, from, &t)
}

// startPoint finds the first offset to read. Below the start of the log records are gone:
// that is counted, and an alarm unless our own trim moved it. There is no reset policy.
func (d *Dispatcher) startPoint(ctx context.Context, topic string, number int32) (*startPoint, error) {
	committed, err := d.member.Committed(ctx, topic, []int32{number})
	if err != nil {
		return nil, err
	}
	start, err := scan.Start(ctx, d.scans, topic, number)
	if err != nil {
		return nil, fmt.Errorf("find start of %s/%d: %w", topic, number, err)
	}
	end, err := scan.End(ctx, d.scans, topic, number, true)
	if err != nil {
		return nil, fmt.Errorf("find end of %s/%d: %w", topic, number, err)
	}
	c := committed[number]
	sp := &startPoint{at: c.At, committed: c.At, marks: make(map[int64][]mark), rowsFrom: -1}
	switch {
	case c.At < 0:
		sp.at = start
		return sp, nil
	case c.At > end:
		return nil, fmt.Errorf("%s/%d: position %d, end %d: %w", topic, number, c.At, end, errPastEnd)
	case c.At < start:
		sp.at, sp.gone = start, start-c.At
	}
	var meta ledger.Metadata
	meta, sp.unread = ledger.Decode(c.At, c.Metadata) // after an error that of no metadata
	for _, r := range meta.Runs {
		// A log that lost its tail gives those offsets to other records.
		if r.To = min(r.To, end); r.From < r.To {
			sp.done = append(sp.done, r)
		}
	}
	sp.rowsFrom = meta.Attempts
	return sp, nil
}

// note counts and logs what is unusual about a start point.
func (d *Dispatcher) note(number int32, sp *startPoint, topic string) {
	if sp.gone > 0 {
		d.metrics.recordsGone.WithLabelValues(d.topics.room(topic)).Add(float64(sp.gone))
		d.log.Error("records expired before they were delivered", "topic", topic, "partition", number, "from", sp.committed, "to", sp.at)
	}
	if sp.unread != nil { // without it work repeats, nothing is lost
		d.metrics.badMetadata.Inc()
		d.log.Warn("commit metadata is unreadable, finished work will repeat", "topic", topic, "partition", number, "error", sp.unread)
	}
}

// readMarks reads the rows of this lane from the given attempts offset to the end of now.
func (p *partition) readMarks(ctx context.Context, from int64, t *takeover) error {
	d := p.d
	number := attempt.PartitionFor(p.number, d.topics.attemptsN)
	end, err := scan.End(ctx, d.scans, d.topics.attempts, number, false)
	if err != nil {
		return fmt.Errorf("find end of %s/%d: %w", d.topics.attempts, number, err)
	}
	t.rowsEnd = end
	if from < 0 || from >= end {
		return nil
	}
	read := func(r *kgo.Record) error {
		var row attempt.Record
		if err := attempt.Decode(r.Value, &row); err != nil {
			d.metrics.badRows.Inc()
			return nil //nolint:nilerr // it marks nothing: work repeats
		}
		sp := t.start[row.Position.Topic]
		if sp == nil || row.Position.Partition != p.number || row.Position.Offset < sp.at {
			return nil
		}
		sp.marks[row.Position.Offset] = append(sp.marks[row.Position.Offset], markOf(&row, r.Offset))
		return nil
	}
	_, err = scan.Range(ctx, d.scans, scan.Spec{Topic: d.topics.attempts, Partition: number, From: from, Until: end}, read)
	var gone *scan.OutOfRangeError
	if errors.As(err, &gone) && gone.Below() {
		return nil // rows that expired mark nothing
	}
	if err != nil {
		return fmt.Errorf("read takeover marks: %w", err)
	}
	return nil
}

func markOf(row *attempt.Record, offset int64) mark {
	m := mark{
		event: row.EventID, endpoint: row.Endpoint, replay: row.ReplayID,
		attempt: int(row.Position.Attempt), parks: int(row.Parks),
		row: offset,
	}
	m.at = stepAfter(row.Outcome, m.attempt, m.parks)
	return m
}

// stepAfter is how far a chain has come once a record at the given step has this outcome.
func stepAfter(o attempt.Outcome, attempts, parks int) step {
	if o == attempt.Delivered || o == attempt.Dead {
		return ended
	}
	return step{attempts, parks}
}

// matching keeps the marks that speak of this very record. An offset can be reused (a log
// that lost its tail, a topic made again), and then its old marks must not count.
func matching(marks []mark, eventID string, t *tier.Ticket) []mark {
	kept := marks[:0]
	for _, m := range marks {
		if m.event == eventID && m.replay == t.Replay && m.attempt == t.Attempt && m.parks == t.Parks {
			kept = append(kept, m)
		}
	}
	return kept
}

func markedFor(marks []mark, endpointID string) bool {
	for _, m := range marks {
		if m.endpoint == endpointID {
			return true
		}
	}
	return false
}

func lowestRow(marks []mark) int64 {
	low := int64(-1)
	for _, m := range marks {
		if low < 0 || m.row < low {
			low = m.row
		}
	}
	return low
}
