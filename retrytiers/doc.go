// Package retrytiers brings waiting deliveries back at exactly their due time. It owns the
// retry topics once a record is in them; package tier says how it gets there.
//
// # Flow
//
//	retry.*/p --> slot -- matures at append + floor --> wheel -- at hl_due_ms --> due/p
//	               | immature: small buffer, then pause           (p = partition of hl_orig)
//	               | not decodable --> dead (poison)
//	               + still too far off --> another slot (a lap)
//
// Each partition of a retry topic is a delay slot: all its records wait the same floor, so
// they mature in log order and none stands behind another. What then remains is at most one
// slot width and is waited out in memory, in a wheel ordered by due time.
//
// Reads retry.*, as the consumer group GroupName(prefix, "retrytiers"). Writes due, retry.*
// (laps) and dead (poison), and trims retry.* with DeleteRecords.
//
// # Promises
//
//   - Never before hl_due_ms by the local clock; after it only by processing time, or by the
//     time the wheel was full or the broker unreachable.
//   - At least once: a record is done when its copy is acknowledged by all replicas, and is
//     committed only then. A crash repeats what was released since the last commit (100 ms),
//     and loses nothing: the wheel holds nothing that is not also in the log.
//   - A produce that fails holds its record, backs off and is tried again, without end and
//     with an alarm. Nothing is skipped.
//   - Memory is bounded: records in the wheel by count and bytes, immature ones by a buffer
//     per slot. When the wheel is full nothing is admitted: late, never lost.
//
// It does not deliver, decide whether a delivery is retried, or know endpoints. It changes no
// header of a record that it moves, except that a lap names its new topic in hl_tier.
//
// # Files
//
//	retrytiers.go  New, Run, Ready: start and stop order
//	ownership.go   assigned, revoked, lost; opening a slot at its committed offset
//	position.go    pure: committed offset and log ends -> where to read from
//	slot.go        pure: one partition: ledger, maturity, buffer of immature records
//	board.go       pure: all slots and the wheel; one pass decides what happens now
//	decide.go      pure: one record, one clock reading -> wheel, lap or poison
//	wheel.go       pure: entries by due time, bounded
//	mover.go       the loop around the board: sleep, produce, acknowledge, back off
//	commit.go      the one committer
//	trim.go        DeleteRecords behind the commits
//	kafka.go config.go metrics.go throttle.go
//
// # Locks
//
// Mover.commitMu is held over every commit and by revoke, so that no commit of a partition
// can follow its handing over. Mover.readerMu orders commands to the reader with the life of
// the slots they are about. Mover.mu guards the board; it is never held over I/O. Order:
// commitMu, readerMu, mu.
//
// # Non-obvious
//
//   - Maturity counts from a running maximum of min(record timestamp, own clock at first
//     read): timestamps of a log may step back (leader change, a broker that ignores
//     LogAppendTime) or lie in the future, and log order must stay the order of maturity. It
//     decides only when a record enters the wheel; when it leaves is hl_due_ms alone.
//   - A record moves to the wheel a little before append + floor (leadOf), not at it: a delay
//     just above a floor would otherwise be late by the time that its append took.
//   - "Wheel or lap" is decided once per record, from one clock reading. Reading the clock
//     twice released records early in the prototype.
//   - A slot is read ahead beyond the 64 records of its buffer when all of them mature
//     within a second: a resumed partition joins only the next fetch (FetchMaxWait), which
//     would limit one slot to a few hundred records a second.
//   - Trimming never removes a partition's last record: the embedded broker forgets the
//     offsets of an empty partition when it is killed, and would start again at 0.
//   - No commit means log start, a commit below the log start means log start and a counter:
//     records may be gone. A commit past the end means that the log lost records that were
//     acknowledged; continuing would skip whatever is appended there next, so Run ends with
//     an error until an operator has decided.
//   - A commit that was given up by the client may still reach the broker after a later one.
//     That rewinds, which repeats work; the unconditional commit every 30 s heals it and
//     keeps offsets of quiet slots from expiring.
//   - A slot whose watermark stands still (one record that cannot be produced) keeps a few
//     bytes for each record that passes it; at maxAhead the slot stops instead.
package retrytiers
