// Package local is Kafka on a laptop: the broker of "hookline dev", in the process and on disk.
//
// Owns: the life of a kfake cluster with a data directory, everything in that directory, and
// the retention times of the topics on it. Reads and writes: the data directory (kfake's files
// and, by kfake's formats, the same files while the broker is down), one loopback port.
//
// Promises: what was acknowledged is there after the process ended, however it ended: records,
// topics and their ids, commits with their metadata, committed transactions whole, aborted and
// abandoned ones never. End offsets do not go down. A commit never lies past the end of its
// log. Two processes never share a directory. All of that is about the end of the process. A
// power loss takes what the kernel had not written, and commits that then lie past the end are
// taken back and logged; BrokerConfig.SyncWrites makes each write wait for the disk, which no
// test here can prove.
//
// It does not replicate, authenticate or encrypt, listens on loopback only, and is not the
// broker for a deployment. kfake keeps formats to itself: go.mod pins its version, and an
// upgrade must pass the tests here.
//
// # kfake is not Kafka
//
// What it does, what is done about it, and the test that holds both.
//
//   - A torn tail of groups.log or pids.log is skipped when it loads, not cut; what is appended
//     behind it is gone at the next load. Cut before it loads: frames.go,
//     TestTornTailOfCommitsIsCut.
//   - After a kill it replays every batch of every partition in memory at once. Recovery scans
//     one batch at a time and writes the snapshot that makes it load without: partition.go.
//   - The replay aborts an abandoned transaction in memory only: with the producer's next commit
//     and the next kill it is committed. An abort marker goes into the log instead, and the
//     producer to its next epoch: TestAbandonedTransactionStaysAborted,
//     TestClientThatOutlivesTheCrashIsFenced.
//   - A batch whose index entry was not written counts as not of a transaction:
//     TestTransactionWithoutIndexEntryIsAborted.
//   - A transaction that was open over a clean stop holds the last stable offset for ever after a
//     kill: TestLastStableOffsetIsNotStuck.
//   - The sequence windows of the last clean stop are loaded however old they are:
//     TestOldSequenceWindowsAreForgotten.
//   - A partition without records has no file that holds its offsets; they start again at zero,
//     after a clean stop too. No partition's last record is ever deleted: guard.go (whoever
//     asks), janitor.go, TestEmptiedPartitionStartsAgainAtZero.
//   - Retention deletes last records, and applies its default of 7 days to compacted topics. Off:
//     TopicConfigs; the Janitor applies the times: TestRetentionOfBrokerDeletesNothing,
//     TestJanitorTrims.
//   - Compaction deletes before it writes, ignores write errors, lets an open transaction
//     supersede a committed record, runs hourly, and not at all after a restart. Ours runs by
//     size, behind a pre-image, while no transaction is open: compactor.go, preimage.go,
//     TestKillDuringCompaction, TestCompactionCutShortIsUndone,
//     TestCompactionWaitsForOpenTransactions.
//   - Commit metadata has no limit. It has here: TestOverlongCommitMetadataIsRefused.
//   - LogAppendTime of a topic is ignored: a record has its producer's timestamp. Readers take
//     min(record timestamp, own clock): TestLogAppendTimeOfTopicIsIgnored.
//   - A batch costs about 80 bytes of heap while its segment is there, trimmed or not. Segments
//     are small: TestTrimGivesSegmentsBack.
//   - Commits of a group without members expire after a week, transactional ids too. As late as
//     it can be set: brokerConfigs, TestCommitsOutliveAMonth.
//   - A request key that it does not know ends the process, and four bytes make it allocate up
//     to 4 GiB: conn.go, TestJunkOnThePortIsTurnedAway.
//
// # Groups and transactions
//
// A commit is written before it is answered, whether or not the group subscribes to the topic.
// It is refused for a stale generation, an unknown member, a replaced instance id, and between
// the end of a join and the leader's sync. Members do not survive a kill; generation, commits
// and metadata do, and the generation grows with the next join, so a commit of before the kill
// is refused. A static member takes its place back at once, after a kill and after a clean
// stop. A dynamic member that did not leave before a clean stop is waited for until its session
// ends. See group_test.go.
//
// Not worked round: InitProducerID accepts an old epoch of a known producer id, where Kafka
// fences it (a kgo client does not send that after it was fenced; whoever fences must read
// again after each initialisation). A transaction over several partitions may end in some of
// them when the process is killed while it ends. A batch that was written but not answered is
// written twice if its client outlives the broker and sends it again. What DeleteRecords took
// from inside a segment is back after a kill: log starts may go down, never above a commit.
//
// # Non-obvious
//
//   - The clean marker is written last and removed before anything else happens. Without it, the
//     start recovers; recovery can be cut short anywhere and repeated.
//   - The fence of abandoned transactions is written before their abort markers: behind the
//     markers, nobody can tell any more whose they were.
//   - A control function of kfake holds the cluster: no other request runs until it returns.
//     That is what makes a compaction and its pre-image one step.
//   - The pre-image is hard links. kfake removes and creates files when it compacts, so the
//     links keep the old content; it appends in place, so before the compaction both names
//     see the same bytes.
//   - A client must be given kgo.DisableClientMetrics: closing it after its broker takes 5 s
//     otherwise.
package local
