package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event/scan"
	"github.com/hookline/hookline/retrytiers/tier"
)

// Bounds of one list request. A filter that matches little ends at them with a cursor that
// goes on, so that one request costs the process and the brokers a known amount.
const (
	deadChunk      = 500              // records read at once from one partition
	deadScanMost   = 50_000           // records a request
	deadScanTime   = 5 * time.Second  // a request
	deadClockSlack = 10 * time.Minute // how far the clocks of two dispatchers may differ
)

// deadReader lists dead letters newest first by reading the topic backwards in chunks.
type deadReader struct {
	cl    *kgo.Client
	adm   *kadm.Client
	topic string
}

func newDeadReader(cl *kgo.Client, prefix string) *deadReader {
	return &deadReader{cl: cl, adm: kadm.NewClient(cl), topic: tier.DeadTopic(1).Name(prefix)}
}

// deadPage is one page of a list.
type deadPage struct {
	Items     []*tier.DeadLetter `json:"items"`
	Next      string             `json:"next"`      // cursor; "" = that was all
	Scanned   int                `json:"scanned"`   // records looked at for this page
	Truncated bool               `json:"truncated"` // the scan was cut: next goes on
}

// deadStream is one partition read backwards.
type deadStream struct {
	partition int32
	low       int64 // nothing below is wanted
	high      int64 // all from here on has been read
	found     []*tier.DeadLetter
}

func (s *deadStream) done() bool { return s.high <= s.low && len(s.found) == 0 }

// resume is the offset below which the next page of this partition goes on.
func (s *deadStream) resume() int64 {
	if len(s.found) > 0 {
		return s.found[0].Offset + 1
	}
	return s.high
}

func (r *deadReader) list(ctx context.Context, f *deadFilter, from deadCursor, limit int) (*deadPage, error) {
	streams, err := r.streams(ctx, f, from)
	if err != nil {
		return nil, err
	}
	page := &deadPage{Items: []*tier.DeadLetter{}}
	deadline := time.Now().Add(deadScanTime)
	for len(page.Items) < limit {
		newest := (*deadStream)(nil)
		for _, s := range streams {
			for len(s.found) == 0 && s.high > s.low {
				if page.Scanned >= deadScanMost || time.Now().After(deadline) {
					page.Truncated = true
					return page.finish(streams), nil
				}
				n, err := r.readChunk(ctx, s, f)
				if err != nil {
					return nil, err
				}
				page.Scanned += n
			}
			if len(s.found) > 0 && (newest == nil || s.found[0].DeadAt.After(newest.found[0].DeadAt)) {
				newest = s
			}
		}
		if newest == nil {
			break
		}
		page.Items = append(page.Items, newest.found[0])
		newest.found = newest.found[1:]
	}
	return page.finish(streams), nil
}

// finish sets the cursor unless everything was seen.
func (p *deadPage) finish(streams []*deadStream) *deadPage {
	next, more := deadCursor{}, false
	for _, s := range streams {
		next[s.partition] = max(s.resume(), s.low)
		more = more || !s.done()
	}
	if more {
		p.Next = next.String()
	}
	return p
}

// streams finds the bounds of each partition.
func (r *deadReader) streams(ctx context.Context, f *deadFilter, from deadCursor) ([]*deadStream, error) {
	starts, err := r.adm.ListStartOffsets(ctx, r.topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list start offsets of %s: %w", r.topic, err)
	}
	ends, err := r.adm.ListEndOffsets(ctx, r.topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list end offsets of %s: %w", r.topic, err)
	}
	var since, until kadm.ListedOffsets
	if !f.Since.IsZero() {
		// The first record at or after the time, exactly: none before it can match.
		if since, err = r.after(ctx, f.Since); err != nil {
			return nil, err
		}
	}
	if !f.Until.IsZero() {
		// With slack, since a later record may carry an earlier time of another clock.
		if until, err = r.after(ctx, f.Until.Add(deadClockSlack)); err != nil {
			return nil, err
		}
	}
	var out []*deadStream
	for partition, start := range starts[r.topic] {
		s := &deadStream{partition: partition, low: start.Offset, high: ends[r.topic][partition].Offset}
		if o, ok := since.Lookup(r.topic, partition); ok && o.Offset >= 0 {
			s.low = max(s.low, o.Offset)
		}
		if o, ok := until.Lookup(r.topic, partition); ok && o.Offset >= 0 {
			s.high = min(s.high, o.Offset)
		}
		if high, ok := from[partition]; ok {
			s.high = min(s.high, high)
		}
		out = append(out, s)
	}
	return out, nil
}

func (r *deadReader) after(ctx context.Context, t time.Time) (kadm.ListedOffsets, error) {
	listed, err := r.adm.ListOffsetsAfterMilli(ctx, t.UnixMilli(), r.topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list offsets of %s by time: %w", r.topic, err)
	}
	return listed, nil
}

// readChunk reads the newest unread records of s and keeps those that match, newest first.
func (r *deadReader) readChunk(ctx context.Context, s *deadStream, f *deadFilter) (int, error) {
	low := max(s.low, s.high-deadChunk)
	var kept []*tier.DeadLetter
	n := 0
	_, err := scan.Range(ctx, r.cl, scan.Spec{Topic: r.topic, Partition: s.partition, From: low, Until: s.high}, func(rec *kgo.Record) error {
		n++
		d := tier.DecodeDead(rec)
		if f.matches(&d) {
			// A list shows neither: the bytes of a chunk need not stay in memory for it.
			d.Key, d.Value, d.Headers = nil, nil, nil
			kept = append(kept, &d)
		}
		return nil
	})
	if gone, ok := errors.AsType[*scan.OutOfRangeError](err); ok && gone.Below() {
		s.low, err = max(s.low, gone.Start), nil // retention was faster
	}
	if err != nil {
		return n, fmt.Errorf("read %s/%d from %d to %d: %w", r.topic, s.partition, low, s.high, err)
	}
	s.high = low
	for i := len(kept) - 1; i >= 0; i-- {
		s.found = append(s.found, kept[i])
	}
	return max(n, 1), nil
}

// get returns one letter with its body.
func (r *deadReader) get(ctx context.Context, partition int32, offset int64) (*tier.DeadLetter, error) {
	missing := refuse(http.StatusNotFound, "not_found", "there is no dead letter %d/%d; it may have left the log", partition, offset)
	starts, err := r.adm.ListStartOffsets(ctx, r.topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list start offsets of %s: %w", r.topic, err)
	}
	start, ok := starts.Lookup(r.topic, partition)
	if !ok || offset < start.Offset {
		return nil, missing
	}
	end, err := scan.End(ctx, r.cl, r.topic, partition, false)
	if err != nil {
		return nil, fmt.Errorf("look up end of %s/%d: %w", r.topic, partition, err)
	}
	if offset >= end {
		return nil, missing
	}
	var found *tier.DeadLetter
	_, err = scan.Range(ctx, r.cl, scan.Spec{Topic: r.topic, Partition: partition, From: offset, Until: offset + 1}, func(rec *kgo.Record) error {
		d := tier.DecodeDead(rec)
		found = &d
		return nil
	})
	if gone, ok := errors.AsType[*scan.OutOfRangeError](err); ok && gone.Below() {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s/%d at %d: %w", r.topic, partition, offset, err)
	}
	if found == nil {
		return nil, missing
	}
	return found, nil
}
