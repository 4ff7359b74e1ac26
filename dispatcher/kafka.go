package dispatcher

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

// topics are the full names this room uses and the partition counts it found.
type topics struct {
	prefix                                                  string
	events, due, dead, attempts, endpoints, control, dedupe string
	states                                                  string
	lanes, deadN, attemptsN                                 int32
}

func newTopics(prefix string) topics {
	return topics{
		prefix: prefix,
		events: prefix + event.EventsSuffix, due: prefix + tier.DueSuffix, dead: prefix + tier.DeadSuffix,
		attempts: prefix + attempt.Suffix, endpoints: prefix + endpoint.Suffix,
		control: prefix + tier.ControlSuffix, dedupe: prefix + tier.DedupeSuffix,
		states: prefix + tier.EndpointStateSuffix,
	}
}

// room is a topic's name without the prefix: a bounded metric label.
func (t *topics) room(topic string) string { return strings.TrimPrefix(topic, t.prefix) }

// load asks for partition counts. Lanes pair partitions by number, so unequal counts would
// leave deliveries that nobody reads.
func (t *topics) load(ctx context.Context, adm *kadm.Client) error {
	listed, err := adm.ListTopics(ctx, t.events, t.due, t.dead, t.attempts, t.dedupe)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return fmt.Errorf("look up topics (run `hookline topics create` first): %w", err)
	}
	count := func(name string) int32 { return int32(len(listed[name].Partitions)) }
	t.lanes, t.deadN, t.attemptsN = count(t.events), count(t.dead), count(t.attempts)
	for _, pair := range []string{t.due, t.dedupe} {
		if n := count(pair); n != t.lanes {
			return fmt.Errorf("%s has %d partitions and %s has %d: they must be equal", pair, n, t.events, t.lanes)
		}
	}
	return nil
}

// producerOpts are shared by copies and rows: both must survive everything but the broker's
// refusal.
func producerOpts(base []kgo.Opt, linger time.Duration) []kgo.Opt {
	return append(append([]kgo.Opt{}, base...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), // slots, lanes and dead letters name their partition
		kgo.RequiredAcks(kgo.AllISRAcks()),             // an ack is a promise (with the idempotent default)
		kgo.ProducerLinger(linger),
		kgo.MaxBufferedRecords(1<<20),      // permits and windows bound us; Produce must not block in a promise
		kgo.ProducerBatchMaxBytes(1000000), // the broker's default of max.message.bytes, less the batch head
		kgo.ProducerBatchCompression(kgo.Lz4Compression(), kgo.NoCompression()),
	)
}

// readerOpts are for the lanes' records.
func readerOpts(base []kgo.Opt) []kgo.Opt {
	return append(append([]kgo.Opt{}, base...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), // a producer's aborted transaction is not an event
		kgo.KeepControlRecords(),                     // and the marker at its end is an offset to commit
		kgo.FetchMaxWait(250*time.Millisecond),       // Resume and Add wait for a fetch under way
		kgo.FetchMaxBytes(16<<20),                    // per broker
		kgo.FetchMaxPartitionBytes(1<<20),            // no less than max.message.bytes
		kgo.MaxConcurrentFetches(4),
	)
}
