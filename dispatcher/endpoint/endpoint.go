package endpoint

import "time"

// Ordering modes (DESIGN section 7).
const (
	BestEffort   = "best_effort"
	SelfOrdering = "self_ordering"
	PerKey       = "per_key"
)

// Signature schemes.
const (
	SignatureV1  = "v1"  // HMAC-SHA256
	SignatureV1a = "v1a" // Ed25519
)

// What happens to a delivery while the breaker is open.
const (
	WhenOpenPark = "park"
	WhenOpenFail = "fail"
)

// What a dead letter means for later events of the same message id (per_key only).
const (
	OnDeadContinue = "continue"
	OnDeadStop     = "stop"
)

// Endpoint is one configured destination, in the form of CONTRACT section 4. Durations are
// Go duration strings in JSON and YAML. One that a Snapshot handed out is shared: it must
// not be written to.
type Endpoint struct {
	ID            string            `json:"id"`
	Tenant        string            `json:"tenant"`
	URL           string            `json:"url"`
	Events        []string          `json:"events"`
	Ordering      string            `json:"ordering"`
	Timeout       Duration          `json:"timeout"`
	MaxInFlight   int               `json:"max_in_flight"`
	RatePerSecond float64           `json:"rate_per_second"`
	Headers       map[string]string `json:"headers,omitempty"`
	Signature     string            `json:"signature"` // v1 | v1a
	Secret        string            `json:"secret,omitempty"`
	Retry         Retry             `json:"retry"`
	WhenOpen      string            `json:"when_open"` // park | fail
	OnDead        string            `json:"on_dead"`   // continue | stop
	Enabled       bool              `json:"enabled"`

	// Below is what the stored record adds. None of it is part of the JSON form.

	// Keys are the signing keys, newest first. Secret is only how one enters the system: a
	// decoded endpoint has it empty.
	Keys      []Key     `json:"-"`
	CreatedAt time.Time `json:"-"`
	UpdatedAt time.Time `json:"-"`
	// Version is the offset of the record this was read from; it grows with every change.
	Version int64 `json:"-"`
	// Fault says why the endpoint cannot be used as it is stored. Its deliveries must wait,
	// they are not lost.
	Fault error `json:"-"`
}

// Retry is the schedule and the classes of answers of one endpoint.
type Retry struct {
	MaxAttempts     int      `json:"max_attempts"`
	MaxAge          Duration `json:"max_age"`
	Base            Duration `json:"base"`
	Factor          float64  `json:"factor"`
	Cap             Duration `json:"cap"`
	UnclearAttempts int      `json:"unclear_attempts"`
	Permanent       []int    `json:"permanent"`
	Transient       []int    `json:"transient"`
}

// Duration is a time.Duration that reads and writes as a Go duration string.
type Duration time.Duration
