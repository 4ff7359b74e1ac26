package local

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// MaxCommitMetadata is Kafka's default of offset.metadata.max.bytes.
const MaxCommitMetadata = 4096

// GuardCommits makes the cluster refuse commit metadata that a Kafka broker would refuse.
// Kafka stores the other partitions of such a request, here the whole request fails: it is a
// bug of the caller either way.
func GuardCommits(c *kfake.Cluster) {
	c.ControlKey(int16(kmsg.OffsetCommit), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.OffsetCommitRequest)
		if !overlong(req) {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewOffsetCommitResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetCommitResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, kerr.OffsetMetadataTooLarge.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
}

func overlong(req *kmsg.OffsetCommitRequest) bool {
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if p.Metadata != nil && len(*p.Metadata) > MaxCommitMetadata {
				return true
			}
		}
	}
	return false
}

// guardTrims keeps every partition's last record, whoever asks for its deletion: an emptied
// partition has no file left that says where its offsets were, and starts again at zero with
// the next start of the broker, even after a clean stop.
func guardTrims(c *kfake.Cluster) {
	c.ControlKey(int16(kmsg.DeleteRecords), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.DeleteRecordsRequest)
		for i := range req.Topics {
			t := &req.Topics[i]
			for j := range t.Partitions {
				p := &t.Partitions[j]
				info := c.PartitionInfo(t.Topic, p.Partition)
				if info == nil || info.HighWatermark == info.LogStartOffset {
					continue
				}
				if p.Offset == -1 || p.Offset == info.HighWatermark {
					p.Offset = info.HighWatermark - 1
				}
			}
		}
		return nil, nil, false
	})
}
