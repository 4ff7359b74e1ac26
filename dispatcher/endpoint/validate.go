package endpoint

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Limits of the form.
const (
	MaxIDLen       = 64
	MaxTenantLen   = 64
	MaxTimeout     = 15 * time.Second
	MinTimeout     = 10 * time.Millisecond
	MaxInFlight    = 4096
	MaxPatterns    = 100
	MaxAttempts    = 100
	MaxAge         = 7 * 24 * time.Hour // the backstop retention of the retry topics
	MaxRetryCap    = 24 * time.Hour
	MaxRetryFactor = 10
	MaxRate        = 1_000_000
)

// FieldError is one fault of one field. Its text never holds a secret or a header value.
type FieldError struct {
	Field  string // path in the JSON form, for example "retry.base"
	Reason string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

type faults []error

func (f *faults) add(field, format string, args ...any) {
	*f = append(*f, &FieldError{Field: field, Reason: fmt.Sprintf(format, args...)})
}

// Check validates e and brings its URL into the stored form under policy p. It returns all
// faults joined (Unwrap() []error lists them): *FieldError, and *RefusedURL for the URL.
func (e *Endpoint) Check(p URLPolicy) error {
	errs := e.faults()
	switch clean, err := p.Normalize(e.URL); {
	case e.URL == "":
		errs.add("url", "is required")
	case err != nil:
		errs = append(errs, err)
	default:
		e.URL = clean
	}
	return errors.Join(errs...)
}

// Validate checks every field but the URL, which needs a policy, and returns all faults
// joined, each a *FieldError.
func (e *Endpoint) Validate() error { return errors.Join(e.faults()...) }

func (e *Endpoint) faults() faults {
	var f faults
	if !ValidID(e.ID) {
		f.add("id", "want 1 to %d characters of A-Z a-z 0-9 _ -", MaxIDLen)
	}
	if !validTenant(e.Tenant) {
		f.add("tenant", "want 1 to %d visible ASCII characters", MaxTenantLen)
	}
	e.validateEvents(&f)
	f.oneOf("ordering", e.Ordering, BestEffort, SelfOrdering, PerKey)
	f.oneOf("signature", e.Signature, SignatureV1, SignatureV1a)
	f.oneOf("when_open", e.WhenOpen, WhenOpenPark, WhenOpenFail)
	f.oneOf("on_dead", e.OnDead, OnDeadContinue, OnDeadStop)
	if t := time.Duration(e.Timeout); t < MinTimeout || t > MaxTimeout {
		f.add("timeout", "want %v to %v, got %v", MinTimeout, MaxTimeout, e.Timeout)
	}
	if e.MaxInFlight < 1 || e.MaxInFlight > MaxInFlight {
		f.add("max_in_flight", "want 1 to %d, got %d", MaxInFlight, e.MaxInFlight)
	}
	if !(e.RatePerSecond >= 0 && e.RatePerSecond <= MaxRate) { // NaN fails too
		f.add("rate_per_second", "want 0 (no limit) to %d", MaxRate)
	}
	if e.Secret != "" {
		if err := checkSecret(e.Signature, e.Secret); err != nil {
			f.add("secret", "%v", err)
		}
	}
	for i := range e.Keys { // PATCH of signature on an endpoint that has its keys
		if err := checkSecret(e.Signature, e.Keys[i].Secret); err != nil {
			f.add("signature", "does not fit the endpoint's keys: %v", err)
			break
		}
	}
	e.validateHeaders(&f)
	e.Retry.validate(&f)
	return f
}

func (e *Endpoint) validateEvents(f *faults) {
	if e.Events != nil && len(e.Events) == 0 {
		f.add("events", "an empty list would match nothing; leave it out for all events, or set enabled to false")
	}
	if len(e.Events) > MaxPatterns {
		f.add("events", "want at most %d patterns, got %d", MaxPatterns, len(e.Events))
	}
	for i, text := range e.Events {
		if _, err := compilePattern(text); err != nil {
			f.add(fmt.Sprintf("events[%d]", i), "%v", err)
		}
	}
}

func (r *Retry) validate(f *faults) {
	if r.MaxAttempts < 1 || r.MaxAttempts > MaxAttempts {
		f.add("retry.max_attempts", "want 1 to %d, got %d", MaxAttempts, r.MaxAttempts)
	}
	if r.UnclearAttempts < 1 || r.UnclearAttempts > MaxAttempts {
		f.add("retry.unclear_attempts", "want 1 to %d, got %d", MaxAttempts, r.UnclearAttempts)
	}
	if r.MaxAge <= 0 || time.Duration(r.MaxAge) > MaxAge {
		f.add("retry.max_age", "want more than 0 and at most %v, got %v", Duration(MaxAge), r.MaxAge)
	}
	if r.Base <= 0 || r.Base > r.Cap {
		f.add("retry.base", "want more than 0 and at most retry.cap, got %v", r.Base)
	}
	if r.Cap <= 0 || time.Duration(r.Cap) > MaxRetryCap {
		f.add("retry.cap", "want more than 0 and at most %v, got %v", Duration(MaxRetryCap), r.Cap)
	}
	if math.IsNaN(r.Factor) || r.Factor < 1 || r.Factor > MaxRetryFactor {
		f.add("retry.factor", "want 1 to %d", MaxRetryFactor)
	}
	validateStatuses(f, "retry.permanent", r.Permanent)
	validateStatuses(f, "retry.transient", r.Transient)
	for _, status := range r.Transient {
		if slices.Contains(r.Permanent, status) {
			f.add("retry.transient", "status %d is in retry.permanent too", status)
		}
	}
}

func validateStatuses(f *faults, field string, list []int) {
	for _, status := range list {
		if status < 300 || status > 599 {
			f.add(field, "want statuses 300 to 599, got %d: a 2xx always ends the delivery", status)
		}
	}
}

func (f *faults) oneOf(field, got string, want ...string) {
	if !slices.Contains(want, got) {
		f.add(field, "want one of %q, got %.32q", want, got)
	}
}

// ValidID reports whether s can be an endpoint id.
func ValidID(s string) bool {
	if s == "" || len(s) > MaxIDLen {
		return false
	}
	for i := range len(s) {
		if !isWord(s[i]) {
			return false
		}
	}
	return true
}

func validTenant(s string) bool {
	if s == "" || len(s) > MaxTenantLen {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// isWord reports whether c may occur in an id and in a segment of an event type.
func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}
