// Package analytics streams the topics attempts, events and dead into ClickHouse: each record once,
// in the raw tables and in every rollup, whatever dies in between.
//
// # Flow
//
//	attempts/p --+
//	events/p   --+-> feed: batch of offsets [C,E) -> announce -> INSERT, token [C,E) -> commit E
//	dead/p     --+   (one partition, one block)      commit C, metadata "a batch up to E"
//
// Reads the three topics as the consumer group GroupName(prefix, "analytics"), and the sequence base
// from control. Writes ClickHouse and commits, nothing else. What the group has committed of a
// partition is in ClickHouse: reconciliation and lag rest on that (package progress).
//
// It delivers nothing, and the dispatcher shares no client, lock or memory bound with it: with
// ClickHouse away rows wait in Kafka for the retention of the topics (72 h, dead 30 d).
//
// # Promises
//
//   - Exactly once. A batch is announced before it is inserted, so the next owner of a partition
//     inserts the batch that may have been left behind again, the same rows under the same token,
//     and the server drops what it has. It then goes on from E, never from between.
//   - Rows are a pure function of the record: no clock, no host, no configuration.
//   - An insert that fails is repeated for ever, the same rows, 0.2 to 30 s apart. Nothing is skipped.
//     What an operator has to heal (tables, rights) makes Ready fail and is logged as an error.
//   - Memory is bounded over all partitions; at the bound nothing is fetched.
//   - No body, URL, header, secret or free text: the row types have no place for one.
//
// # What if the process dies here
//
//	while collecting          nothing was said: read again from C
//	after the announcement    the next owner inserts [C,E)
//	in or after the insert    it inserts [C,E) again, the server drops what it has and completes the rest
//	after the commit of E     nothing is open
//
// # Files
//
//	sink.go       New, Run, Ready: start and stop order
//	ownership.go  assigned, revoked, lost; opening a partition, reading on, what is unusual about it
//	position.go   pure: commit, metadata and log ends -> where to read on
//	intent.go     pure: commit metadata; the token
//	feed.go       one partition: the batch that collects, the one that is inserted
//	batch.go      pure: where a batch ends
//	decode.go     pure: records -> rows of the three tables
//	insert.go     the loop: announce, insert, commit
//	committer.go  the one committer
//	server.go     is ClickHouse fit: version, tables, probe
//	memory.go     the bound, and blocks to use again; slots.go inserts at once
//	kafka.go config.go metrics.go throttle.go
//
// Leaves: clickhouse the driver and what a server must do; schema the tables; row blocks by columns;
// progress, report how far, and what the tables say.
//
// # Locks
//
// committer.mu is held over every commit and by revoke, so that no commit of a partition follows its
// handing over. Sink.readerMu orders commands to the reader with that. Sink.mu guards the feeds;
// feed.mu one feed, and may be held while memory.mu is taken. None is held over I/O but committer.mu.
//
// # Non-obvious
//
//   - The announcement needs its acknowledgement before the insert begins: an owner that comes in
//     between would cut another batch over the same rows.
//   - A batch ends behind its last record, not at the end of what was fetched: that record is there
//     when the batch is cut again, so its end is reached. Holes inside (transactions) are no matter.
//   - When retention has taken the first records of an announced batch, what is left goes in under
//     the token of the whole: if the whole was inserted it is dropped, as it must be.
//   - When a log has lost its end (an unclean election), offsets are used again. The generation in the
//     metadata goes up and is part of every later token, or new rows would be taken for old.
//   - A server remembers 10,000 inserts into a table, not a time. An announced batch older than
//     Config.WindowAge, and one that has seen as many inserts pass, is looked for in the raw table
//     before it is inserted. If it is there it is not repeated: a rollup can be rebuilt, but what it
//     has counted twice cannot be seen.
//   - A zombie that wakes up between its announcement and its insert repeats what its successor has
//     inserted: the token drops it. Its commit is refused.
//   - An insert runs with a slot in hand and its batch is announced only then, so a process leaves at
//     most a few announced batches behind. They are exempt from the memory bound.
//   - A partition that has no place for what was fetched is removed from the reader and added again at
//     the exact offset: kgo keeps what it has fetched for a paused one, and hands it over late.
//   - INSERTs into more than 100 partitions are refused for ever: times are clamped to those of their
//     records, and a batch ends before its rows are on more than 90 days.
//   - Retry is not "not ready": ClickHouse being away must not take a process out of its load balancer
//     that also takes events.
//
// Differences from the reference: the bytes that close a batch are those of its columns; the
// next batch collects while one is inserted (the reference stops the fetch); the linger grows
// from 1 to 5 s while a trickle lasts and starts anew after a quiet time; the token carries topic
// name and id; intents carry topic id, time and generation.
package analytics
