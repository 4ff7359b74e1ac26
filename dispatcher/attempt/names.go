package attempt

// String is the value of the ClickHouse column outcome.
func (o Outcome) String() string {
	switch o {
	case Delivered:
		return "delivered"
	case Retry:
		return "retry"
	case Parked:
		return "parked"
	case Dead:
		return "dead"
	case Dropped:
		return "dropped"
	case Unrouted:
		return "unrouted"
	}
	return "invalid"
}

// String is the value of the ClickHouse column trigger.
func (t Trigger) String() string {
	switch t {
	case Auto:
		return "auto"
	case Replay:
		return "replay"
	case Test:
		return "test"
	case Probe:
		return "probe"
	}
	return "invalid"
}

// String is the value of the ClickHouse column circuit.
func (c Circuit) String() string {
	switch c {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case HalfOpen:
		return "half_open"
	}
	return "invalid"
}
