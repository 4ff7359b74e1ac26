package retrytiers

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// readerOpts are those of the client that reads the slots.
func readerOpts(base []kgo.Opt) []kgo.Opt {
	return append(append([]kgo.Opt{}, base...),
		kgo.FetchMaxWait(250*time.Millisecond),   // a resumed slot joins the fetch after the one that waits
		kgo.FetchMaxPartitionBytes(128<<10),      // bounds what one slot may buffer: about one fetch
		kgo.FetchMaxBytes(16<<20),                // all slots of a broker in one answer
		kgo.MaxConcurrentFetches(4),              // bounds fetched-but-unpolled memory on big clusters
		kgo.MetadataMinAge(250*time.Millisecond), // a moved leader is found before a slot is late
	)
}

// producerOpts are those of the client that writes due, laps and poison. Acks from all
// replicas and idempotence are kgo's defaults; retries and delivery time stay unlimited,
// because what the producer gives up on its own would only come back to us.
func producerOpts(base []kgo.Opt, held int) []kgo.Opt {
	return append(append([]kgo.Opt{}, base...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),                             // due/p belongs to the lane of events/p
		kgo.ProducerLinger(time.Millisecond),                                       // part of the due error; batches form by themselves under load
		kgo.MaxBufferedRecords(held+1),                                             // the wheel is the bound: Produce must never block the loop
		kgo.ProducerBatchMaxBytes(1<<20),                                           // what the topics take (max.message.bytes), not kgo's lower default
		kgo.ProducerBatchCompression(kgo.SnappyCompression(), kgo.NoCompression()), // cheapest; records live for seconds
		kgo.MetadataMinAge(250*time.Millisecond),
	)
}
