// Package receiver is a scriptable webhook endpoint on loopback: each path behaves as told
// (healthy, failing at first, always failing, slow, hanging, resetting, falling over under
// load), every request is kept, and every signature is checked. The bench scenarios, the
// end-to-end tests and the demo of "hookline dev" share it.
//
// It promises that a request is on record before its answer leaves, so a 2xx that a
// dispatcher saw can always be found here; and that records of one message id are in
// arrival order (Each). It does not decide what should have arrived: that is bench/verify.
//
// File map: receiver.go server and lifecycle; behaviour.go what a path does; handler.go one
// request; store.go the records; stats.go counters and waiting.
//
// Non-obvious:
//   - It must cost little beside what it measures: fasthttp, sharded locks, no JSON (the
//     message id is cut out of the body by a byte search), ids in arenas.
//   - Shards are chosen by message id, so that one lock orders all requests of a message;
//     one event always has one message id, so the count of its failures is there too.
//   - A reset sets linger 0 and closes inside the handler: the peer sees RST, not EOF. A hang
//     gives the connection away and waits for the peer to close it.
//   - fasthttp reuses every buffer of a request; whatever is kept is copied first.
package receiver
