package dispatcher

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/attempt"
)

// rowWriter produces attempt records, all of a lane into one partition, in order. It is one
// producer for the process: what was acked last bounds from above what was acked before, and
// takeovers rest on that.
type rowWriter struct {
	client *kgo.Client
	topic  string
	n      int32
	ctx    context.Context

	mu   sync.Mutex
	next []int64 // per partition, offset behind the last row whose done has returned
}

func newRowWriter(ctx context.Context, client *kgo.Client, topic string, n int32) *rowWriter {
	return &rowWriter{client: client, topic: topic, n: n, ctx: ctx, next: make([]int64, n)}
}

// write buffers the row of a lane and calls done from the client's promise goroutine. done
// must not block.
func (w *rowWriter) write(lane int32, row *attempt.Record, done func(offset int64, err error)) {
	rec := &kgo.Record{
		Topic: w.topic, Partition: attempt.PartitionFor(lane, w.n),
		Key:   []byte(row.EventID),
		Value: attempt.AppendRecord(make([]byte, 0, 192), row),
	}
	w.client.Produce(w.ctx, rec, func(r *kgo.Record, err error) {
		done(r.Offset, err)
		if err != nil {
			return
		}
		// After done: a commit in between would name an offset behind a row whose slot
		// does not know of it yet.
		w.mu.Lock()
		w.next[r.Partition] = max(w.next[r.Partition], r.Offset+1)
		w.mu.Unlock()
	})
}

// acked returns the offset behind the last acked row of a partition, 0 before the first.
func (w *rowWriter) acked(partition int32) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next[partition]
}
