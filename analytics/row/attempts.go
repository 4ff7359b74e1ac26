package row

import "github.com/hookline/hookline/analytics/clickhouse"

// Attempt is one attempt, park or routing verdict, as values of the table. Times are Unix milliseconds.
type Attempt struct {
	AttemptedMs   int64
	OccurredMs    int64
	AcceptedMs    int64
	Tenant        string
	Endpoint      string
	EventType     string
	Source        string
	EventID       string
	MessageID     string
	Sequence      uint64
	Attempt       uint16
	MaxAttempts   uint16
	Parks         uint16
	Deliveries    uint16
	Tier          string
	Trigger       int8
	Outcome       int8
	StatusCode    uint16
	ErrorClass    string
	QueueWaitUs   uint64
	DNSUs         uint32
	ConnectUs     uint32
	TLSUs         uint32
	TTFBUs        uint32
	TotalUs       uint32
	ConnReused    bool
	HTTPVersion   string
	RequestBytes  uint32
	ResponseBytes uint32
	Circuit       int8
	NextRetryMs   int64
	DueErrorMs    int32
	Worker        string
	Partition     uint16
	Offset        uint64
}

// Attempts is a block of attempts.
type Attempts struct {
	block

	attemptedMs   []int64
	occurredMs    []int64
	acceptedMs    []int64
	tenant        []string
	endpoint      []string
	eventType     []string
	source        []string
	eventID       []string
	messageID     []string
	sequence      []uint64
	attempt       []uint16
	maxAttempts   []uint16
	parks         []uint16
	deliveries    []uint16
	tier          []string
	trigger       []int8
	outcome       []int8
	statusCode    []uint16
	errorClass    []string
	queueWaitUs   []uint64
	dNSUs         []uint32
	connectUs     []uint32
	tLSUs         []uint32
	tTFBUs        []uint32
	totalUs       []uint32
	connReused    []bool
	hTTPVersion   []string
	requestBytes  []uint32
	responseBytes []uint32
	circuit       []int8
	nextRetryMs   []int64
	dueErrorMs    []int32
	worker        []string
	partition     []uint16
	offset        []uint64
}

// Table implements clickhouse.Block.
func (*Attempts) Table() string { return "attempts" }

// Append adds a row; the strings of r are copied.
func (b *Attempts) Append(r *Attempt) {
	b.count(r.AttemptedMs, 122, 264)
	b.attemptedMs = append(b.attemptedMs, r.AttemptedMs)
	b.occurredMs = append(b.occurredMs, r.OccurredMs)
	b.acceptedMs = append(b.acceptedMs, r.AcceptedMs)
	b.tenant = append(b.tenant, b.word(r.Tenant))
	b.endpoint = append(b.endpoint, b.word(r.Endpoint))
	b.eventType = append(b.eventType, b.word(r.EventType))
	b.source = append(b.source, b.word(r.Source))
	b.eventID = append(b.eventID, b.text(r.EventID))
	b.messageID = append(b.messageID, b.text(r.MessageID))
	b.sequence = append(b.sequence, r.Sequence)
	b.attempt = append(b.attempt, r.Attempt)
	b.maxAttempts = append(b.maxAttempts, r.MaxAttempts)
	b.parks = append(b.parks, r.Parks)
	b.deliveries = append(b.deliveries, r.Deliveries)
	b.tier = append(b.tier, b.word(r.Tier))
	b.trigger = append(b.trigger, r.Trigger)
	b.outcome = append(b.outcome, r.Outcome)
	b.statusCode = append(b.statusCode, r.StatusCode)
	b.errorClass = append(b.errorClass, b.word(r.ErrorClass))
	b.queueWaitUs = append(b.queueWaitUs, r.QueueWaitUs)
	b.dNSUs = append(b.dNSUs, r.DNSUs)
	b.connectUs = append(b.connectUs, r.ConnectUs)
	b.tLSUs = append(b.tLSUs, r.TLSUs)
	b.tTFBUs = append(b.tTFBUs, r.TTFBUs)
	b.totalUs = append(b.totalUs, r.TotalUs)
	b.connReused = append(b.connReused, r.ConnReused)
	b.hTTPVersion = append(b.hTTPVersion, b.word(r.HTTPVersion))
	b.requestBytes = append(b.requestBytes, r.RequestBytes)
	b.responseBytes = append(b.responseBytes, r.ResponseBytes)
	b.circuit = append(b.circuit, r.Circuit)
	b.nextRetryMs = append(b.nextRetryMs, r.NextRetryMs)
	b.dueErrorMs = append(b.dueErrorMs, r.DueErrorMs)
	b.worker = append(b.worker, b.word(r.Worker))
	b.partition = append(b.partition, r.Partition)
	b.offset = append(b.offset, r.Offset)
}

