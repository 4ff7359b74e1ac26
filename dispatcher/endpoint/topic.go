package endpoint

import "github.com/hookline/hookline/ingest/event"

// Suffix names the topic of endpoints.
const Suffix = "endpoints"

// Topic is the compacted topic of endpoints. One partition: readers take it as a table and
// its one order is the order of changes.
func Topic() event.Topic {
	return event.Topic{Suffix: Suffix, Partitions: 1, Configs: map[string]string{
		"cleanup.policy":            "compact",
		"min.cleanable.dirty.ratio": "0.1",
		"segment.ms":                "3600000",  // compaction leaves the active segment alone
		"delete.retention.ms":       "86400000", // a reader that starts within a day still sees the tombstone
	}}
}
