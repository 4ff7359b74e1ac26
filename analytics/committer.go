package analytics

import (
	"context"
	"sync"
	"time"

	"github.com/hookline/hookline/dispatcher/lane"
)

// requestTimeout bounds one request to the cluster, a commit among them: a revoke waits for
// the commit that is in flight.
const requestTimeout = 5 * time.Second

// member is what the committer needs of lane.Member.
type member interface {
	Commit(ctx context.Context, offsets []lane.Offset) error
}

// commitRequest is one partition's part of a commit.
type commitRequest struct {
	feed   *feed
	offset lane.Offset
	done   chan error // capacity 1
}

// committer sends the commits of all partitions, one request at a time. Those that come while one is
// under way go together in the next.
type committer struct {
	member   member
	requests chan *commitRequest

	// mu is held over every commit and while revoke ends ownership: the broker takes the commit
	// of a live member for a partition that it has lost.
	mu sync.Mutex
}

func newCommitter(m member) *committer {
	return &committer{member: m, requests: make(chan *commitRequest)}
}

// run sends commits until ctx is done.
func (c *committer) run(ctx context.Context) {
	for {
		var batch []*commitRequest
		select {
		case <-ctx.Done():
			return
		case r := <-c.requests:
			batch = append(batch, r)
		}
		for more := true; more; {
			select {
			case r := <-c.requests:
				batch = append(batch, r)
			default:
				more = false
			}
		}
		c.send(batch)
	}
}

// send commits what is still owned. One refusal fails them all: each asks again.
func (c *committer) send(batch []*commitRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var offsets []lane.Offset
	var live []*commitRequest
	for _, r := range batch {
		if !r.feed.owned.Load() {
			r.done <- errNotOwned
			continue
		}
		offsets, live = append(offsets, r.offset), append(live, r)
	}
	if len(live) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	err := c.member.Commit(ctx, offsets)
	for _, r := range live {
		r.done <- err
	}
}

// commit waits for one commit.
func (c *committer) commit(ctx context.Context, f *feed, at int64, metadata string) error {
	r := &commitRequest{feed: f, offset: lane.Offset{Topic: f.topic, Partition: f.partition, At: at, Metadata: metadata}, done: make(chan error, 1)}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case c.requests <- r:
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-r.done:
		return err
	}
}
