package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// eventLog reads a topic between two points, so that what was accepted is looked up where it
// was promised to be.
type eventLog struct {
	topic string
	opts  []kgo.Opt
	cl    *kgo.Client
	adm   *kadm.Client
}

func openLog(opts []kgo.Opt, topic string) (*eventLog, error) {
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("read back %s: %w", topic, err)
	}
	return &eventLog{topic: topic, opts: opts, cl: cl, adm: kadm.NewClient(cl)}, nil
}

func (l *eventLog) close() { l.cl.Close() }

// ends returns the next offset of each partition.
func (l *eventLog) ends(ctx context.Context) (map[int32]int64, error) {
	listed, err := l.adm.ListEndOffsets(ctx, l.topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("read ends of %s: %w", l.topic, err)
	}
	out := map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) { out[o.Partition] = o.Offset })
	if len(out) == 0 {
		return nil, fmt.Errorf("read ends of %s: the topic has no partitions", l.topic)
	}
	return out, nil
}

// readTimeout is how long nothing may arrive.
const readTimeout = 30 * time.Second

// each calls fn with every record in [from, to).
func (l *eventLog) each(ctx context.Context, from, to map[int32]int64, fn func(*kgo.Record)) error {
	offsets, left := map[int32]kgo.Offset{}, 0
	for p, end := range to {
		if at := from[p]; at < end {
			offsets[p] = kgo.NewOffset().At(at)
			left++
		}
	}
	if left == 0 {
		return nil
	}
	cl, err := kgo.NewClient(append(append([]kgo.Opt{}, l.opts...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.topic: offsets}),
		kgo.FetchMaxWait(100*time.Millisecond), kgo.FetchMaxPartitionBytes(8<<20))...)
	if err != nil {
		return fmt.Errorf("read back %s: %w", l.topic, err)
	}
	defer cl.Close()
	for left > 0 {
		poll, cancel := context.WithTimeout(ctx, readTimeout)
		fetches := cl.PollFetches(poll)
		cancel()
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read back %s: %w", l.topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset >= to[r.Partition] {
				return
			}
			fn(r)
			if r.Offset == to[r.Partition]-1 {
				left--
			}
		})
	}
	return nil
}

// trim deletes what lies before to: a run writes a good part of a gigabyte a second, and
// what was checked is of no more use.
func (l *eventLog) trim(ctx context.Context, to map[int32]int64) error {
	offsets := kadm.Offsets{}
	for p, at := range to {
		offsets.AddOffset(l.topic, p, at, -1)
	}
	done, err := l.adm.DeleteRecords(ctx, offsets)
	if err == nil {
		err = done.Error()
	}
	if err != nil {
		return fmt.Errorf("trim %s: %w", l.topic, err)
	}
	return nil
}
