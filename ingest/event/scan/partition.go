package scan

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	retryBudget = 30 * time.Second // a rolling restart of a broker fits; longer is the caller's decision
	answerLimit = 5 * time.Second  // beyond the long poll; a hung leader is then left for fresh metadata
	cachedLimit = time.Minute      // age of metadata that is good enough for a first try
)

// partition finds the leader of one partition and sends requests to it. Not safe for
// concurrent use.
type partition struct {
	cl        *kgo.Client
	topic     string
	number    int32
	committed bool // read_committed: markers and aborted records are hidden, the end is the LSO

	known  bool // leader, epoch and id below may be used
	fresh  bool // the next resolve must ask a broker
	served bool // a request with this id succeeded once: a changed id is another topic
	id     [16]byte
	leader int32
	epoch  int32

	floored bool  // floor belongs to this leader epoch
	floor   int64 // the end that ListOffsets gave in this leader epoch
}

func newPartition(cl *kgo.Client, topic string, number int32, committed bool) *partition {
	return &partition{cl: cl, topic: topic, number: number, committed: committed}
}

func (p *partition) level() int8 {
	if p.committed {
		return 1
	}
	return 0
}

// retry runs op until it succeeds, fails for good, the budget is spent or ctx is done. Each
// failure makes the next try look up the leader anew.
func (p *partition) retry(ctx context.Context, verb string, op func(context.Context) error) error {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(10*time.Millisecond),
		backoff.WithMaxInterval(time.Second),
		backoff.WithMaxElapsedTime(retryBudget),
	)
	err := backoff.Retry(func() error {
		err := p.resolve(ctx)
		if err == nil {
			err = op(ctx)
		}
		if err == nil {
			p.served = true
			return nil
		}
		if ctx.Err() != nil {
			return backoff.Permanent(ctx.Err())
		}
		if !Retriable(err) {
			return backoff.Permanent(err)
		}
		p.known, p.fresh = false, true
		return err
	}, backoff.WithContext(b, ctx))
	if err != nil {
		return fmt.Errorf("%s %s[%d]: %w", verb, p.topic, p.number, err)
	}
	return nil
}

// resolve looks up topic id, leader and leader epoch unless they are known.
func (p *partition) resolve(ctx context.Context) error {
	if p.known {
		return nil
	}
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(p.topic)
	req.Topics = append(req.Topics, t)

	ctx, cancel := context.WithTimeoutCause(ctx, answerLimit, errNoAnswer)
	defer cancel()
	var resp *kmsg.MetadataResponse
	var err error
	if p.fresh {
		resp, err = req.RequestWith(ctx, p.cl)
	} else {
		resp, err = p.cl.RequestCachedMetadata(ctx, req, cachedLimit)
	}
	if err != nil {
		return attemptError(ctx, err)
	}
	for i := range resp.Topics {
		rt := &resp.Topics[i]
		if rt.Topic == nil || *rt.Topic != p.topic {
			continue
		}
		if err := kerr.ErrorForCode(rt.ErrorCode); err != nil {
			return err
		}
		for j := range rt.Partitions {
			if rp := &rt.Partitions[j]; rp.Partition == p.number {
				return p.adopt(rt.TopicID, rp)
			}
		}
	}
	return kerr.UnknownTopicOrPartition
}

func (p *partition) adopt(id [16]byte, rp *kmsg.MetadataResponseTopicPartition) error {
	if p.served && id != p.id {
		return ErrTopicReplaced
	}
	if err := kerr.ErrorForCode(rp.ErrorCode); err != nil && rp.Leader < 0 {
		return err
	}
	if rp.Leader < 0 {
		return kerr.LeaderNotAvailable
	}
	if rp.Leader != p.leader || rp.LeaderEpoch != p.epoch || rp.LeaderEpoch < 0 || id != p.id {
		p.floored = false
	}
	p.id, p.leader, p.epoch, p.known = id, rp.Leader, rp.LeaderEpoch, true
	return nil
}

// ask sends one request to the leader. The client does not retry it: it would stay with a
// broker that is gone although the partition has another leader by now.
func (p *partition) ask(ctx context.Context, wait time.Duration, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, wait+answerLimit, errNoAnswer)
	defer cancel()
	resp, err := p.cl.Broker(int(p.leader)).Request(ctx, req)
	if err != nil {
		return nil, attemptError(ctx, err)
	}
	return resp, nil
}

// attemptError tells the attempt's own time limit, which is worth a retry, from the caller's.
func attemptError(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(context.Cause(ctx), errNoAnswer) {
		return errNoAnswer
	}
	return err
}
