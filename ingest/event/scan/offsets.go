package scan

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Timestamps with a meaning of their own in ListOffsets.
const (
	latest   = -1
	earliest = -2
)

// End returns the offset behind the last record that may be read: the last stable offset
// with committed, else the high watermark. It waits while a new leader does not know it.
func End(ctx context.Context, cl *kgo.Client, topic string, number int32, committed bool) (int64, error) {
	return newPartition(cl, topic, number, committed).list(ctx, "list end of", latest)
}

// Start returns the first offset of the log.
func Start(ctx context.Context, cl *kgo.Client, topic string, number int32) (int64, error) {
	return newPartition(cl, topic, number, false).list(ctx, "list start of", earliest)
}

func (p *partition) list(ctx context.Context, verb string, timestamp int64) (offset int64, err error) {
	err = p.retry(ctx, verb, func(ctx context.Context) error {
		offset, err = p.listOnce(ctx, timestamp)
		return err
	})
	return offset, err
}

func (p *partition) listOnce(ctx context.Context, timestamp int64) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.IsolationLevel = p.level()
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = p.topic
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition = p.number
	rp.CurrentLeaderEpoch = p.epoch
	rp.Timestamp = timestamp
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)

	kresp, err := p.ask(ctx, 0, req)
	if err != nil {
		return 0, err
	}
	resp, ok := kresp.(*kmsg.ListOffsetsResponse)
	if !ok {
		return 0, errNoAnswer
	}
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			sp := &resp.Topics[i].Partitions[j]
			if resp.Topics[i].Topic != p.topic || sp.Partition != p.number {
				continue
			}
			if err := kerr.ErrorForCode(sp.ErrorCode); err != nil {
				return 0, err
			}
			if sp.Offset < 0 {
				return 0, errNoAnswer
			}
			return sp.Offset, nil
		}
	}
	return 0, errNoAnswer
}
