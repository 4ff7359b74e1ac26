package table

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event/scan"
)

// Entry is the newest record of a key.
type Entry struct {
	Value  []byte // never nil; shared, must not be written to
	Offset int64  // of the record that set it: grows with every change of the key
}

// View is the state of the table at one position of its topic. Not safe for concurrent use.
type View struct {
	entries map[string]Entry
}

func newView() View { return View{entries: make(map[string]Entry)} }

// Get returns the entry of key.
func (v View) Get(key string) (Entry, bool) {
	e, ok := v.entries[key]
	return e, ok
}

// Len returns the number of keys.
func (v View) Len() int { return len(v.entries) }

// Each calls fn for every key, in no order, until it returns false.
func (v View) Each(fn func(key string, e Entry) bool) {
	for k, e := range v.entries {
		if !fn(k, e) {
			return
		}
	}
}

// apply takes one record. Key and value are copied: they share the memory of a whole fetch.
func (v View) apply(r *kgo.Record) (key string, value []byte) {
	key = string(r.Key)
	if r.Value == nil {
		delete(v.entries, key)
		return key, nil
	}
	value = append(make([]byte, 0, len(r.Value)), r.Value...)
	v.entries[key] = Entry{Value: value, Offset: r.Offset}
	return key, value
}

// same reports whether a and b are one record's.
func (e Entry) same(b Entry) bool { return e.Offset == b.Offset && bytes.Equal(e.Value, b.Value) }

// load reads the topic from its start to its end. each, if not nil, sees every record.
func load(ctx context.Context, cl *kgo.Client, topic string, each func(*kgo.Record)) (View, *scan.Tail, error) {
	for {
		start, err := scan.Start(ctx, cl, topic, 0)
		if err != nil {
			return View{}, nil, err
		}
		view, tail := newView(), scan.NewTail(cl, topic, 0, start, true)
		for {
			recs, next, end, err := tail.Next(ctx, pollWait)
			if startMoved(err) {
				break // compaction on kfake moves the start: once more from the new one
			}
			if err != nil {
				return View{}, nil, err
			}
			for _, r := range recs {
				view.apply(r)
				if each != nil {
					each(r)
				}
			}
			if next >= end {
				return view, tail, nil
			}
		}
	}
}

// startMoved reports whether records at the position are gone. What is gone from a compacted
// topic was superseded or is an expired tombstone, so only a new load is right after it.
func startMoved(err error) bool {
	var oor *scan.OutOfRangeError
	return errors.As(err, &oor) && oor.Below()
}

// stale reports whether tombstones may have come and gone between two answers. It looks at
// the wall clock too, because the monotonic one stands still while a machine sleeps.
func stale(before, after time.Time) bool {
	return after.Sub(before) > maxGap || after.Round(0).Sub(before.Round(0)) > maxGap
}
