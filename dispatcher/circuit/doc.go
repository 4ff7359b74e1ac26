// Package circuit decides how much one endpoint is given: whether anything at all (Breaker),
// how many attempts at once (Limit) and how many a second (Pace).
//
// All three are plain values without a clock, a lock or a timer of their own: time and
// randomness are arguments, so a test runs hours in a loop and two processes that saw the
// same signals decide the same. The caller holds a lock around each endpoint's values.
//
//	signal.go   what the outcome of an attempt says about the endpoint
//	breaker.go  closed, open, half-open; how long open
//	limit.go    attempts at once: additive increase, multiplicative decrease
//	pace.go     attempts a second: an operator's rate, and what was learned from a collapse
//
// Why not a library: the delay of an opening grows with the openings before it, half-open
// lets one attempt through and only then three, a probe may be taken back when its lane
// leaves, and an opening may be told by another process. The known libraries fix the delay,
// let all probes through at once and read the clock themselves.
package circuit
