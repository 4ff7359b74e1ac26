// Package table shows a compacted topic of one partition as a table and changes it by
// compare-and-set.
//
// Owns: how such a topic is read to a provable end (Table) and written without a lost update
// (Writer). Reads and writes: the topic that it is given; it knows nothing of what the values
// mean. State: the view in memory, nothing on disk.
//
// # Table
//
// Run loads the topic, then follows it by fetches that wait up to 250 ms for news. A change is
// applied within milliseconds of being readable, and each answer that shows the position at
// the partition's end (the last stable offset) makes a proof: everything committed and readable
// when the fetch was SENT is in the view, and OnChange has returned for it. A proof is at most
// about 500 ms old while the brokers answer; it grows old, and the view stays, while they do not.
//
// # Writer
//
// Update is a real compare-and-set over any number of keys:
//
//	claim     initialise the transactional id: every other writer is fenced, its open
//	          transaction is ended before the broker answers
//	read      the view, up to the high watermark
//	fn        decides on that view
//	produce   all changes in one transaction
//	commit    refused by the brokers if anyone has claimed since
//	read back the changes: only then does Update return
//
// A claim is kept from one Update to the next, so a writer without rivals pays for it once. A
// fenced writer starts over: claim, read, fn. Crash order: until the commit is accepted nothing
// is visible, and what a dead writer left open is ended by the next claim or after 10 s.
//
// It does not order writers fairly, serve reads of the past, or work on a topic that anything
// else produces to.
//
// Non-obvious
//   - Kafka answers a commit before the markers that make it readable are in the partition. A
//     reader that proves its view right after that answer may miss the change, so Update reads
//     its own record back first. What Update has returned from is therefore covered by every
//     proof of a later time.
//   - An error at commit does not mean "not committed": the answer may have been lost, and kgo's
//     own repetition of the request may find itself fenced by the next writer. The record's
//     offset, producer id and epoch, read back after a new claim, decide.
//   - kgo can initialise a producer id anew by itself after some errors. That would claim the
//     topic for a view that was read earlier, so the records' own id and epoch must be those
//     of the claim, or the transaction is aborted.
//   - The view is read to the high watermark: up to the last stable offset only, a record of a
//     transaction that is about to be committed would be overlooked. If that one stays open for
//     500 ms, its writer counts as dead and a new claim ends it.
//   - Brokers of Kafka 4 give a new epoch with every commit (KIP-890), so the claim's epoch moves.
//   - kfake moves the start of the log when it compacts, and a reader that was away for longer
//     than tombstones are kept cannot know what was removed: in both cases, and after an hour
//     without an answer, the view is loaded anew beside the old one and OnChange hears the
//     difference, removed keys included.
//   - All changes of one fetch appear in the view at once. A transaction of more than 4 MiB may
//     span two fetches and then appears in two steps; a Writer never sees half of one.
//   - kfake compacts without regard to open transactions: an older value may be dropped in
//     favour of one that is then aborted. It never touches the last batch, so a transaction is
//     sent as one batch where it fits (1 MB).
package table
