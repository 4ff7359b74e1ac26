package endpoint

import "time"

// Ordering modes (DESIGN section 7).
const (
	BestEffort   = "best_effort"
	SelfOrdering = "self_ordering"
	PerKey       = "per_key"
)

// Endpoint is one configured destination, in the form of CONTRACT section 4. Durations are
// Go duration strings in JSON and YAML.
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
