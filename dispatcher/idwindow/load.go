package idwindow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/ingest/event/scan"
)

// Source says where a partition's window is rebuilt from.
type Source struct {
	Client         *kgo.Client
	Events, Dedupe string // topic names
	Partition      int32
	Watermark      int64 // committed offset of events
	Age            time.Duration
	Max            int
	// Decode reads a record as its lane does, Keyed says whether its event counts here.
	Decode func(*kgo.Record) (event.Event, error)
	Keyed  func(*event.Event) bool
}

// Rebuilt is what Load found.
type Rebuilt struct {
	Entries  []Entry   // ascending by offset, the last Max at most
	Next     int64     // where the next segment continues
	Segments []Segment // without entries: what lies in dedupe, for expiring it
}

// Load reads the segments of the partition and the committed part of events behind them.
// Only the last Age before the watermark counts, so events is never read further back than that.
func Load(ctx context.Context, s Source) (Rebuilt, error) {
	oldest, err := s.reach(ctx)
	if err != nil {
		return Rebuilt{}, err
	}
	oldest = oldest.Add(-s.Age)
	floor, err := s.offsetAt(ctx, oldest)
	if err != nil {
		return Rebuilt{}, err
	}
	segments, err := s.segments(ctx)
	if err != nil {
		return Rebuilt{}, err
	}
	var out Rebuilt
	covered := floor // contiguous knowledge up to here
	for _, seg := range segments {
		if seg.From <= covered && seg.To > covered {
			covered = min(seg.To, s.Watermark)
		}
		for _, e := range seg.Entries {
			if e.Offset < s.Watermark && e.AtMs >= oldest.UnixMilli() {
				out.Entries = append(out.Entries, e)
			}
		}
		out.Segments = append(out.Segments, Segment{From: seg.From, To: seg.To})
	}
	if err := s.scanEvents(ctx, covered, oldest, &out); err != nil {
		return Rebuilt{}, err
	}
	slices.SortStableFunc(out.Entries, func(a, b Entry) int { return int(a.Offset - b.Offset) })
	out.Entries = slices.CompactFunc(out.Entries, func(a, b Entry) bool { return a.Offset == b.Offset })
	if over := len(out.Entries) - s.Max; over > 0 {
		out.Entries = out.Entries[over:]
	}
	out.Next = covered
	return out, nil
}

// errFound ends a scan that was after one record.
var errFound = errors.New("found")

// reachSlack is for clocks of producers that differ: records are in the order of their arrival,
// and not of their time.
const reachSlack = time.Minute

// reach is the time from which the window looks back: that of the first record behind the
// watermark, which may have waited there for hours, or now if there is none.
func (s Source) reach(ctx context.Context) (time.Time, error) {
	at := time.Now()
	end, err := scan.End(ctx, s.Client, s.Events, s.Partition, false)
	if err != nil {
		return at, fmt.Errorf("find end of %s/%d: %w", s.Events, s.Partition, err)
	}
	_, err = scan.Range(ctx, s.Client, scan.Spec{Topic: s.Events, Partition: s.Partition, From: s.Watermark, Until: end}, func(r *kgo.Record) error {
		if t := r.Timestamp.Add(-reachSlack); r.Timestamp.UnixMilli() > 0 && t.Before(at) {
			at = t
		}
		return errFound
	})
	var gone *scan.OutOfRangeError
	if err != nil && !errors.Is(err, errFound) && !(errors.As(err, &gone) && gone.Below()) {
		return at, fmt.Errorf("read %s/%d at its watermark: %w", s.Events, s.Partition, err)
	}
	return at, nil
}

