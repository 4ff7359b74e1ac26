package row

import "github.com/hookline/hookline/analytics/clickhouse"

// Event is one accepted publish, as values of the table. Times are Unix milliseconds.
type Event struct {
	AcceptedMs int64
	OccurredMs int64
	Tenant     string
	Source     string
	EventType  string
	EventID    string
	MessageID  string
	Schema     string
	Sequence   uint64
	BodyBytes  uint32
	Partition  uint16
	Offset     uint64
}

// Events is a block of events.
type Events struct {
	block

	acceptedMs []int64
	occurredMs []int64
	tenant     []string
	source     []string
	eventType  []string
	eventID    []string
	messageID  []string
	schema     []string
	sequence   []uint64
	bodyBytes  []uint32
	partition  []uint16
	offset     []uint64
}

// Table implements clickhouse.Block.
func (*Events) Table() string { return "events" }

// Append adds a row; the strings of r are copied.
func (b *Events) Append(r *Event) {
	b.count(r.AcceptedMs, 48, 134)
	b.acceptedMs = append(b.acceptedMs, r.AcceptedMs)
	b.occurredMs = append(b.occurredMs, r.OccurredMs)
	b.tenant = append(b.tenant, b.word(r.Tenant))
	b.source = append(b.source, b.word(r.Source))
	b.eventType = append(b.eventType, b.word(r.EventType))
	b.eventID = append(b.eventID, b.text(r.EventID))
	b.messageID = append(b.messageID, b.text(r.MessageID))
	b.schema = append(b.schema, b.word(r.Schema))
	b.sequence = append(b.sequence, r.Sequence)
	b.bodyBytes = append(b.bodyBytes, r.BodyBytes)
	b.partition = append(b.partition, r.Partition)
	b.offset = append(b.offset, r.Offset)
}

// Columns implements clickhouse.Block.
func (b *Events) Columns() []clickhouse.Column {
	return []clickhouse.Column{
		{Name: "accepted_at", Type: timeType, Values: b.acceptedMs},
		{Name: "occurred_at", Type: timeType, Values: b.occurredMs},
		{Name: "tenant_id", Type: wordType, Values: b.tenant},
		{Name: "source", Type: wordType, Values: b.source},
		{Name: "event_type", Type: wordType, Values: b.eventType},
		{Name: "event_id", Type: "String", Values: b.eventID},
		{Name: "message_id", Type: "String", Values: b.messageID},
		{Name: "schema_version", Type: wordType, Values: b.schema},
		{Name: "sequence", Type: "UInt64", Values: b.sequence},
		{Name: "body_bytes", Type: "UInt32", Values: b.bodyBytes},
		{Name: "src_partition", Type: "UInt16", Values: b.partition},
		{Name: "src_offset", Type: "UInt64", Values: b.offset},
	}
}

// Reset implements Block.
func (b *Events) Reset() {
	b.reset()
	b.acceptedMs = b.acceptedMs[:0]
	b.occurredMs = b.occurredMs[:0]
	b.tenant = b.tenant[:0]
	b.source = b.source[:0]
	b.eventType = b.eventType[:0]
	b.eventID = b.eventID[:0]
	b.messageID = b.messageID[:0]
	b.schema = b.schema[:0]
	b.sequence = b.sequence[:0]
	b.bodyBytes = b.bodyBytes[:0]
	b.partition = b.partition[:0]
	b.offset = b.offset[:0]
}
