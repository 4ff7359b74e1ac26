// Package report answers questions about deliveries from ClickHouse: the named reports, the
// deliveries of an event or a message, and what a producer may see of its own events.
//
// Owns: one SQL per report, the bounds of every question, the state of an event as its rows
// tell it, the forms in which answers are written. Reads: the tables of database hookline.
// Writes: nothing; every query runs with readonly=1. State: none.
//
//	query.go     what may be asked: names, filters, times, format; nothing else gets through
//	catalog.go   the reports of the operators' day: trace, health, failures, pending
//	more.go      the other reports
//	sql.go       the pieces that SQL is made of
//	reporter.go  run one query under its bounds; errors.go what its failure means
//	result.go    columns and rows; format.go JSON, CSV, table
//	lookup.go    events and their deliveries; state.go the state that rows add up to
//
// # Promises
//
//   - What a user gives reaches ClickHouse as a bound query parameter, never as SQL text.
//     The SQL is put together from constants of this package only.
//   - Every query has a lower and an upper bound of time, at most MaxRows rows (truncated
//     tells that there were more), a time limit and a limit of memory.
//   - An answer says when it was asked (as_of) and how far ClickHouse was behind the log at
//     that moment (lag_seconds): what was written to the log before as_of - lag_seconds is
//     in it.
//
// # Non-obvious
//
//   - Raw tables are read FINAL: a batch that the sink had to insert again outside of the
//     deduplication window counts once. The sorting key ends in partition and offset of the
//     record, so two real attempts never collapse.
//   - Within one event the last row is the one with the highest (attempted_at, src_offset):
//     all rows of an event lie in one partition of the attempts topic.
//   - Aliases never repeat a column: inside nested aggregates ClickHouse would take the alias
//     for the column (ILLEGAL_AGGREGATION).
//   - Rollups are by minute or hour, so a report over them begins at the start of the minute
//     or hour that since falls into.
//   - A time of 1970 is "none" in the tables and null in an answer.
package report
