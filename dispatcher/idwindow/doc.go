// Package idwindow decides whether an event with an idempotency key was seen already: window
// A of the design. One Window belongs to one partition of events and to its owner.
//
// Key: tenant, ce_source, event id. Value: a fingerprint of the body. A repeat with an equal
// body is dropped (or joins the first while that is in flight), one with another body is a
// conflict: the first stays.
//
// The window holds what is durable. It is filled when all outcomes of an event are durable
// (Settle) and rebuilt by a new owner only from what is committed: Load reads the segments
// that owners left in the compacted topic dedupe, then the part of events between the last
// segment and the committed watermark. Records above the watermark that a bitmap or a
// takeover mark proves done enter through Add when they are read. Until Load has finished,
// Claim answers Loading and keeps the event; events without a key do not come here and flow.
//
// A segment is a fact about a committed range of offsets, so segments of different owners may
// overlap, also those of an owner that was replaced: they say the same.
//
// Non-obvious:
//
//   - "First" is by offset, not by arrival: Load and Add may bring an older record after a
//     younger one, and then the older one's fingerprint counts.
//   - Age is measured between records, by their timestamps, and not by the clock: what is read
//     late, after an outage of the dispatchers or behind a backlog, is judged as it would have
//     been then.
//   - A window filled when an attempt starts would lose events: a lane that leaves and comes
//     back re-reads unfinished records, and they must not look seen.
package idwindow
