// Package scan reads one Kafka partition by raw Fetch requests to its leader, so that the
// caller knows up to which offset the log has been seen and not only which records came.
//
// Owns: the read loop, finding the leader, what counts as progress. Reads: any topic.
// Writes: nothing, and it joins no group. State: none beyond the position of a Tail.
//
// A consumer client hands out records only. It cannot answer "have I seen everything below
// offset N?" when the log ends in records that are never handed out: transaction markers,
// aborted transactions, records that compaction removed. Takeover, tables and replays need
// that answer, and waiting for a record that does not exist would be waiting for ever.
//
// Promises
//   - Range calls fn for every record with From <= offset < Until that a consumer of the
//     same isolation level would see, once, in order, and returns when the position has
//     reached Until, whatever the tail is made of.
//   - Records are valid after fn or Next returned. Their bytes are shared by the records of
//     one fetch, so keeping one small record keeps its fetch (at most 4 MiB) in memory.
//   - A changed leader, a lost connection and every retriable broker error are retried with
//     backoff for up to 30 s; nothing is skipped by a retry.
//   - Records that are gone (trimmed below the position, position past the end, topic
//     deleted and made again) are reported by a typed error, never passed over in silence.
//
// It does not commit, decode, cache or buffer ahead: one fetch is in flight per reader.
//
// Non-obvious
//   - A broker answers the requests of one connection in turn and kgo has one connection
//     for all fetches to a broker. A Tail that polls for 250 ms therefore delays every other
//     fetch of the same client by as much: give each Tail a client of its own. A Range whose
//     Until is at or below End never waits.
//   - Fetch v13 and later name the topic by its id. kgo picks the version, so both the name
//     and the id are filled in.
//   - After a leader change the new leader's high watermark may lag behind records that were
//     already acknowledged, and Fetch says nothing of it, while ListOffsets answers
//     OFFSET_NOT_AVAILABLE until it has caught up (KIP-207). A Tail therefore asks
//     ListOffsets once per leader epoch and never reports an end below that answer; without
//     this, "position equals end" right after a failover would prove an incomplete view.
//   - The fetch carries the leader epoch, so a leader that was replaced refuses it.
//   - An empty answer below the end means that the log holds nothing more up to that end
//     (all of it was compacted away or expired). Kafka may also answer so for an instant while it
//     cannot resolve its end, so the answer has to come three times before the hole is
//     stepped over.
//   - kfake moves the start of a log to the first record that survived a compaction, Kafka
//     leaves it. Begin a compacted topic at Start: from 0 a Range would report, rightly, that
//     there is nothing below.
//   - kgo.ProcessFetchPartition moves past a batch of unknown format and reports an error
//     with it. The position never follows an answer with an error: it stops behind the last
//     record that was decoded.
package scan
