package event

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

// GroupName is the name of the consumer group of a role, for example "hookline.dispatcher".
func GroupName(prefix, role string) string { return prefix + role }

// Partition maps a message id to its partition exactly as Java's default partitioner does
// (murmur2, sign bit cleared, modulo), so that any Kafka producer lands in the same place.
// An empty message id is a caller's bug: Java would pick at random.
func Partition(messageID string, partitions int32) int32 {
	return int32(murmur2(messageID)&0x7fffffff) % partitions
}

// murmur2 is the hash of the Java client (org.apache.kafka.common.utils.Utils). kgo has the
// same one, but reaches it only through a record per call, and this runs for every record
// that a dispatcher reads.
func murmur2(s string) uint32 {
	const (
		m = 0x5bd1e995
		r = 24
	)
	h := uint32(0x9747b28c) ^ uint32(len(s))
	for ; len(s) >= 4; s = s[4:] {
		k := uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
		k *= m
		k ^= k >> r
		k *= m
		h *= m
		h ^= k
	}
	switch len(s) {
	case 3:
		h ^= uint32(s[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(s[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(s[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return h
}
