package attempt

import "slices"

// Error classes: the closed vocabulary of the column error_class. An attempt that was
// delivered has none. CONTRACT: dashboards group by them, so names are only ever added.
const (
	DNSNotFound    = "dns_nxdomain"    // the name does not exist
	DNSTimeout     = "dns_timeout"     // no usable answer from the resolver
	ConnectRefused = "connect_refused" // refused, or no route
	ConnectTimeout = "connect_timeout"
	ConnectReset   = "connect_reset" // the connection ended before a whole answer
	TLSExpired     = "tls_expired"   // certificate outside its time
	TLSName        = "tls_name"      // certificate of another host
	TLSHandshake   = "tls_handshake" // unknown authority and every other TLS fault
	WriteReset     = "write_reset"   // the connection ended while the request was written
	TimeoutTTFB    = "timeout_ttfb"  // the request was written, no byte of an answer came
	TimeoutTotal   = "timeout_total" // the deadline passed in another place
	HTTP3xx        = "http_3xx"      // redirects are never followed
	HTTP4xx        = "http_4xx"      // but those below
	HTTP408        = "http_408"
	HTTP410        = "http_410"
	HTTP429        = "http_429"
	HTTP5xx        = "http_5xx" // but 503
	HTTP503        = "http_503"
	BodyTooLarge   = "body_too_large" // answer over the read limit
	Protocol       = "protocol"       // not an HTTP answer, or a status that ends nothing
	BlockedSSRF    = "blocked_ssrf"   // the egress guard refused the address
	CircuitOpen    = "circuit_open"
	RateLimited    = "rate_limited"
	Cancelled      = "cancelled" // ended by our own stop
	Internal       = "internal"  // our own fault: nothing was sent
	Other          = "other"
)

var classes = []string{
	DNSNotFound, DNSTimeout, ConnectRefused, ConnectTimeout, ConnectReset, TLSExpired,
	TLSName, TLSHandshake, WriteReset, TimeoutTTFB, TimeoutTotal, HTTP3xx, HTTP4xx,
	HTTP408, HTTP410, HTTP429, HTTP5xx, HTTP503, BodyTooLarge, Protocol,
	BlockedSSRF, CircuitOpen, RateLimited, Cancelled, Internal, Other,
}

// Classes returns the whole vocabulary.
func Classes() []string { return slices.Clone(classes) }

// KnownClass reports whether s is in the vocabulary. What is not becomes Other at the
// sink, with a log line.
func KnownClass(s string) bool { return slices.Contains(classes, s) }
