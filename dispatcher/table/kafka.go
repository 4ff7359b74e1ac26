package table

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// pollWait is the longest a fetch waits for news, so a proof is renewed at least that often.
	pollWait = 250 * time.Millisecond
	// askWait is the same while someone waits for a proof: a moment, so that a reader that is
	// behind does not spin.
	askWait = 5 * time.Millisecond
	// maxGap without an answer makes the view be loaded anew. It must stay well below the
	// time that a tombstone is kept (delete.retention.ms, 24 h unless the topic says less).
	maxGap = time.Hour
	// txnTimeout ends the transaction of a writer that died; until then the last stable
	// offset stands still, unless another writer takes over and ends it.
	txnTimeout = 10 * time.Second
	// openLimit is how long a live writer may take between its first record and the end of its
	// transaction before another one takes it for dead and fences it.
	openLimit = 500 * time.Millisecond
	// settleLimit bounds what must be finished although the caller has given up: ending a
	// transaction and finding out how it ended.
	settleLimit = 15 * time.Second
	// abortLimit bounds the courtesy of ending a transaction that failed.
	abortLimit = 2 * time.Second
	// maxChanges in one Update; kgo buffers all of them before it sends the first.
	maxChanges = 50_000
)

// readOptions are those of a client that only sends raw requests: the base alone.
func readOptions(base []kgo.Opt) []kgo.Opt { return slices.Clone(base) }

// writeOptions are those of one incarnation of the fenced producer.
func writeOptions(base []kgo.Opt, topic, id string) []kgo.Opt {
	return append(slices.Clone(base),
		kgo.TransactionalID(id),                        // one writer at a time, whoever was initialised last
		kgo.TransactionTimeout(txnTimeout),             // see txnTimeout
		kgo.DefaultProduceTopic(topic),                 // one writer, one topic
		kgo.RecordPartitioner(kgo.ManualPartitioner()), // partition 0, the only one
		kgo.ProducerLinger(0),                          // all records are there before the flush
		kgo.ManualFlushing(),                           // one batch where it fits: kfake compacts past open transactions, but never the last batch
		kgo.MaxBufferedRecords(maxChanges),             // ErrMaxBuffered instead of a block that no flush would end
		kgo.MetadataMinAge(100*time.Millisecond),       // a moved leader is found at once, not after 5 s
		kgo.RecordDeliveryTimeout(settleLimit),         // a broker that is away fails the attempt, it does not hang it
		kgo.RetryTimeout(settleLimit),                  // the same for the requests to the coordinator
	)
}
