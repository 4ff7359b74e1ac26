// Package tier is the contract of everything a delivery does after its first failure: the
// topics it waits in (retry.*), the topic it comes back on (due), the topic it ends in
// (dead), the ticket that travels with it, and the arithmetic of when and where. It also
// specifies the small topics that belong to no other leaf: fences, dedupe, control,
// endpoint-state, audit.
//
// # Record
//
// A record of retry.*, due or dead is a copy of the event's record (package event) with a
// ticket beside it:
//
//	key      message id, as in events
//	value    body, byte for byte
//	headers  those of the event (ce_*, content-type, traceparent, hl_*), then the ticket:
//	  hl_endpoint   endpoint id          [A-Za-z0-9_-]{1,64}                 REQUIRED
//	  hl_attempt    attempts made        decimal                             REQUIRED
//	  hl_parks      parks                decimal; absent: 0
//	  hl_due_ms     not before, Unix ms  decimal                             REQUIRED
//	  hl_orig       place in events      TOPIC-ID(base64url):PARTITION:OFFSET REQUIRED
//	  hl_seq        Webhook-Sequence     decimal                             REQUIRED
//	  hl_first_ms   start, Unix ms       decimal                             REQUIRED
//	  hl_status     last HTTP status     decimal; absent: none
//	  hl_error      last error           at most MaxError bytes; absent: none
//	  hl_reason     why it is dead       Reason; absent: not dead
//	  hl_replay     replay id            absent: the original chain
//	  hl_tier       last retry topic     suffix; absent: none
//	  hl_deliveries endpoints of the event decimal; absent: not told
//
// A copy is made with StripTicket and then Ticket.AppendHeaders: ticket headers are
// replaced, never appended, so a record does not grow with its attempts. In dead only
// hl_reason is certain: an event that was never owed to an endpoint has no ticket, and a
// poison record keeps its own headers, whatever they are (AppendPoison).
//
// # Where a delivery waits
//
// The partitions of a retry topic are delay slots (Ladder). Inside a slot every record waits
// the same time, its floor, so the order of the log is the order of maturity and nothing
// stands behind a record that waits longer. What remains after the floor, at most one slot
// width, is waited out in the memory of the mover (package retrytiers).
//
// File map: topic.go the topics; ladder.go delay -> slot, ladder_json.go its form in
// control; jitter.go attempt -> delay; ticket.go and headers.go the ticket, orig.go its
// place in events; dead.go dead letters; reason.go why.
//
// # Does not
//
// Talk to Kafka, read a clock, draw a random number, or know an endpoint's settings.
//
// # Non-obvious
//
//   - A pause until the head of a topic is due would destroy jitter: the head's due time is a
//     running maximum, so U(0, 1 h) becomes about 1 h for nearly every record.
//   - Place never rounds up: the floor is at most the delay, so maturity comes before the due
//     time and the due time decides.
//   - A delay beyond the ladder goes to the last slot and laps through it; nothing is cut.
//   - The base 2 s is the bound of attempt 1, not of attempt 0.
package tier
