package lane

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// maxPoll bounds the records of one poll, so that commands wait no longer than it takes to
// hand this many over.
const maxPoll = 2000

// Reader reads partitions that it is told to, each from the offset it is told. One
// goroutine (Run) polls and calls deliver and fail; Add, Remove, Pause and Resume may be
// called from any goroutine, also from within those callbacks, and take effect between two
// polls.
type Reader struct {
	cl      *kgo.Client
	deliver func(topic string, partition int32, recs []*kgo.Record)
	fail    func(topic string, partition int32, err error)

	mu       sync.Mutex // guards commands, wake and closed
	commands []command
	wake     context.CancelFunc // ends the poll that is waiting
	closed   bool
}

// command is a step for the polling goroutine; done is nil for those nobody waits for.
type command struct {
	do   func()
	done chan struct{}
}

// NewReader opens a client without a group. deliver gets records in offset order per
// partition; the slice and the records are the callee's to keep. fail gets errors that the
// client does not retry by itself, an offset out of range among them: there is no reset
// policy, since skipping is never right. The partition stays added.
func NewReader(opts []kgo.Opt, deliver func(string, int32, []*kgo.Record), fail func(string, int32, error)) (*Reader, error) {
	all := append([]kgo.Opt{}, opts...)
	all = append(all,
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), // out of range is the owner's decision
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{}),
	)
	cl, err := kgo.NewClient(all...)
	if err != nil {
		return nil, fmt.Errorf("open reader client: %w", err)
	}
	return &Reader{cl: cl, deliver: deliver, fail: fail}, nil
}

// Client is the reader's client, for requests that need no group.
func (r *Reader) Client() *kgo.Client { return r.cl }

// Run polls until ctx is done, then closes the client.
func (r *Reader) Run(ctx context.Context) error {
	defer r.cl.Close()
	defer r.close()
	for ctx.Err() == nil {
		pollCtx, cancel := context.WithCancel(ctx)
		r.runCommands(cancel)
		fetches := r.cl.PollRecords(pollCtx, maxPoll)
		cancel()
		if fetches.IsClientClosed() {
			return errors.New("reader client closed under its poll loop")
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if p.Err != nil && !errors.Is(p.Err, context.Canceled) {
				r.fail(p.Topic, p.Partition, p.Err)
			}
			if len(p.Records) > 0 {
				r.deliver(p.Topic, p.Partition, p.Records)
			}
		})
	}
	return nil
}

// runCommands runs what is queued and installs the wake-up of the poll to come, in one
// critical section each, so that no command can fall between the two unseen.
func (r *Reader) runCommands(wake context.CancelFunc) {
	for {
		r.mu.Lock()
		pending := r.commands
		r.commands = nil
		if len(pending) == 0 {
			r.wake = wake
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		for _, c := range pending {
			c.do()
			if c.done != nil {
				close(c.done)
			}
		}
	}
}

func (r *Reader) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, c := range r.commands {
		if c.done != nil {
			close(c.done)
		}
	}
	r.commands = nil
}

func (r *Reader) enqueue(c command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed { // nothing is read any more: every command has taken effect
		if c.done != nil {
			close(c.done)
		}
		return
	}
	r.commands = append(r.commands, c)
	if r.wake != nil {
		r.wake()
	}
}

// Add starts reading a partition at an offset, whatever was read of it before.
func (r *Reader) Add(topic string, partition int32, at int64) {
	one := map[string][]int32{topic: {partition}}
	r.enqueue(command{do: func() {
		r.cl.ResumeFetchPartitions(one)
		r.cl.RemoveConsumePartitions(map[string][]int32{topic: {partition}})
		r.cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(at)}})
	}})
}

// Remove stops reading a partition and returns when no record of it will be delivered any
// more. It must not be called from deliver or fail, which run in the goroutine it waits for;
// RemoveLater is for them.
func (r *Reader) Remove(topic string, partition int32) {
	done := make(chan struct{})
	r.enqueue(command{do: r.remove(topic, partition), done: done})
	<-done
}

// Settle returns when every command that was queued before it has taken effect: from then on
// no record is delivered that was read under an earlier Add of a partition that was removed.
// A new owner of the same partition number calls it before it accepts records: it would take
// the hole before a stray one for compaction. Not to be called from deliver or fail.
func (r *Reader) Settle() {
	done := make(chan struct{})
	r.enqueue(command{do: func() {}, done: done})
	<-done
}

// RemoveLater is Remove without waiting.
func (r *Reader) RemoveLater(topic string, partition int32) {
	r.enqueue(command{do: r.remove(topic, partition)})
}

func (r *Reader) remove(topic string, partition int32) func() {
	return func() {
		r.cl.RemoveConsumePartitions(map[string][]int32{topic: {partition}})
		r.cl.ResumeFetchPartitions(map[string][]int32{topic: {partition}})
	}
}

// Pause stops fetching a partition. Records already polled are still delivered, those
// fetched but not polled are fetched again after Resume.
func (r *Reader) Pause(topic string, partition int32) {
	r.enqueue(command{do: func() { r.cl.PauseFetchPartitions(map[string][]int32{topic: {partition}}) }})
}

// Resume undoes Pause.
func (r *Reader) Resume(topic string, partition int32) {
	r.enqueue(command{do: func() { r.cl.ResumeFetchPartitions(map[string][]int32{topic: {partition}}) }})
}
