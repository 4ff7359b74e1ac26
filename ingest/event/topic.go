package event

import "github.com/twmb/franz-go/pkg/kgo"

// Topic is the specification of one Kafka topic. The leaf that owns the topic is the only
// place that spells its suffix; the full name is prefix + suffix.
type Topic struct {
	Suffix     string
	Partitions int32
	// Configs are topic-level Kafka settings, for example cleanup.policy. They are what
	// "topics create" sets and what "topics verify" compares.
	Configs map[string]string
}

// Name returns the topic's full name under the deployment's prefix ("hookline." by default).
func (t Topic) Name(prefix string) string { return prefix + t.Suffix }

// DefaultPrefix is the topic prefix of a deployment that sets none.
const DefaultPrefix = "hookline."

// EventsSuffix names the topic of accepted events.
const EventsSuffix = "events"

// EventsTopic is the topic of accepted facts. Its partition count never changes in place:
// growing it would move message ids to other partitions and break their order.
func EventsTopic(partitions int32) Topic {
	return Topic{Suffix: EventsSuffix, Partitions: partitions, Configs: map[string]string{
		"cleanup.policy":    "delete",
		"retention.ms":      "259200000", // 72 h
		"max.message.bytes": "1048588",
	}}
}

var javaPartitioner = kgo.StickyKeyPartitioner(nil)

// Partition maps a message id to its partition exactly as Java's default partitioner does
// (murmur2, sign bit cleared, modulo), so that any Kafka producer lands in the same place.
// An empty message id is a caller's bug: Java would pick at random.
func Partition(messageID string, partitions int32) int32 {
	return int32(javaPartitioner.ForTopic("").Partition(&kgo.Record{Key: []byte(messageID)}, int(partitions)))
}
