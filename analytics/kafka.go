package analytics

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// readerOpts are those of the client that reads the three topics.
func readerOpts(base []kgo.Opt, batchBytes int64) []kgo.Opt {
	part := int32(min(max(batchBytes/8, 128<<10), 2<<20))
	return append(append([]kgo.Opt{}, base...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), // a record of an aborted transaction never happened
		kgo.FetchMaxWait(500*time.Millisecond),       // rows are seconds old anyway, and brokers are asked less
		kgo.FetchMaxPartitionBytes(part),             // what a partition that is full fetches again
		kgo.FetchMaxBytes(8<<20),                     // all partitions of a broker in one answer
		kgo.MaxConcurrentFetches(2),                  // bounds fetched-but-unpolled memory on big clusters
	)
}

// adminOpts are those of the client for requests without a group.
func adminOpts(base []kgo.Opt) []kgo.Opt { return append([]kgo.Opt{}, base...) }
