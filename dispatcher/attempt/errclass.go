package attempt

import "slices"

// Error classes: the closed vocabulary of the column error_class. An attempt that was
// delivered has none. CONTRACT: dashboards group by them, so names are only ever added.
const (
	ClassDNSNotFound    = "dns_nxdomain"    // the name does not exist
	ClassDNSTimeout     = "dns_timeout"     // no usable answer from the resolver
	ClassConnectRefused = "connect_refused" // refused, or no route
	ClassConnectTimeout = "connect_timeout"
	ClassConnectReset   = "connect_reset" // the connection ended before a whole answer
	ClassTLSExpired     = "tls_expired"   // certificate outside its time
	ClassTLSName        = "tls_name"      // certificate of another host
	ClassTLSHandshake   = "tls_handshake" // unknown authority and every other TLS fault
	ClassWriteReset     = "write_reset"   // the connection ended while the request was written
	ClassTimeoutTTFB    = "timeout_ttfb"  // the request was written, no byte of an answer came
	ClassTimeoutTotal   = "timeout_total" // the deadline passed in another place
	ClassHTTP3xx        = "http_3xx"      // redirects are never followed
	ClassHTTP4xx        = "http_4xx"      // but those below
	ClassHTTP408        = "http_408"
	ClassHTTP410        = "http_410"
	ClassHTTP429        = "http_429"
	ClassHTTP5xx        = "http_5xx" // but 503
	ClassHTTP503        = "http_503"
	ClassBodyTooLarge   = "body_too_large" // answer over the read limit
	ClassProtocol       = "protocol"       // not an HTTP answer, or a status that ends nothing
	ClassBlockedSSRF    = "blocked_ssrf"   // the egress guard refused the address
	ClassCircuitOpen    = "circuit_open"
	ClassRateLimited    = "rate_limited"
	ClassCancelled      = "cancelled" // ended by our own stop
	ClassInternal       = "internal"  // our own fault: nothing was sent
	ClassOther          = "other"
)

var classes = []string{
	ClassDNSNotFound, ClassDNSTimeout, ClassConnectRefused, ClassConnectTimeout, ClassConnectReset, ClassTLSExpired,
	ClassTLSName, ClassTLSHandshake, ClassWriteReset, ClassTimeoutTTFB, ClassTimeoutTotal, ClassHTTP3xx, ClassHTTP4xx,
	ClassHTTP408, ClassHTTP410, ClassHTTP429, ClassHTTP5xx, ClassHTTP503, ClassBodyTooLarge, ClassProtocol,
	ClassBlockedSSRF, ClassCircuitOpen, ClassRateLimited, ClassCancelled, ClassInternal, ClassOther,
}

// Classes returns the whole vocabulary.
func Classes() []string { return slices.Clone(classes) }

// KnownClass reports whether s is in the vocabulary. What is not becomes ClassOther at the
// sink, with a log line.
func KnownClass(s string) bool { return slices.Contains(classes, s) }
