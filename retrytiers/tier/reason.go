package tier

// Reason says why a delivery ended undelivered. The list is closed (CONTRACT section 7).
type Reason string

// The reasons of a dead letter.
const (
	Exhausted       Reason = "exhausted"        // all attempts of the schedule were made
	Expired         Reason = "expired"          // max_age passed before an attempt succeeded
	Permanent       Reason = "permanent"        // the endpoint answered with a status that is final
	Unclear         Reason = "unclear"          // the bounded attempts for other 3xx/4xx were made
	EndpointGone    Reason = "endpoint_gone"    // 410
	EndpointDeleted Reason = "endpoint_deleted" // the endpoint no longer exists
	CircuitOpen     Reason = "circuit_open"     // when_open: fail
	IDConflict      Reason = "id_conflict"      // an event id came again with another body
	Poison          Reason = "poison"           // the record cannot be understood
	TooLarge        Reason = "too_large"        // the broker refused it for its size
	Operator        Reason = "operator"         // ended by hand
)

// Reasons returns all of them, in the order above.
func Reasons() []Reason {
	return []Reason{
		Exhausted, Expired, Permanent, Unclear, EndpointGone, EndpointDeleted, CircuitOpen,
		IDConflict, Poison, TooLarge, Operator,
	}
}
