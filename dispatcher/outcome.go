package dispatcher

import (
	"slices"
	"time"

	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/retrytiers/tier"
)

// Kind is what becomes of a delivery after an attempt.
type Kind uint8

// Kinds of a Verdict.
const (
	Delivered  Kind = iota + 1 // it ends
	RetryAt                    // the next attempt is due after Verdict.Delay
	DeadLetter                 // it ends undelivered, for Verdict.Reason
)

// Verdict is the outcome of one attempt.
type Verdict struct {
	Kind   Kind
	Delay  time.Duration // RetryAt only
	Reason tier.Reason   // DeadLetter only
}

// Policy is the part of an endpoint that Decide asks.
type Policy struct {
	Schedule        tier.Schedule
	MaxAttempts     int
	MaxAge          time.Duration
	UnclearAttempts int
	Permanent       []int
	Transient       []int
}

// PolicyOf takes the policy of an endpoint. It shares the lists and allocates nothing.
func PolicyOf(e *endpoint.Endpoint) Policy {
	r := &e.Retry
	return Policy{
		Schedule:        tier.Schedule{Base: time.Duration(r.Base), Factor: r.Factor, Cap: time.Duration(r.Cap)},
		MaxAttempts:     r.MaxAttempts,
		MaxAge:          time.Duration(r.MaxAge),
		UnclearAttempts: r.UnclearAttempts,
		Permanent:       r.Permanent,
		Transient:       r.Transient,
	}
}

// State is how far a delivery has come.
type State struct {
	Attempt int       // number of the attempt that gave the result, from 1
	First   time.Time // start of the delivery; max age counts from it
}

// answer says how a failed result is to be read.
type answer uint8

const (
	transient answer = iota // the full schedule
	unclear                 // a bounded number of attempts
	permanent               // none
)

// Decide is the outcome of an attempt: pure, one place for every rule of DESIGN section 6.
// u is a draw of U(0,1) for the jitter. Results that are Ours should not come here; they
// would be read as transient.
func Decide(p Policy, s State, r Result, now time.Time, u float64) Verdict {
	if r.Success() {
		return Verdict{Kind: Delivered} // any 2xx, whatever came of its body
	}
	kind := read(p, r)
	switch {
	case kind == permanent && r.Status == 410:
		return Verdict{Kind: DeadLetter, Reason: tier.EndpointGone}
	case kind == permanent:
		return Verdict{Kind: DeadLetter, Reason: tier.Permanent}
	case kind == unclear && s.Attempt >= p.UnclearAttempts:
		return Verdict{Kind: DeadLetter, Reason: tier.Unclear}
	case s.Attempt >= p.MaxAttempts:
		return Verdict{Kind: DeadLetter, Reason: tier.Exhausted}
	}
	delay := p.Schedule.Delay(s.Attempt, u)
	// Retry-After only raises the delay: an endpoint cannot shorten our backoff.
	delay = max(delay, min(r.RetryAfter, maxRetryAfter))
	if now.Add(delay).Sub(s.First) > p.MaxAge {
		// The next attempt would come too late. Waiting for it would only hide the end.
		return Verdict{Kind: DeadLetter, Reason: tier.Expired}
	}
	return Verdict{Kind: RetryAt, Delay: delay}
}

// read classes a failed result. The endpoint's own lists come first; permanent before
// transient, since a list that names a status twice asks for the cheaper mistake.
func read(p Policy, r Result) answer {
	switch {
	case r.Status == 0:
		return transient // the network, TLS, a timeout, a refused address
	case slices.Contains(p.Permanent, r.Status):
		return permanent
	case slices.Contains(p.Transient, r.Status):
		return transient
	case r.Status == 408, r.Status == 425, r.Status == 429:
		return transient
	case r.Status >= 300 && r.Status <= 499:
		return unclear // redirects are never followed
	default:
		// 5xx; and 101 or 999, which RFC 9110 section 15 tells to read as 5xx.
		return transient
	}
}
