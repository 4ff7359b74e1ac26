package scan

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	fetchBytes = 4 << 20 // a broker gives at least one batch, however large
	// An answer without a batch below the end has to come this often, this far apart, before
	// the rest up to the end counts as gone.
	holeAnswers = 3
	holePause   = 20 * time.Millisecond
)

var decompressor = kgo.DefaultDecompressor()

// answer is what one fetch showed.
type answer struct {
	recs  []*kgo.Record
	next  int64 // everything below it that can be seen has been seen
	end   int64 // the partition's end at a moment after sent
	shown int64 // the end by this answer alone: only below it does "no batch" mean "no record"
	sent  time.Time
	bare  bool // no batch came
}

// read fetches at from. It comes back with records, or with a moved position, or with
// next == from when there is nothing up to the end.
func (p *partition) read(ctx context.Context, from int64, wait time.Duration) (answer, error) {
	for bare := 1; ; bare++ {
		var a answer
		err := p.retry(ctx, "fetch", func(ctx context.Context) (err error) {
			a, err = p.fetchOnce(ctx, from, wait)
			return err
		})
		if errors.Is(err, kerr.OffsetOutOfRange) {
			return p.refused(ctx, from)
		}
		if err != nil || !a.bare || a.shown <= from {
			return a, err
		}
		if bare == holeAnswers {
			a.next = a.shown
			return a, nil
		}
		wait = holePause
	}
}

// refused decides what OFFSET_OUT_OF_RANGE at from means: the two ends of the log do. A
// position between them is refused by a leader that is behind for a moment, and by kfake for
// a log without any record whose start is lower; reading at the start tells the latter.
func (p *partition) refused(ctx context.Context, from int64) (answer, error) {
	start, err := p.list(ctx, "list start of", earliest)
	if err != nil {
		return answer{}, err
	}
	end, err := p.list(ctx, "list end of", latest)
	if err != nil {
		return answer{}, err
	}
	if from < start || from > end {
		return answer{}, &OutOfRangeError{Topic: p.topic, Partition: p.number, Offset: from, Start: start, End: end}
	}
	var a answer
	err = p.retry(ctx, "fetch", func(ctx context.Context) (err error) {
		if a, err = p.fetchOnce(ctx, start, holePause); err == nil && a.bare {
			return nil
		}
		if a, err = p.fetchOnce(ctx, from, holePause); errors.Is(err, kerr.OffsetOutOfRange) {
			return errRefused
		}
		return err
	})
	if err != nil {
		return answer{}, err
	}
	if a.bare {
		a.next = max(from, a.shown)
	}
	return a, nil
}

func (p *partition) fetchOnce(ctx context.Context, from int64, wait time.Duration) (answer, error) {
	if !p.floored {
		end, err := p.listOnce(ctx, latest)
		if err != nil {
			return answer{}, err
		}
		p.floor, p.floored = end, true
	}
	sent := time.Now()
	kresp, err := p.ask(ctx, wait, p.fetchRequest(from, wait))
	if err != nil {
		return answer{}, err
	}
	resp, ok := kresp.(*kmsg.FetchResponse)
	if !ok {
		return answer{}, errNoAnswer
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return answer{}, err
	}
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if rp := &resp.Topics[i].Partitions[j]; rp.Partition == p.number {
				return p.decode(rp, from, sent)
			}
		}
	}
	return answer{}, errNoAnswer // throttled: the client itself waits before its next request
}

func (p *partition) fetchRequest(from int64, wait time.Duration) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest() // session epoch -1: no fetch session
	req.MaxWaitMillis = int32(wait.Milliseconds())
	req.MinBytes = 1
	req.MaxBytes = fetchBytes
	req.IsolationLevel = p.level()
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = p.topic
	rt.TopicID = p.id
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition = p.number
	rp.CurrentLeaderEpoch = p.epoch
	rp.FetchOffset = from
	rp.PartitionMaxBytes = fetchBytes
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

func (p *partition) decode(rp *kmsg.FetchResponseTopicPartition, from int64, sent time.Time) (answer, error) {
	if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
		return answer{}, err
	}
	o := kgo.ProcessFetchPartitionOpts{Offset: from, Topic: p.topic, Partition: p.number}
	end := rp.HighWatermark
	if p.committed {
		o.IsolationLevel = kgo.ReadCommitted()
		end = rp.LastStableOffset
	}
	fp, next := kgo.ProcessFetchPartition(o, rp, decompressor, nil)
	if fp.Err != nil {
		// Nothing behind the fault is known, so the position stays behind the last good record.
		if len(fp.Records) == 0 {
			return answer{}, fmt.Errorf("decode at offset %d: %w", from, fp.Err)
		}
		next = fp.Records[len(fp.Records)-1].Offset + 1
	}
	if len(rp.RecordBatches) > 0 && next <= from {
		return answer{}, fmt.Errorf("decode at offset %d: no whole batch in %d bytes", from, len(rp.RecordBatches))
	}
	return answer{
		recs: fp.Records, next: next, end: max(end, p.floor), shown: end, sent: sent, bare: len(rp.RecordBatches) == 0,
	}, nil
}
