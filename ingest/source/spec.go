package source

import (
	"net/netip"
	"time"
)

// Names of the schemes. CONTRACT: they stand in people's settings.
const (
	SchemeStandardWebhooks = "standard-webhooks"
	SchemeGitHub           = "github"
	SchemeStripe           = "stripe"
	SchemeSlack            = "slack"
	SchemeShopify          = "shopify"
	SchemeHMAC             = "hmac"
)

// Limits of the settings of a source.
const (
	DefaultTolerance = 5 * time.Minute
	minTolerance     = time.Second
	maxTolerance     = 24 * time.Hour
	maxSuccessBody   = 4 << 10
	maxList          = 16 // entries of one list of selectors
	maxRequire       = 32
	maxRate          = 1e9
	maxBurst         = 1 << 30
)

// Spec is what the settings say of one source, read and checked by Parse.
type Spec struct {
	Name   string
	Tenant string
	Scheme string
	// Secrets are as given: themselves, or file:, env:, exec: references. All are valid.
	Secrets []string
	// Tolerance is how far the signed time may be from ours, in either direction. It has a
	// meaning for all schemes: replays are remembered for twice as long.
	Tolerance time.Duration

	EventType []Selector // joined with full stops
	MessageID []Selector // the first that the request has
	EventID   []Selector // the first that the request has; empty with DeriveID
	DeriveID  []Selector // all of them together are the id

	Require        []Requirement
	AllowCIDRs     []netip.Prefix // empty = any address
	TrustedProxies []netip.Prefix // whose X-Forwarded-For is believed; empty = nobody's
	Success        Success
	Rate           float64 // signed requests a second; 0 = no limit
	Burst          int     // 0 = those of one second
	// VerifyToken must be repeated by a GET challenge that carries hub.verify_token; a
	// secret as Secrets are. "" = not asked for.
	VerifyToken string
	HMAC        HMAC // of SchemeHMAC
}

// Success is the answer to a request whose event is in the log.
type Success struct {
	Status      int
	Body        string
	ContentType string
}

// Requirement is what a body must have beside its signature.
type Requirement struct {
	Path   string
	Type   string // "" = any but null
	MaxLen int    // of a string, in characters; 0 = no limit
}

// HMAC is how a provider without a preset signs.
type HMAC struct {
	Header    string
	Prefix    string
	Encoding  string // hex, base64, base64url
	Algorithm string // sha1, sha256, sha512
	// Timestamp is where the signed time is: header:NAME, param:NAME for an item NAME= of
	// the signature header, json:PATH for a member of the signed body; nil = none.
	Timestamp *Selector
	Signed    template
	// SecretEncoding says what the secrets are written in: text, hex, base64.
	SecretEncoding string
}

// SettingError is one fault of the settings.
type SettingError struct {
	Path string // below "sources", such as stripe-eu.secrets
	Text string
}

func (e *SettingError) Error() string { return e.Path + ": " + e.Text }
