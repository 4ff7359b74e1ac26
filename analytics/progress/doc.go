// Package progress tells how far consumer groups have come: what they have committed, where
// logs end, how old the first record is that a group has not finished.
//
// Owns: the order in which offsets are looked at, on which proofs rest. Reads: offsets and
// single records of any topic. Writes: nothing; it joins no group. State: none.
//
//	progress.go  Reader: Committed, Ends
//	heads.go     the timestamp of one record per partition
//	lag.go       how far a group is behind, in time; Cached
//
// Non-obvious
//   - Committed is one request to the group's coordinator: offsets of one instant. Ends that
//     are asked for after it cover every record that was acked before that instant.
//   - A partition without a commit is at the start of its log.
package progress
