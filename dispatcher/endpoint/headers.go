package endpoint

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Limits of the customer's own headers.
const (
	MaxHeaders        = 20
	MaxHeaderBytes    = 1 << 10
	MaxAllHeaderBytes = 8 << 10
)

// refusedHeaders are the names that an endpoint may not set, in lower case. Framing and
// hop-by-hop names would let a customer split or hide requests; Idempotency-Key makes
// net/http believe that it may send a POST again by itself; the rest is what a delivery
// says about itself.
var refusedHeaders = []string{
	"accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect", "host",
	"http2-settings", "idempotency-key", "keep-alive", "proxy-authenticate", "proxy-authorization",
	"proxy-connection", "te", "traceparent", "tracestate", "trailer", "transfer-encoding", "upgrade",
	"user-agent", "x-idempotency-key",
}

// RefusedHeader reports whether an endpoint may not set the header called name.
func RefusedHeader(name string) bool {
	lower := strings.ToLower(name)
	return strings.HasPrefix(lower, "webhook-") || slices.Contains(refusedHeaders, lower)
}

func (e *Endpoint) validateHeaders(f *faults) {
	if len(e.Headers) > MaxHeaders {
		f.add("headers", "want at most %d, got %d", MaxHeaders, len(e.Headers))
	}
	total := 0
	seen := make(map[string]bool, len(e.Headers))
	for name, value := range e.Headers {
		total += len(name) + len(value)
		field := fmt.Sprintf("headers.%.64q", name)
		lower := strings.ToLower(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			f.add(field, "is not a header name")
		case RefusedHeader(name):
			f.add(field, "is set by hookline or belongs to the connection")
		case seen[lower]:
			f.add(field, "occurs twice, in another case")
		case len(name)+len(value) > MaxHeaderBytes:
			f.add(field, "is longer than %d bytes", MaxHeaderBytes)
		case !visibleValue(value):
			f.add(field, "want a value of visible ASCII, blanks and tabs")
		}
		seen[lower] = true
	}
	if total > MaxAllHeaderBytes {
		f.add("headers", "want at most %d bytes together, got %d", MaxAllHeaderBytes, total)
	}
}

func visibleValue(s string) bool {
	for i := range len(s) {
		if s[i] != '\t' && (s[i] < ' ' || s[i] > '~') {
			return false
		}
	}
	return true
}
