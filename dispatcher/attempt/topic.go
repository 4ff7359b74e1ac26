package attempt

import "github.com/hookline/hookline/ingest/event"

// Suffix names the attempts topic.
const Suffix = "attempts"

// DefaultPartitions is the partition count of a new deployment.
const DefaultPartitions = 8

// Topic is the attempts topic.
func Topic(partitions int32) event.Topic {
	return event.Topic{Suffix: Suffix, Partitions: partitions, Configs: map[string]string{
		"cleanup.policy": "delete",
		"retention.ms":   "259200000", // 72 h: how long ClickHouse may be away
	}}
}

// PartitionFor maps a partition of the events topic to the one of n partitions of the
// attempts topic that holds all rows of its lane.
func PartitionFor(eventsPartition, n int32) int32 { return eventsPartition % n }
