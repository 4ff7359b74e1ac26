package attempt

// Outcome is the verdict that one row tells.
type Outcome uint8

// Outcomes, numbered as the Enum8 of the ClickHouse column.
const (
	Delivered Outcome = 1
	Retry     Outcome = 2
	Parked    Outcome = 3
	Dead      Outcome = 4
	Dropped   Outcome = 5
	Unrouted  Outcome = 6
)

// Trigger says what caused the attempt, numbered as the ClickHouse column.
type Trigger uint8

// Triggers.
const (
	Auto   Trigger = 1
	Replay Trigger = 2
	Test   Trigger = 3
	Probe  Trigger = 4
)

// Circuit is the breaker's state at the attempt, numbered as the ClickHouse column.
type Circuit uint8

// Circuit states.
const (
	Closed   Circuit = 1
	Open     Circuit = 2
	HalfOpen Circuit = 3
)

// Forwarded is the Reason of the row that ends a record of events which was read in the wrong
// partition: its outcome is Dropped, and the event goes on as a record in the right one.
const Forwarded = "forwarded"

// SourceTopic names the lane topic that the delivery was read from.
type SourceTopic uint8

// Source topics. None means that the row promises nothing about a source position: it
// marks nothing at a takeover.
const (
	SourceNone   SourceTopic = 0
	SourceEvents SourceTopic = 1
	SourceDue    SourceTopic = 2
)

// Position is where the delivery was read. A row that carries one is a promise that the
// retry copy or the dead letter of the delivery, if it needs one, is durable.
type Position struct {
	Topic     SourceTopic
	Partition int32
	Offset    int64
	// Attempt is the number of attempts that the record at this offset had behind it
	// (hl_attempt; 0 for a record of events). With Record.Parks, EventID and ReplayID it
	// tells the record from another one that reuses the offset.
	Attempt uint16
}

// Record is one attempt, park or routing verdict: a row of hookline.attempts and, through
// its Position, a takeover mark. Times are Unix milliseconds, durations microseconds.
type Record struct {
	AttemptedMs int64 // start of the POST, or of the verdict
	OccurredMs  int64 // producer's time; AcceptedMs when it gave none
	AcceptedMs  int64

	Tenant    string
	Endpoint  string // empty for a verdict about the whole event (unrouted, dropped)
	EventType string
	Source    string // hl_source of the event
	EventID   string
	MessageID string
	Worker    string
	ReplayID  string

	Sequence    uint64
	Attempt     uint16 // number of the try this row is about, from 1; 0 for a verdict about the whole event
	MaxAttempts uint16
	Parks       uint16 // parks of the record that was read, before this row
	Deliveries  uint16 // endpoints the event is owed to
	Tier        string // "" = fresh, else the suffix of the tier it came from

	Trigger    Trigger
	Outcome    Outcome
	Circuit    Circuit
	StatusCode uint16
	ErrorClass string // closed vocabulary, empty = none
	Reason     string // tier reason of a dead verdict, Forwarded, else empty

	QueueWaitUs   uint64
	DNSUs         uint32
	ConnectUs     uint32
	TLSUs         uint32
	TTFBUs        uint32
	TotalUs       uint32
	ConnReused    bool
	HTTPVersion   string // "1.1", "2", "" = no response
	RequestBytes  uint32
	ResponseBytes uint32

	NextRetryMs int64 // 0 = none
	DueErrorMs  int32

	Position Position
}
