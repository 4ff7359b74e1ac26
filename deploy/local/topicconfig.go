package local

import (
	"maps"

	"github.com/hookline/hookline/ingest/event"
)

// TopicConfigs returns the topic as the embedded broker must be given it. A deployment that
// runs on it creates and verifies its topics with these; the Janitor gets the original.
func TopicConfigs(t event.Topic) event.Topic {
	configs := maps.Clone(t.Configs)
	if configs == nil {
		configs = make(map[string]string, 3)
	}
	// kfake's retention deletes a partition's last record too, and applies to compacted topics
	// as well. The Janitor does it instead.
	configs["retention.ms"] = "-1"
	configs["retention.bytes"] = "-1"
	if policy, ok := configs["cleanup.policy"]; ok && policy != "delete" {
		configs["cleanup.policy"] = "compact"
	}
	t.Configs = configs
	return t
}
