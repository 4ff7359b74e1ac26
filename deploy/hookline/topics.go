package main

import (
	"maps"
	"strconv"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

func defaultLadder() tier.Ladder { return tier.DefaultLadder() }

// topicSpecs assembles every topic of a deployment from the leaves that own them, with the
// settings applied.
func topicSpecs(c *Config) []event.Topic {
	specs := append([]event.Topic{
		event.EventsTopic(c.Topics.Partitions),
		attempt.Topic(c.Topics.AttemptsPartitions),
		endpoint.Topic(),
	}, tier.Topics(c.Retrytiers.Ladder, c.Topics.Partitions)...)
	for i := range specs {
		specs[i] = withSettings(specs[i], &c.Topics)
	}
	return specs
}

// withSettings applies the topic settings to one specification of a leaf.
func withSettings(t event.Topic, c *topicsConfig) event.Topic {
	t.Configs = maps.Clone(t.Configs)
	if t.Suffix == tier.DeadSuffix && c.DeadPartitions > 0 {
		t.Partitions = c.DeadPartitions
	}
	// A topic that carries bodies names the size it must take; others keep the cluster's.
	if _, ok := t.Configs["max.message.bytes"]; ok && c.MaxMessage > 0 {
		t.Configs["max.message.bytes"] = strconv.FormatInt(c.MaxMessage, 10)
	}
	if c.MinInsync > 0 {
		t.Configs["min.insync.replicas"] = strconv.Itoa(c.MinInsync)
	}
	if d, ok := c.Retention[t.Suffix]; ok {
		t.Configs["retention.ms"] = strconv.FormatInt(d.Milliseconds(), 10)
	}
	return t
}

// coPartitioned are the topics that form a lane: partition p of all of them has one owner.
func coPartitioned() []string {
	return []string{event.EventsSuffix, tier.DueSuffix, tier.FencesSuffix, tier.DedupeSuffix}
}
