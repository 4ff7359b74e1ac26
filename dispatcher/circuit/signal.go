package circuit

// Signal is what the outcome of one attempt says about the endpoint, not about the event.
type Signal uint8

// Signals.
const (
	// None says nothing: the attempt was not made, or failed on our side.
	None Signal = iota
	// OK is an answer that is no failure of the endpoint: 2xx, and 3xx or 4xx, which refuse
	// the event and not the load.
	OK
	// Failed is 5xx, or an answer that is no HTTP.
	Failed
	// Overloaded is a failure that less load may cure: 408, 429, 503, a timeout.
	Overloaded
	// Unreachable is a connection that could not be made: DNS, connect, TLS.
	Unreachable
)

func (s Signal) failure() bool { return s >= Failed }
