package dispatcher

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// A lane reads what is committed, so a transaction that its producer left open stops it: no
// record behind the transaction's first is handed out, by nobody's fault that a metric of
// ours would show. Only an operator can end such a transaction before the broker does.

// heldUp is a topic-partition whose last stable offset does not move.
type heldUp struct {
	stable int64
	since  time.Time
	alarm  time.Time // when it is told, again
}

type topicPartition struct {
	topic     string
	partition int32
}

// heldLanes are those that were seen at the last look.
type heldLanes map[topicPartition]heldUp

// look takes in one partition's offsets and returns how long it has been held, 0 if it is
// not. end must be asked for before stable: then stable < end says that records wait.
func (h heldLanes) look(tp topicPartition, stable, end int64, now time.Time) time.Duration {
	if stable >= end {
		delete(h, tp)
		return 0
	}
	was, ok := h[tp]
	if !ok || was.stable != stable { // another transaction: the one before has ended
		h[tp] = heldUp{stable: stable, since: now}
		return 0
	}
	return now.Sub(was.since)
}

// due says whether a hold of this age is to be told now; then it is not due again until
// another alarm has passed.
func (h heldLanes) due(tp topicPartition, age, alarm time.Duration, now time.Time) bool {
	was := h[tp]
	if age < alarm || now.Before(was.alarm) {
		return false
	}
	was.alarm = now.Add(alarm)
	h[tp] = was
	return true
}

// stableLoop measures how long transactions hold the owned lanes up, and names the producer
// of one that hangs.
func (d *Dispatcher) stableLoop(ctx context.Context) {
	adm, seen := kadm.NewClient(d.scans), heldLanes{}
	every(ctx, d.cfg.StableInterval, func() {
		if err := d.lookStable(ctx, adm, seen); err != nil && ctx.Err() == nil {
			d.throttled.warn("last stable offsets not known, a hung transaction would not be seen", "error", err)
		}
	})
}

func (d *Dispatcher) lookStable(ctx context.Context, adm *kadm.Client, seen heldLanes) error {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	names := []string{d.topics.events, d.topics.due}
	ends, err := adm.ListEndOffsets(ctx, names...)
	if err != nil {
		return fmt.Errorf("list ends: %w", err)
	}
	stables, err := adm.ListCommittedOffsets(ctx, names...)
	if err != nil {
		return fmt.Errorf("list last stable offsets: %w", err)
	}
	owned := d.owned()
	mine := make(map[topicPartition]bool, 2*len(owned))
	now := time.Now()
	for _, topic := range names {
		var oldest time.Duration
		records := int64(0)
		for _, p := range owned {
			tp := topicPartition{topic, p.number}
			mine[tp] = true
			end, ok1 := ends.Lookup(topic, p.number)
			stable, ok2 := stables.Lookup(topic, p.number)
			if !ok1 || !ok2 || end.Err != nil || stable.Err != nil {
				continue // what was known stands until a leader answers
			}
			records += max(0, end.Offset-stable.Offset)
			age := seen.look(tp, stable.Offset, end.Offset, now)
			oldest = max(oldest, age)
			if seen.due(tp, age, d.cfg.StableAlarm, now) {
				d.tellHung(ctx, adm, tp, stable.Offset, end.Offset, age)
			}
		}
		d.metrics.unstableSeconds.WithLabelValues(d.topics.room(topic)).Set(oldest.Seconds())
		d.metrics.unstableRecords.WithLabelValues(d.topics.room(topic)).Set(float64(records))
	}
	for tp := range seen {
		if !mine[tp] {
			delete(seen, tp)
		}
	}
	return nil
}

// tellHung names the producer whose transaction holds a lane, as far as the broker tells.
func (d *Dispatcher) tellHung(ctx context.Context, adm *kadm.Client, tp topicPartition, stable, end int64, age time.Duration) {
	args := []any{"topic", tp.topic, "partition", tp.partition, "stable_offset", stable, "end_offset", end, "age", age.Round(time.Second)}
	var producer kadm.DescribedProducer
	found := false
	described, err := adm.DescribeProducers(ctx, kadm.TopicsSet{tp.topic: {tp.partition: {}}})
	described.EachProducer(func(p kadm.DescribedProducer) {
		if p.CurrentTxnStartOffset >= 0 && (!found || p.CurrentTxnStartOffset < producer.CurrentTxnStartOffset) {
			producer, found = p, true
		}
	})
	if found {
		args = append(args, "producer_id", producer.ProducerID, "producer_epoch", producer.ProducerEpoch)
		var listed kadm.ListedTransactions
		listed, err = adm.ListTransactions(ctx, []int64{producer.ProducerID}, nil)
		for id := range listed {
			args = append(args, "transactional_id", id)
		}
	}
	if err != nil {
		args = append(args, "error", err)
	}
	d.log.Error("an open transaction holds the lane up: nothing behind it is delivered until it ends; abort it (kafka-transactions.sh abort) when its producer is gone", args...)
}
