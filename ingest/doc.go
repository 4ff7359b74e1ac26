// Package ingest is the room that takes events over HTTP and puts them into the events
// topic. It owns the listener for producers; the topic's contract is its leaf, ingest/event.
//
// # What a 202 means
//
// The event is in the log of all in-sync replicas: acks=all, idempotent producer. There is
// no buffer of our own behind the answer. Every other answer says whether something may
// have been accepted: only 504 unknown_outcome (and 500) leave it open, and sending again
// with the same Idempotency-Key is safe, since every node derives the same id from it.
//
// # A publish, in order
//
//	routes.go   find         exact path as sent, method; 404, 405
//	door.go     door         form (media.go), encoding, framing, key, declared length, idempotency
//	                         key: all that headers tell, before anybody looks at the body
//	handler.go  admit        broker reached, not stalled, room for it, backlog; 503, 429
//	handler.go  read         copy or inflate the body, find its fields or those of a CloudEvent
//	                         (cloudevents.go), make the id; 400, 413
//	producer.go publish      TryProduce, wait for the promise; 202, 503, 504
//
// A batch goes the same way with batch.go in the place of read and group.go in that of publish:
// all its events are read before the first is handed over, then all are handed over in order and
// waited for once. What is wrong with one event is its own verdict; the whole is refused only for
// what its headers or its size say, for an array that is not JSON, and at the door.
//
//	sources.go   webhooks of third parties: a leaf, ingest/source, verifies and maps them, then
//	             the same publish; sourcemetrics.go their counters
//	lookup.go    what became of an event or a message: asked through Deps.Lookup, bounded
//	unread.go    what fasthttp could not read to its end; bodies that are held back (Expect)
//	wire.go      was an event in flight once at most, so that a refusal is one
//	stall.go     is the oldest unacknowledged event too old, without a lock
//	encoding.go  gzip and zstd within the limit
//	framing.go   header lines that another reader of the request may take for something else
//	keys.go      API keys, as hashes
//	limit.go     rates and bursts of keys and sources; 429 and a true Retry-After
//	share.go     who holds most of what waits is refused first
//	intake.go    memory of the bodies that are being read, before they are
//	guard.go     connections, in all and per address
//	problem.go   every error answer
//	kafka.go     producer options with their reasons; the check of the topic's size limit
//	server.go    New, Run, Ready; health.go and openapi.json are the other paths
//
// # Admission and stop
//
// Nothing is taken while the oldest unacknowledged event is older than StallAfter or 80 % of
// MaxBufferedBytes wait: 503 at once. A request whose event was handed over waits for
// AckTimeout at most. Stop: Ready fails, LeaveDelay passes, the listener closes, requests
// that were read are answered, the producer is flushed.
//
// # Limits
//
// What a client can hold, and for how long: a connection until IdleTimeout or, from its first byte,
// ReadTimeout (a TLS handshake too), MaxConnections of them and MaxConnectionsPerAddress of one
// address; on it a read buffer and a small body of 16 KiB each and 64 KiB of answers it does not
// read, for WriteTimeout. Larger bodies need a key or the name of a source and are bounded by
// MaxBufferedBytes in all. A key or source that holds most of what is read or waits is refused
// from half of the bound on, so that others find room; who is alone may have all of it. A rate
// is checked after the headers and before the body, also for Expect: 100-continue.
//
// # Does not
//
// Deduplicate (the dispatcher's window A does, by the id; only a webhook that was captured and
// sent again is caught here, see ingest/source), validate a body beyond its few
// fields, change a body, or read files again: the main follows them and calls SetKeys, and gives
// each TLS connection the certificate of the day (Deps.TLS).
//
// # Non-obvious
//
//   - The body is copied out of the request before it is parsed, since the server uses that
//     memory for the next request while the producer still holds the record. The strings of
//     the event alias the copy. The events of a batch alias one copy, and a large one takes the
//     request's own buffer, which the server then never sees again.
//   - Records of one batch may be refused one by one by the broker, but never by our own client
//     for want of room (see group.reserve): what follows could overtake them.
//   - A batch may be larger than an event, but the server reads a request's body before its
//     handler runs. So the limit is decided by the headers (see received), and only who has a
//     key may send 4 MiB.
//   - A request's context never reaches Produce: cancelling a record that is under way breaks
//     the sequence of the idempotent producer, and a client that hung up does not take its
//     event back.
//   - A promise may come after its request gave up. Request and promise both hold the waiter,
//     and only the last to let go puts it back into the pool.
//   - The records of a request that gave up stay with the producer up to deliveryTimeout. They
//     keep the door shut, which is right: an outage is answered by quick 503s.
//   - The producing client repeats on its own and tells of the last try only. A refusal (no
//     authorization, too large) behind a try whose answer was lost is no refusal: 503 and 413
//     are answered only for what was in flight once (wire.go), 504 for all else. So is an
//     acknowledgement without an offset: the broker has forgotten where the first try went.
//   - fasthttp answers a body over its limit with 400 and closes a connection with unread bytes
//     in it, which resets it before the client has seen the answer: see unreadable and swallow.
//   - The order of the 4xx of one request is not part of the contract.
//   - A path is compared as it was sent. fasthttp's Path resolves dots and escapes, and what a
//     proxy in front let pass for one path would arrive as another.
package ingest
