// Package dispatcher delivers events: it reads the lanes that its group assigns to it, posts
// each event to the endpoints it is owed to, and moves what fails on, at least once.
//
// It owns no topic itself; its leaves own attempts (dispatcher/attempt) and endpoints
// (dispatcher/endpoint). It reads events, due, endpoints, control, dedupe and at a takeover
// attempts; it writes the retry topics, dead, attempts, dedupe, and to control one record per
// events topic.
//
// # The way of an event
//
//	dispatcher.go  what a process holds; Run starts and stops it
//	ownership.go   a lane is assigned, taken over, drained, given up
//	takeover.go    what a new owner learns before the first record
//	reposition.go  where reading goes on after the broker refused a position
//	partition.go   a lane: records -> slots; which offsets are safe
//	fanout.go      slot -> deliveries, windows A and B, verdicts without an attempt
//	gate.go        one endpoint's place; permits.go the process's permit
//	run.go         one delivery with a permit; deliver.go one POST (transport.go, guard.go,
//	               wire.go, target.go); outcome.go what its result means
//	route.go       outcome -> copy or dead letter -> attempt record -> done
//	commit.go      done -> committed
//
// Beside it: loops.go timers, forks.go window B, rows.go attempt records, sequence.go the
// base of Webhook-Sequence, kafka.go every client option with its reason.
//
// # Promises
//
//   - Order of durability, everywhere: retry copy or dead letter acked, attempt record acked,
//     ledger done, commit. A step that fails holds its slot and is tried again for ever.
//   - A crash repeats only what was in flight, plus what finished since the last commit and
//     whose attempt record was not acked. What has an acked record is not repeated: the
//     record names its source position, and the next owner reads it (takeover marks).
//   - A lane that was revoked or lost is never committed again, and its late results produce
//     nothing but a row that marks nothing.
//   - Targets, "unrouted" and "endpoint deleted" are decided only while the view of the
//     endpoints is proven complete as of less than a second ago.
//
// # Non-obvious
//
//   - Commit metadata of both topics of a lane names the attempts offset to read marks from:
//     the lowest row of a slot that is still open, or of a mark whose record was not read
//     yet. It is taken before the bitmap, and rows.go counts a row as acked only after its
//     slot knows; the other order would leave a row between the two.
//   - A retry copy is built from the decoded event, not from the record's headers: an id that
//     was derived from topic, partition and offset must not be derived again from the copy.
//   - A copy may be dropped at or below the highest durable step of its chain, but only by
//     what is durable. Filled when an attempt starts, the window would lose events of a lane
//     that leaves and comes back.
//   - A delivery that waits for its endpoint holds a ledger slot, so it leaves after 500 ms;
//     one that waits for a permit does not, since then the process is the limit and parking
//     would only add work.
//   - A proof of the endpoint view from before a lane was assigned does not count for it: the
//     admin API waits for the dispatchers that owned lanes when it answered.
//   - Places at gates are given back when the answer is in, permits when the row is acked.
//     With attempts down nothing new is posted and at most the permits repeat.
package dispatcher
