// Package ledger turns completions that come in any order into the one offset that is
// safe to commit, for one partition of one topic. It is pure: no clock, no goroutine, no
// Kafka; whoever owns the partition guards it with the lane's lock.
//
// A record is opened when it is read and done when everything that follows from it is
// durable. The watermark is the lowest offset that is still open, or the next offset to
// read when none is. Committing it never skips a record and repeats at most what is
// completed above it, and that part is written beside the offset as commit metadata
// (Metadata), so that the next owner repeats only what was in flight.
//
// File map: ledger.go the window of one partition; marks.go completions known before the
// record is read; metadata.go the codec of the commit metadata.
//
// Non-obvious:
//   - Offsets are not dense. Transaction markers, compaction and trimming leave gaps, so
//     the window holds records that were read, not offsets; whatever lies between two of
//     them counts as done. A gap at the end is closed by Skip, without which a partition
//     whose last offset is a marker would never reach zero lag.
//   - Marks above Next are part of DoneAbove. A new owner commits before it has re-read
//     them, and leaving them out would forget what its predecessor had finished.
//   - The metadata carries a checksum over itself and its watermark. A wrong bit there is
//     not a duplicate, it is a lost event; and metadata beside an offset that somebody
//     reset with a tool must not apply.
//   - Metadata is cut to a prefix when it is over the broker's limit (4,096 bytes by
//     default): a missing bit only repeats work.
package ledger
