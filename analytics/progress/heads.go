package progress

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Times are timestamps by topic and partition.
type Times map[string]map[int32]time.Time

// headBytes bounds what is fetched of a partition for its one record.
const headBytes = 64 << 10

// Heads returns the timestamp of the first record at or behind each position. Every position
// must be below the end of its log; one that is trimmed meanwhile moves to the start of it.
func (r *Reader) Heads(ctx context.Context, at Offsets) (Times, error) {
	out, from, missing := Times{}, map[string]map[int32]kgo.Offset{}, 0
	for topic, ps := range at {
		out[topic], from[topic] = map[int32]time.Time{}, map[int32]kgo.Offset{}
		for p, offset := range ps {
			from[topic][p] = kgo.NewOffset().At(offset)
			missing++
		}
	}
	if missing == 0 {
		return out, nil
	}
	opts := append(append([]kgo.Opt{}, r.opts...), kgo.ConsumePartitions(from), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxPartitionBytes(headBytes), kgo.FetchMaxWait(100*time.Millisecond))
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("make kafka client: %w", err)
	}
	defer cl.Close()
	for missing > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, fmt.Errorf("read the first open records: %w", err)
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if _, seen := out[p.Topic][p.Partition]; seen || len(p.Records) == 0 {
				return
			}
			out[p.Topic][p.Partition] = p.Records[0].Timestamp
			missing--
			cl.PauseFetchPartitions(map[string][]int32{p.Topic: {p.Partition}})
		})
	}
	return out, nil
}
