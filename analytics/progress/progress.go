package progress

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Offsets are positions by topic and partition.
type Offsets map[string]map[int32]int64

// At returns the position of a partition, or other when there is none.
func (o Offsets) At(topic string, partition int32, other int64) int64 {
	if at, ok := o[topic][partition]; ok {
		return at
	}
	return other
}

func (o Offsets) set(topic string, partition int32, at int64) {
	if o[topic] == nil {
		o[topic] = map[int32]int64{}
	}
	o[topic][partition] = at
}

// Reader looks at offsets. Safe for concurrent use.
type Reader struct {
	adm  *kadm.Client
	opts []kgo.Opt
}

// NewReader returns a reader that asks over adm; opts are the base options for the clients
// that it makes to read single records.
func NewReader(adm *kadm.Client, opts []kgo.Opt) *Reader { return &Reader{adm: adm, opts: opts} }

// Committed returns what a group has committed. A group or partition that never committed is
// not in the answer.
func (r *Reader) Committed(ctx context.Context, group string) (Offsets, error) {
	resp, err := r.adm.FetchOffsets(ctx, group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return Offsets{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("fetch offsets of %s: %w", group, err)
	}
	out := Offsets{}
	for topic, ps := range resp {
		for p, o := range ps {
			if o.Err != nil {
				return nil, fmt.Errorf("fetch offset of %s for %s/%d: %w", group, topic, p, o.Err)
			}
			if o.At >= 0 {
				out.set(topic, p, o.At)
			}
		}
	}
	return out, nil
}

// Ends returns where the logs of topics end.
func (r *Reader) Ends(ctx context.Context, topics ...string) (Offsets, error) {
	return listed(r.adm.ListEndOffsets(ctx, topics...))
}

// Starts returns where the logs of topics start.
func (r *Reader) Starts(ctx context.Context, topics ...string) (Offsets, error) {
	return listed(r.adm.ListStartOffsets(ctx, topics...))
}

func listed(list kadm.ListedOffsets, err error) (Offsets, error) {
	if err == nil {
		err = list.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list offsets: %w", err)
	}
	out := Offsets{}
	list.Each(func(o kadm.ListedOffset) { out.set(o.Topic, o.Partition, o.Offset) })
	return out, nil
}

// Open returns, for each partition of topics that a group has not read to its end, the first
// offset that it has not finished. The commits are looked at before the ends.
func (r *Reader) Open(ctx context.Context, group string, topics ...string) (Offsets, error) {
	committed, err := r.Committed(ctx, group)
	if err != nil {
		return nil, err
	}
	starts, err := r.Starts(ctx, topics...)
	if err != nil {
		return nil, err
	}
	ends, err := r.Ends(ctx, topics...)
	if err != nil {
		return nil, err
	}
	out := Offsets{}
	for topic, ps := range ends {
		for p, end := range ps {
			if at := max(committed.At(topic, p, 0), starts.At(topic, p, 0)); at < end {
				out.set(topic, p, at)
			}
		}
	}
	return out, nil
}
