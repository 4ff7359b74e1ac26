package scan

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Tail follows one partition by long polls. Not safe for concurrent use; give it a client of
// its own (see the package's Non-obvious list).
type Tail struct {
	p    *partition
	next int64
	sent time.Time
}

// NewTail returns a Tail that starts at offset from. It sends nothing.
func NewTail(cl *kgo.Client, topic string, number int32, from int64, readCommitted bool) *Tail {
	return &Tail{p: newPartition(cl, topic, number, readCommitted), next: from}
}

// Next sends one fetch that waits up to maxWait for something new. next is the new position:
// all that can be seen below it has been returned. end is the partition's end as of a moment
// after the fetch was sent, so next == end (or above) means that nothing was missing then.
// After an error the position is unchanged; an *OutOfRangeError stays until SeekTo.
func (t *Tail) Next(ctx context.Context, maxWait time.Duration) (recs []*kgo.Record, next, end int64, err error) {
	a, err := t.p.read(ctx, t.next, maxWait)
	if err != nil {
		return nil, t.next, 0, err
	}
	t.next, t.sent = a.next, a.sent
	return a.recs, a.next, a.end, nil
}

// Sent returns when the request of the last successful Next was sent, retries excluded.
func (t *Tail) Sent() time.Time { return t.sent }

// Position returns the offset that the next fetch starts at.
func (t *Tail) Position() int64 { return t.next }

// SeekTo moves the position.
func (t *Tail) SeekTo(offset int64) { t.next = offset }
