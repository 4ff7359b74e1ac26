package tier

// Header names that a delivery carries once it waits, is due or is dead, beside the
// headers of its event. They are replaced on each hop, never appended.
const (
	HeaderEndpoint = "hl_endpoint"
	HeaderAttempt  = "hl_attempt"
	HeaderParks    = "hl_parks"
	HeaderDueMs    = "hl_due_ms"
	HeaderOrig     = "hl_orig"
	HeaderSeq      = "hl_seq"
	HeaderFirstMs  = "hl_first_ms"
	HeaderStatus   = "hl_status"
	HeaderError    = "hl_error"
	HeaderReason   = "hl_reason"
	HeaderReplay   = "hl_replay"
	HeaderTier     = "hl_tier"
	HeaderFanOut   = "hl_deliveries"
)

// Orig is where an event was first appended: the identity of its place in the order of
// its message id. Text form: TOPIC-ID(base64 url, no padding):PARTITION:OFFSET.
type Orig struct {
	TopicID   [16]byte
	Partition int32
	Offset    int64
}

// Ticket is what a delivery knows beyond its event: which endpoint it is owed to and how
// far it has come.
type Ticket struct {
	Endpoint string
	Attempt  int    // attempts made so far; the next POST says Webhook-Attempt: Attempt+1
	Parks    int    // times it was parked without an attempt
	DueMs    int64  // earliest instant of the next attempt, Unix milliseconds
	Orig     Orig   // where its event lies in the events topic
	Seq      uint64 // Webhook-Sequence, computed once at the first read
	FirstMs  int64  // start of the delivery (first handling), Unix milliseconds; max_age counts from it
	Status   int    // last HTTP status, 0 = none
	Error    string // last error: a class and a bounded text without URL path or query
	Reason   Reason // why it is dead; empty otherwise
	Replay   string // replay id; empty = the original chain
	FanOut   int    // endpoints that the event was owed to when it was fanned out; 0 = not told
	Tier     string // suffix of the retry topic it waited in last; empty = none
}
