// Package lane gives a process exclusive work on partitions: who owns a partition
// (Member), what of it may be committed and by whom (Member.Commit), and the records of
// exactly the owned partitions (Reader). The dispatcher and the retry tiers both stand on
// it; neither knows the other.
//
// A Member is one member of a consumer group that never fetches: the topics it subscribes
// to are paused in its client for good. The assignment is all it is after. The owner then
// reads the assigned partitions, and any that belong to them by number, through a Reader.
//
// It promises: callbacks come one at a time; Commit uses the membership of this process, so
// a broker refuses a member that was replaced; a record read before Remove is never handed
// over after it.
//
// It does not decide when to commit or what: a broker accepts the commit of a live member
// for a partition that it no longer owns, and that commit would rewind the new owner. The
// caller must check ownership under the lock that its Revoked takes.
//
// # Non-obvious
//
//   - Pause in franz-go survives a rebalance and a remove. Add therefore resumes, removes
//     and adds, in this order: adding a partition that was not removed is ignored.
//   - Remove and Add run between two polls, in the polling goroutine. If they ran beside
//     it, a batch that was polled before them could reach the next owner of the same
//     partition number, who would take the hole before it for compaction and lose it.
//   - A static member (Config.InstanceID) that only closes keeps its partitions until the
//     session times out. A clean stop therefore leaves by instance id, unless
//     Config.KeepMembership says that the same instance comes back at once.
//   - Commits name topics by id where the broker can: a topic that was deleted and made
//     again refuses the offsets of its predecessor.
package lane
