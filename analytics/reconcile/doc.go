// Package reconcile proves, all the time, that no event is lost between the log and its end:
//
//	accepted = delivered + dead + unrouted + dropped + pending + unaccounted
//
// per partition of events and per hour of acceptance, fan-out counted (an event that is owed
// to three endpoints is three deliveries), and unaccounted must be 0.
//
// Owns: the order in which offsets are looked at, the SQL that counts, the metrics
// hookline_analytics_unaccounted_* and hookline_analytics_reconcile*. Reads: committed and end
// offsets, tables events and attempts. Writes nothing. State: memory of the open hours and of
// past offsets; a restart begins anew and needs none of it.
//
//	config.go   Config, Deps
//	round.go    one round: offsets, what they prove, when ClickHouse has it
//	snapshot.go how long a copy may lie in the retry topics before it counts as lost
//	count.go    SQL of one hour
//	hours.go    which hours are counted again, and their sums
//	reconcile.go  New, Run; metrics.go
//
// # Why it is not an identity
//
// Nothing is pending because it is not final. A delivery is pending only with a proof:
//
//   - The dispatchers' committed offset of events/p, C, is looked at first, then the end of
//     attempts, and nothing is counted before the sink has committed both. The dispatcher
//     commits an offset after the attempt records of all that the event is owed, so every event
//     below C has its rows in ClickHouse, or they are lost. Events at and above C are not
//     counted yet.
//   - Of the deliveries that an event below C is owed, each has a final row (delivered, dead)
//     or is waiting: then its last row names the time T until which it waits. It is pending as
//     long as the copy behind that row can still be on its way (see snapshot.go), and
//     unaccounted afterwards.
//   - An event below C without deliveries has a row of its own (unrouted, dropped, dead).
//
// How many deliveries an event is owed is what its rows say (deliveries). If all its rows are
// lost it counts as one.
//
// # Non-obvious
//
//   - Rows meet their record by event id and time of acceptance: repeats of an id under one
//     idempotency key are records of their own, each with its own verdict (dropped), except
//     in one millisecond; those are counted together.
//   - Counts are of distinct offsets, so that a row that was inserted twice hides no loss.
//   - Rows of replays are left out: a replayed delivery was final before.
//   - Records that cannot be read (poison) are no rows of events and not accepted.
//   - An endpoint that is deleted within the instant in which a dispatcher crashes may leave an
//     event that says it is owed to one endpoint more than it has rows of. Such an hour stays
//     unaccounted for, by one; the ids tell.
package reconcile