// offsetAt returns the first offset of events whose record is younger than at, or the
// watermark when there is none below it.
func (s Source) offsetAt(ctx context.Context, at time.Time) (int64, error) {
	listed, err := kadm.NewClient(s.Client).ListOffsetsAfterMilli(ctx, at.UnixMilli(), s.Events)
	o, ok := listed.Lookup(s.Events, s.Partition)
	switch { // the request asks for all partitions: a fault of another one is not ours
	case ok && o.Err == nil:
	case ok:
		return 0, fmt.Errorf("find offset of %s/%d by time: %w", s.Events, s.Partition, o.Err)
	case err != nil:
		return 0, fmt.Errorf("find offset of %s/%d by time: %w", s.Events, s.Partition, err)
	default:
		return 0, fmt.Errorf("find offset of %s/%d by time: no answer", s.Events, s.Partition)
	}
	return min(o.Offset, s.Watermark), nil
}

func (s Source) segments(ctx context.Context) ([]Segment, error) {
	start, err := scan.Start(ctx, s.Client, s.Dedupe, s.Partition)
	if err != nil {
		return nil, fmt.Errorf("find start of %s/%d: %w", s.Dedupe, s.Partition, err)
	}
	end, err := scan.End(ctx, s.Client, s.Dedupe, s.Partition, true)
	if err != nil {
		return nil, fmt.Errorf("find end of %s/%d: %w", s.Dedupe, s.Partition, err)
	}
	by := make(map[string]Segment)
	var order []string // keys as they came, the oldest first
	entries := 0
	_, err = scan.Range(ctx, s.Client, scan.Spec{Topic: s.Dedupe, Partition: s.Partition, From: start, Until: end, ReadCommitted: true},
		func(r *kgo.Record) error {
			seg, err := DecodeSegment(r.Value)
			if r.Value == nil || err != nil {
				entries -= len(by[string(r.Key)].Entries)
				delete(by, string(r.Key))
				return nil //nolint:nilerr // gone or unreadable: that part of events is read instead
			}
			key := string(r.Key)
			entries += len(seg.Entries) - len(by[key].Entries)
			by[key], order = seg, append(order, key)
			for entries > s.Max+MaxSegment { // the window will not hold them
				if old, ok := by[order[0]]; ok {
					entries -= len(old.Entries)
					old.Entries = nil
					by[order[0]] = old
				}
				order = order[1:]
			}
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read segments of %s/%d: %w", s.Dedupe, s.Partition, err)
	}
	out := make([]Segment, 0, len(by))
	for _, seg := range by {
		out = append(out, seg)
	}
	slices.SortFunc(out, func(a, b Segment) int { return int(a.From - b.From) })
	return out, nil
}

func (s Source) scanEvents(ctx context.Context, from int64, oldest time.Time, out *Rebuilt) error {
	if from >= s.Watermark {
		return nil
	}
	_, err := scan.Range(ctx, s.Client, scan.Spec{Topic: s.Events, Partition: s.Partition, From: from, Until: s.Watermark, ReadCommitted: true},
		func(r *kgo.Record) error {
			ev, err := s.Decode(r)
			if err != nil || !s.Keyed(&ev) || r.Timestamp.Before(oldest) {
				return nil //nolint:nilerr // poison was never in the window
			}
			out.Entries = append(out.Entries, EntryOf(&ev, r))
			if n := len(out.Entries); n > 2*s.Max+MaxSegment {
				out.Entries = append(out.Entries[:0], out.Entries[n-s.Max:]...)
			}
			return nil
		})
	var gone *scan.OutOfRangeError
	if errors.As(err, &gone) && gone.Below() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s/%d for its window: %w", s.Events, s.Partition, err)
	}
	return nil
}

// EntryOf is the window's view of the event of a record. Its age is that of the record: a Kafka
// producer may say that its events were accepted long ago, and still repeat them now. The id of a
// feedback event covers all of it but the time, which differs in a repeat: that is no conflict.
func EntryOf(ev *event.Event, r *kgo.Record) Entry {
	e := Entry{ID: IdentityOf(ev.Tenant, ev.Source, ev.ID), Offset: r.Offset, AtMs: r.Timestamp.UnixMilli()}
	if !ev.IsFeedback() {
		e.Hash = event.BodyHash(ev.Body)
	}
	return e
}
