package ingest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event"
)

// deliveryTimeout ends records that the broker has not answered for. The clients were
// answered long before (AckTimeout); what still waits keeps the door shut, so that a long
// outage is answered by a quick 503 and not by two seconds for each request.
const deliveryTimeout = 30 * time.Second

// ProducerOptions are the options of the producing client beside the shared ones. maxBatch is
// what the topic takes.
func ProducerOptions(cfg Config, maxBatch int32) []kgo.Opt {
	return []kgo.Opt{
		// A 202 promises that the event survives any one broker. Idempotence is on by
		// default and stays on: a repeat after a lost answer would be a second event.
		kgo.RequiredAcks(kgo.AllISRAcks()),
		// The partition is part of an event's identity: murmur2 as in Java, whatever the
		// state of the partitions.
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		// Enough to batch what arrives together, little beside a round trip. The default
		// of 10 ms would be most of a publish.
		kgo.ProducerLinger(time.Millisecond),
		// Both are hard stops behind the admission at 80 %: TryProduce fails instead of
		// waiting. By records, since a small event costs about 2 KiB whatever its size.
		kgo.MaxBufferedBytes(cfg.MaxBufferedBytes),
		kgo.MaxBufferedRecords(max(1000, cfg.MaxBufferedBytes/recordOverhead)),
		// Not above what the topic takes, or a full batch would be refused for its size.
		kgo.ProducerBatchMaxBytes(maxBatch),
		kgo.RecordDeliveryTimeout(deliveryTimeout),
		// How long a broker may wait for its replicas, and how long we wait for the broker
		// before the connection counts as dead and its records go to another.
		kgo.ProduceRequestTimeout(5 * time.Second),
		kgo.RequestTimeoutOverhead(5 * time.Second),
		// A new leader is looked for often: until it is found the door is shut.
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 250 * time.Millisecond }),
	}
}

// errTopicTooSmall is a setting at fault, not a broker that is away.
var errTopicTooSmall = errors.New("events topic takes smaller messages than ingest accepts")

const (
	// brokerDefaultMaxMessage is max.message.bytes where the broker names none.
	brokerDefaultMaxMessage = 1048588
	// clientMaxBatch is kgo's default batch size, 36 bytes below Kafka's default limit.
	clientMaxBatch = 1_000_012
)

// checkTopic asks for max.message.bytes of the events topic and returns the size that a
// batch may have.
func checkTopic(ctx context.Context, cl *kgo.Client, topic string, maxBody int) (int32, error) {
	adm := kadm.NewClient(cl)
	details, err := adm.ListTopics(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("read metadata of %s: %w", topic, err)
	}
	if err := details.Error(); err != nil {
		return 0, fmt.Errorf("read metadata of %s: %w", topic, err)
	}
	configs, err := adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("read settings of %s: %w", topic, err)
	}
	limit := brokerDefaultMaxMessage
	for _, config := range configs {
		if config.Err != nil {
			return 0, fmt.Errorf("read settings of %s: %w", topic, config.Err)
		}
		for _, c := range config.Configs {
			if c.Key != "max.message.bytes" {
				continue
			}
			if limit, err = strconv.Atoi(c.MaybeValue()); err != nil {
				return 0, fmt.Errorf("read max.message.bytes of %s: %w", topic, err)
			}
		}
	}
	need := maxBody + event.HeaderRoom
	if need > limit {
		return 0, fmt.Errorf("%w: max_body %d + %d for headers is above max.message.bytes %d of %s; lower one or raise the other",
			errTopicTooSmall, maxBody, event.HeaderRoom, limit, topic)
	}
	return int32(min(limit, max(need, clientMaxBatch))), nil
}

// nothingAppended says whether err of a produce proves that the record is in no log, if it was
// in flight once at most (see wire). All else is an unknown outcome: the broker, or a replica,
// may have it.
func nothingAppended(err error) bool {
	switch {
	case errors.Is(err, kgo.ErrMaxBuffered): // refused by our own client at the door
		return true
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.InvalidTopicException): // there is no log
		return true
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed): // checked before the append
		return true
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge), errors.Is(err, kerr.InvalidRecord): // whole batch refused
		return true
	}
	return false
}
