// Package loadgen publishes events over HTTP, open or closed loop, and keeps every id that
// was answered 202. It imports nothing of the product: what it knows is the contract of
// POST /v1/events and /v1/events/batch.
//
// Open loop (Rate > 0): event i is due at start + i/Rate whatever happened to those before
// it, and its latency counts from that instant; a server that stalls is charged for the
// queue it caused. Closed loop (Rate 0): each connection sends as soon as its last answer
// is there, which finds the highest throughput and says little about latency.
//
// File map: loadgen.go configuration and the workers; batch.go posts of many events; body.go
// the bodies; result.go what is kept.
//
// Non-obvious:
//   - A worker per connection takes the next index from one counter. When all workers wait
//     for answers the schedule does not stop: the events that became due are sent late and
//     their lateness is part of their latency.
//   - A failed post is never sent again here: an answer that did not come is an unknown
//     outcome, and such events may turn up at a receiver without being in the accepted set.
//   - Every body is unique (field n), so that its hash identifies it.
package loadgen
