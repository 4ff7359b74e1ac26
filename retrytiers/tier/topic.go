package tier

import "github.com/hookline/hookline/ingest/event"

// Suffixes of the topics that this leaf specifies.
const (
	DueSuffix           = "due"
	DeadSuffix          = "dead"
	FencesSuffix        = "fences"
	DedupeSuffix        = "dedupe"
	ControlSuffix       = "control"
	EndpointStateSuffix = "endpoint-state"
	AuditSuffix         = "audit"
)

// DeadPartitions is the default partition count of dead.
const DeadPartitions = 12

const (
	weekMs       = "604800000"
	monthMs      = "2592000000"
	yearMs       = "31536000000"
	tenMinutesMs = "600000"
	twoHoursMs   = "7200000"

	// maxMessage is the same for events and for every topic that copies an event, so that a
	// record that was accepted can also be retried: ingest refuses bodies that leave less
	// than event.HeaderRoom below it.
	maxMessage = "1048588"

	// segmentBytes keeps what DeleteRecords gives back close to what it trims: a broker
	// frees whole segments only.
	segmentBytes = "67108864"
)

// retryTopic holds records until they mature. Maturity is counted from the record's
// timestamp, which therefore is the broker's, not that of whoever appended. Trimming deletes;
// the retention is a backstop.
func retryTopic(suffix string, partitions int32) event.Topic {
	return event.Topic{Suffix: suffix, Partitions: partitions, Configs: map[string]string{
		"cleanup.policy":         "delete",
		"message.timestamp.type": "LogAppendTime",
		"retention.ms":           weekMs,
		"segment.bytes":          segmentBytes,
		"max.message.bytes":      maxMessage,
	}}
}

// DueTopic carries deliveries whose time has come back to their lane: partition p belongs to
// the owner of events/p, so it has as many partitions as events. Trimmed; the retention is a
// backstop.
func DueTopic(partitions int32) event.Topic {
	return event.Topic{Suffix: DueSuffix, Partitions: partitions, Configs: map[string]string{
		"cleanup.policy":    "delete",
		"retention.ms":      weekMs,
		"segment.bytes":     segmentBytes,
		"max.message.bytes": maxMessage,
	}}
}

// DeadTopic keeps what ended undelivered until an operator has looked at it.
func DeadTopic(partitions int32) event.Topic {
	return event.Topic{Suffix: DeadSuffix, Partitions: partitions, Configs: map[string]string{
		"cleanup.policy":    "delete",
		"retention.ms":      monthMs,
		"max.message.bytes": maxMessage,
	}}
}

// FencesTopic holds the order of failing keys; co-partitioned with events. It is read to its
// end at every takeover, so it is cleaned early.
func FencesTopic(partitions int32) event.Topic {
	return event.Topic{Suffix: FencesSuffix, Partitions: partitions, Configs: map[string]string{
		"cleanup.policy":            "compact",
		"segment.ms":                tenMinutesMs,
		"min.cleanable.dirty.ratio": "0.1",
		"delete.retention.ms":       twoHoursMs,
	}}
}

// DedupeTopic holds snapshots of the idempotency windows; co-partitioned with events.
func DedupeTopic(partitions int32) event.Topic {
	return event.Topic{Suffix: DedupeSuffix, Partitions: partitions, Configs: map[string]string{
		"cleanup.policy":            "compact",
		"segment.ms":                tenMinutesMs,
		"min.cleanable.dirty.ratio": "0.1",
		"max.message.bytes":         maxMessage,
	}}
}

// ControlTopic holds what the deployment has decided once: sequence bases, the ladder,
// replay jobs and their checkpoints. One partition, so that it has one order.
func ControlTopic() event.Topic {
	return event.Topic{Suffix: ControlSuffix, Partitions: 1, Configs: map[string]string{
		"cleanup.policy":    "compact",
		"max.message.bytes": maxMessage,
	}}
}

// EndpointStateTopic spreads breaker changes over the fleet. Advisory: a stale state may
// delay a delivery, never drop it.
func EndpointStateTopic() event.Topic {
	return event.Topic{Suffix: EndpointStateSuffix, Partitions: 1, Configs: map[string]string{
		"cleanup.policy": "compact",
		"segment.ms":     tenMinutesMs,
	}}
}

// AuditTopic says who changed what, for a year.
func AuditTopic() event.Topic {
	return event.Topic{Suffix: AuditSuffix, Partitions: 1, Configs: map[string]string{
		"cleanup.policy": "delete",
		"retention.ms":   yearMs,
	}}
}

// Topics returns every topic that this leaf specifies, for a deployment whose events topic
// has the given number of partitions.
func Topics(l Ladder, events int32) []event.Topic {
	return append(l.Topics(),
		DueTopic(events),
		DeadTopic(DeadPartitions),
		FencesTopic(events),
		DedupeTopic(events),
		ControlTopic(),
		EndpointStateTopic(),
		AuditTopic(),
	)
}