// Columns implements clickhouse.Block.
func (b *Attempts) Columns() []clickhouse.Column {
	return []clickhouse.Column{
		{Name: "attempted_at", Type: timeType, Values: b.attemptedMs},
		{Name: "occurred_at", Type: timeType, Values: b.occurredMs},
		{Name: "accepted_at", Type: timeType, Values: b.acceptedMs},
		{Name: "tenant_id", Type: wordType, Values: b.tenant},
		{Name: "endpoint_id", Type: wordType, Values: b.endpoint},
		{Name: "event_type", Type: wordType, Values: b.eventType},
		{Name: "source", Type: wordType, Values: b.source},
		{Name: "event_id", Type: "String", Values: b.eventID},
		{Name: "message_id", Type: "String", Values: b.messageID},
		{Name: "sequence", Type: "UInt64", Values: b.sequence},
		{Name: "attempt", Type: "UInt16", Values: b.attempt},
		{Name: "max_attempts", Type: "UInt16", Values: b.maxAttempts},
		{Name: "parks", Type: "UInt16", Values: b.parks},
		{Name: "deliveries", Type: "UInt16", Values: b.deliveries},
		{Name: "tier", Type: wordType, Values: b.tier},
		{Name: "trigger", Type: "Enum8('auto' = 1, 'replay' = 2, 'test' = 3, 'probe' = 4)", Values: b.trigger},
		{Name: "outcome", Type: "Enum8('delivered' = 1, 'retry' = 2, 'parked' = 3, 'dead' = 4, 'dropped' = 5, 'unrouted' = 6)", Values: b.outcome},
		{Name: "status_code", Type: "UInt16", Values: b.statusCode},
		{Name: "error_class", Type: wordType, Values: b.errorClass},
		{Name: "queue_wait_us", Type: "UInt64", Values: b.queueWaitUs},
		{Name: "dns_us", Type: "UInt32", Values: b.dNSUs},
		{Name: "connect_us", Type: "UInt32", Values: b.connectUs},
		{Name: "tls_us", Type: "UInt32", Values: b.tLSUs},
		{Name: "ttfb_us", Type: "UInt32", Values: b.tTFBUs},
		{Name: "total_us", Type: "UInt32", Values: b.totalUs},
		{Name: "conn_reused", Type: "Bool", Values: b.connReused},
		{Name: "http_version", Type: wordType, Values: b.hTTPVersion},
		{Name: "request_bytes", Type: "UInt32", Values: b.requestBytes},
		{Name: "response_bytes", Type: "UInt32", Values: b.responseBytes},
		{Name: "circuit", Type: "Enum8('closed' = 1, 'open' = 2, 'half_open' = 3)", Values: b.circuit},
		{Name: "next_retry_at", Type: timeType, Values: b.nextRetryMs},
		{Name: "due_error_ms", Type: "Int32", Values: b.dueErrorMs},
		{Name: "worker", Type: wordType, Values: b.worker},
		{Name: "src_partition", Type: "UInt16", Values: b.partition},
		{Name: "src_offset", Type: "UInt64", Values: b.offset},
	}
}

// Reset implements Block.
func (b *Attempts) Reset() {
	b.reset()
	b.attemptedMs = b.attemptedMs[:0]
	b.occurredMs = b.occurredMs[:0]
	b.acceptedMs = b.acceptedMs[:0]
	b.tenant = b.tenant[:0]
	b.endpoint = b.endpoint[:0]
	b.eventType = b.eventType[:0]
	b.source = b.source[:0]
	b.eventID = b.eventID[:0]
	b.messageID = b.messageID[:0]
	b.sequence = b.sequence[:0]
	b.attempt = b.attempt[:0]
	b.maxAttempts = b.maxAttempts[:0]
	b.parks = b.parks[:0]
	b.deliveries = b.deliveries[:0]
	b.tier = b.tier[:0]
	b.trigger = b.trigger[:0]
	b.outcome = b.outcome[:0]
	b.statusCode = b.statusCode[:0]
	b.errorClass = b.errorClass[:0]
	b.queueWaitUs = b.queueWaitUs[:0]
	b.dNSUs = b.dNSUs[:0]
	b.connectUs = b.connectUs[:0]
	b.tLSUs = b.tLSUs[:0]
	b.tTFBUs = b.tTFBUs[:0]
	b.totalUs = b.totalUs[:0]
	b.connReused = b.connReused[:0]
	b.hTTPVersion = b.hTTPVersion[:0]
	b.requestBytes = b.requestBytes[:0]
	b.responseBytes = b.responseBytes[:0]
	b.circuit = b.circuit[:0]
	b.nextRetryMs = b.nextRetryMs[:0]
	b.dueErrorMs = b.dueErrorMs[:0]
	b.worker = b.worker[:0]
	b.partition = b.partition[:0]
	b.offset = b.offset[:0]
}
