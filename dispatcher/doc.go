// Package dispatcher delivers events: it reads the lanes that its group assigns to it, posts
// each event to the endpoints it is owed to, and moves what fails on, at least once.
//
// It owns no topic itself; its leaves own attempts (dispatcher/attempt) and endpoints
// (dispatcher/endpoint). It reads events, due, endpoints, endpoint-state, control, dedupe and at
// a takeover attempts; it writes the retry topics, dead, attempts, dedupe, endpoint-state, to
// control one record per events topic, and to events what a Kafka producer put into the wrong partition
// and the feedback events; to endpoints that one is disabled.
//
// # The way of an event
//
//	dispatcher.go  what a process holds; Run starts and stops it
//	ownership.go   a lane is assigned, taken over, drained, given up
//	takeover.go    what a new owner learns before the first record
//	reposition.go  where reading goes on after the broker refused a position
//	partition.go   a lane: records -> slots; which offsets are safe
//	door.go        how a record of events is read, and where it belongs
//	fanout.go      slot -> deliveries, windows A and B, verdicts without an attempt
//	gate.go        one endpoint's place (circuit decides, backlog.go estimates, advice.go tells
//	               the fleet); permits.go the process's permit
//	run.go         one delivery with a permit; deliver.go one POST (transport.go, heard.go, guard.go,
//	               wire.go, target.go); outcome.go what its result means
//	route.go       outcome -> copy or dead letter -> feedback events -> attempt record -> done
//	gone.go        an endpoint that answers 410 is disabled
//	feedback.go    what a tenant is told about its endpoints, as events of its own
//	commit.go      done -> committed
//
// Beside it: loops.go timers, stable.go transactions that hold a lane up, forks.go window B, rows.go attempt records,
// kafka.go every client option with its reason, health.go how an endpoint does.
//
// # Promises
//
//   - Order of durability, everywhere: retry copy or dead letter acked, feedback events about
//     the dead letter acked, attempt record acked, ledger done, commit. A step that fails holds
//     its slot and is tried again for ever. (The disable of an endpoint that is gone comes behind
//     the dead letter, and is no such step: it is given up after a while, see Gone.)
//   - A crash repeats only what was in flight, plus what finished since the last commit and
//     whose attempt record was not acked. What has an acked record is not repeated: the
//     record names its source position, and the next owner reads it (takeover marks).
//   - A lane that was revoked or lost is never committed again, and its late results produce
//     nothing but a row that marks nothing.
//   - Targets, "unrouted" and "endpoint deleted" are decided only while the view of the
//     endpoints is proven complete as of less than a second ago.
//
// # Who accounts for a record of events
//
// Every offset of events that a consumer of committed records sees ends with at least one
// attempt record that names it (Position): delivered or dead per endpoint it is owed to, or
// one row without an endpoint for the whole record: unrouted, dropped, or dead (poison,
// id_conflict). A repeat of an event (window A) is dropped. So is a record in the wrong
// partition, with the reason "forwarded": its event goes on as another record of events, in
// the right partition, with the same event id, and that one is accounted for by rows of its
// own. Accepted records = delivered + dead + unrouted + dropped + pending holds per partition
// with both counted; distinct event ids count it once. A forwarder that dies between the copy
// and the commit leaves a second copy, which window A drops: one more record, one more row.
//
// # Feedback
//
// hookline.delivery.dead tells a tenant of each of its dead letters that has an endpoint;
// hookline.endpoint.failing and .recovered that a breaker opened and closed. They are events of the
// tenant like any other: key and message id are the endpoint's id, the body holds event, message_id,
// endpoint_id, event_id, reason and occurred_at. They are written only while an endpoint of the tenant
// names them, as the proven view of the endpoints says, and never about a delivery of such an event. The
// id is made of tenant, type, endpoint, event id, reason and replay, so what a crash repeats is a repeat to
// window A, whatever the time in its body. Those about dead letters are durable before the delivery
// is done. Those about breakers are hints, sent beside it: at most one per opening and per process that
// saw it for itself, lost with a process that dies then.
//
// # Gone
//
// An answer of 410, where the endpoint's list of permanent answers has it, ends the delivery as
// endpoint_gone and disables the endpoint: a compare-and-set by table.Writer, which fences the admin API's writer
// and is fenced by it, so no change of either is lost. It is refused when the endpoint is not, to
// the offset, what answered: a 410 of yesterday's URL says nothing of today's. The first delivery waits
// for the disable, behind its dead letter and before its attempt record; those that answer meanwhile go on.
// Deps.Disabled writes the audit record.
//
//   - More than 10 endpoints and over 5 % of all within a minute, counted by each process for itself,
//     are a proxy's fault: only dead letters until it is over. Those before the eleventh are disabled by then.
//   - Killed before the disable, the delivery is made again and has a second dead letter. Killed behind it and
//     before the attempt record, the next owner parks the delivery, since the endpoint is disabled: it
//     has its dead letter, and goes on when somebody enables the endpoint. hookline.endpoint.disabled is
//     then not told, and an audit record may be missing; the endpoint itself shows that it is disabled.
//   - A disable that is not written within 5 s is given up, and none is tried for 30 s: endpoints that are
//     gone must not hold the slots of others. The next 410 asks for it again.
//
// # Non-obvious
//
//   - A record in the wrong partition is never delivered from there, nor does its id count in
//     that partition's window A: order and idempotency of a message id live in one partition.
//     Copy acked, row acked, done, commit: the order of every outcome. What is too large to be
//     forwarded (our headers come on top) is dead as too_large.
//   - Ids that ingest drew skip window A, since they come once. A forwarded one does not: its
//     forwarder may have died (event.Place.Keyed).
//   - A lane reads committed records only. A transaction that its producer left open holds the
//     lane up, and a restart does not cure it, so it is a metric and an error in the log with
//     the producer's id, not a failed readiness.
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
