package dispatcher

import (
	"net/http"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/circuit"
)

// SignalOf says what the result of an attempt tells about the endpoint. An answer of 3xx or
// 4xx refuses the event; the endpoint itself is up.
func SignalOf(r *Result) circuit.Signal {
	switch {
	case r.Ours():
		return circuit.None
	case r.Status == http.StatusRequestTimeout, r.Status == http.StatusTooManyRequests, r.Status == http.StatusServiceUnavailable:
		return circuit.Overloaded
	case r.Status >= 200 && r.Status <= 499:
		return circuit.OK
	case r.Status != 0:
		return circuit.Failed
	}
	switch r.ErrorClass {
	case attempt.TimeoutTTFB, attempt.TimeoutTotal:
		return circuit.Overloaded
	case attempt.DNSNotFound, attempt.DNSTimeout, attempt.ConnectRefused, attempt.ConnectTimeout,
		attempt.TLSExpired, attempt.TLSName, attempt.TLSHandshake, attempt.BlockedSSRF:
		return circuit.Unreachable
	}
	return circuit.Failed
}
