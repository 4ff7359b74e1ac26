package row

import "github.com/hookline/hookline/analytics/clickhouse"

// DeadLetter is one dead letter, as values of the table. Times are Unix milliseconds.
type DeadLetter struct {
	DeadMs     int64
	FirstMs    int64
	Tenant     string
	Endpoint   string
	EventType  string
	EventID    string
	MessageID  string
	Reason     string
	Attempts   uint16
	LastStatus uint16
	ErrorClass string
	Partition  uint16
	Offset     uint64
	State      int8
	StateBy    string
	Version    uint64
}

// DeadLetters is a block of dead_letters.
type DeadLetters struct {
	block

	deadMs     []int64
	firstMs    []int64
	tenant     []string
	endpoint   []string
	eventType  []string
	eventID    []string
	messageID  []string
	reason     []string
	attempts   []uint16
	lastStatus []uint16
	errorClass []string
	partition  []uint16
	offset     []uint64
	state      []int8
	stateBy    []string
	version    []uint64
}

// Table implements clickhouse.Block.
func (*DeadLetters) Table() string { return "dead_letters" }

// Append adds a row; the strings of r are copied.
func (b *DeadLetters) Append(r *DeadLetter) {
	b.count(r.DeadMs, 52, 167)
	b.deadMs = append(b.deadMs, r.DeadMs)
	b.firstMs = append(b.firstMs, r.FirstMs)
	b.tenant = append(b.tenant, b.word(r.Tenant))
	b.endpoint = append(b.endpoint, b.word(r.Endpoint))
	b.eventType = append(b.eventType, b.word(r.EventType))
	b.eventID = append(b.eventID, b.text(r.EventID))
	b.messageID = append(b.messageID, b.text(r.MessageID))
	b.reason = append(b.reason, b.word(r.Reason))
	b.attempts = append(b.attempts, r.Attempts)
	b.lastStatus = append(b.lastStatus, r.LastStatus)
	b.errorClass = append(b.errorClass, b.word(r.ErrorClass))
	b.partition = append(b.partition, r.Partition)
	b.offset = append(b.offset, r.Offset)
	b.state = append(b.state, r.State)
	b.stateBy = append(b.stateBy, b.text(r.StateBy))
	b.version = append(b.version, r.Version)
}

// Columns implements clickhouse.Block.
func (b *DeadLetters) Columns() []clickhouse.Column {
	return []clickhouse.Column{
		{Name: "dead_at", Type: timeType, Values: b.deadMs},
		{Name: "first_at", Type: timeType, Values: b.firstMs},
		{Name: "tenant_id", Type: wordType, Values: b.tenant},
		{Name: "endpoint_id", Type: wordType, Values: b.endpoint},
		{Name: "event_type", Type: wordType, Values: b.eventType},
		{Name: "event_id", Type: "String", Values: b.eventID},
		{Name: "message_id", Type: "String", Values: b.messageID},
		{Name: "reason", Type: wordType, Values: b.reason},
		{Name: "attempts", Type: "UInt16", Values: b.attempts},
		{Name: "last_status", Type: "UInt16", Values: b.lastStatus},
		{Name: "error_class", Type: wordType, Values: b.errorClass},
		{Name: "src_partition", Type: "UInt16", Values: b.partition},
		{Name: "src_offset", Type: "UInt64", Values: b.offset},
		{Name: "state", Type: "Enum8('open' = 1, 'replayed' = 2, 'discarded' = 3)", Values: b.state},
		{Name: "state_by", Type: "String", Values: b.stateBy},
		{Name: "version", Type: "UInt64", Values: b.version},
	}
}

// Reset implements Block.
func (b *DeadLetters) Reset() {
	b.reset()
	b.deadMs = b.deadMs[:0]
	b.firstMs = b.firstMs[:0]
	b.tenant = b.tenant[:0]
	b.endpoint = b.endpoint[:0]
	b.eventType = b.eventType[:0]
	b.eventID = b.eventID[:0]
	b.messageID = b.messageID[:0]
	b.reason = b.reason[:0]
	b.attempts = b.attempts[:0]
	b.lastStatus = b.lastStatus[:0]
	b.errorClass = b.errorClass[:0]
	b.partition = b.partition[:0]
	b.offset = b.offset[:0]
	b.state = b.state[:0]
	b.stateBy = b.stateBy[:0]
	b.version = b.version[:0]
}
