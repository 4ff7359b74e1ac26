package dispatcher

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/ingest/event/scan"
)

// lines collects a log.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) has(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			return true
		}
	}
	return false
}

// TestHungTransactionIsSeenAndEnds leaves a transaction open in front of an event: the metric
// grows, an alarm names the producer, the other lane flows. When it is aborted all goes on,
// and nothing of it is delivered.
func TestHungTransactionIsSeenAndEnds(t *testing.T) {
	r := newRig(t, 2)
	r.endpoint("e", nil)
	var log lines
	r.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
	p := r.start("a", func(c *Config) {
		oneTenant(c)
		c.StableInterval, c.StableAlarm = 20*time.Millisecond, 300*time.Millisecond
	})
	txn := r.b.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(r.b.Prefix+"outbox"), kgo.TransactionTimeout(time.Minute))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	inTxn := func(end kgo.TransactionEndTry, bodies ...string) (finish func()) {
		t.Helper()
		if err := txn.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for _, body := range bodies {
			if err := txn.ProduceSync(ctx, r.direct(r.keyOf(0), 0, body, event.HeaderType, "a.b")).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		return func() {
			t.Helper()
			if err := txn.EndTransaction(ctx, end); err != nil {
				t.Fatal(err)
			}
		}
	}
	inTxn(kgo.TryCommit, `{"committed":1}`)()
	r.recv.wait(t, 1)

	abort := inTxn(kgo.TryAbort, `{"aborted":1}`, `{"aborted":2}`)
	r.produce(r.direct(r.keyOf(0), 0, `{"behind":1}`, event.HeaderType, "a.b"))
	eventually(t, "the metric", func() bool {
		return metricValue(t, p, "open_transaction_age_seconds") > 0.3 && metricValue(t, p, "open_transaction_records") == 3
	})
	eventually(t, "the alarm", func() bool {
		return log.has("an open transaction holds the lane up", "partition=0", "stable_offset=2", "producer_id=", "transactional_id="+r.b.Prefix+"outbox")
	})
	r.produce(r.direct(r.keyOf(1), 1, `{"other":1}`, event.HeaderType, "a.b"))
	r.recv.wait(t, 2)
	if p.Ready() != nil {
		t.Errorf("not ready, which a restart would not cure: %v", p.Ready())
	}
	stays(t, "nothing of lane 0", func() bool { return len(r.recv.all()) == 2 })

	abort()
	r.recv.wait(t, 3)
	eventually(t, "the metric to fall", func() bool {
		return metricValue(t, p, "open_transaction_age_seconds") == 0 && metricValue(t, p, "open_transaction_records") == 0
	})
	// Once more with nothing behind it: the end of the log is a marker then.
	inTxn(kgo.TryAbort, `{"aborted":3}`)()
	inTxn(kgo.TryCommit, `{"committed":2}`)()
	r.recv.wait(t, 4)
	inTxn(kgo.TryAbort, `{"aborted":4}`)()
	eventually(t, "a commit behind the last marker", func() bool { // a real broker writes it behind its answer
		end, err := scan.End(ctx, r.cl, r.topic(event.EventsSuffix), 0, false)
		return err == nil && r.committed(event.EventsSuffix, 0) == end
	})
	p.end(t)
	bodies := fmt.Sprint()
	for _, q := range r.recv.all() {
		bodies += q.body
	}
	if strings.Contains(bodies, "aborted") {
		t.Errorf("delivered %s", bodies)
	}
	q := r.start("b", oneTenant) // and a new owner reads over the markers
	r.produce(r.direct(r.keyOf(0), 0, `{"after":1}`, event.HeaderType, "a.b"))
	r.recv.wait(t, 5)
	q.end(t)
}

// keyOf is a message id of the partition.
func (r *rig) keyOf(partition int32) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("key-", i); event.Partition(key, r.lanes) == partition {
			return key
		}
	}
}

func TestHeldLanesAgeWhileTheirStableOffsetStands(t *testing.T) {
	h, tp, start := heldLanes{}, topicPartition{"t", 1}, time.Unix(1000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for i, step := range []struct {
		at          int
		stable, end int64
		age         int
		due         bool
	}{
		{0, 5, 5, 0, false},
		{1, 5, 9, 0, false},   // first seen
		{31, 5, 9, 30, false}, // below the alarm
		{61, 5, 99, 60, true},
		{62, 5, 99, 61, false}, // told a second ago
		{121, 5, 99, 120, true},
		{122, 7, 99, 0, false}, // another transaction
		{182, 7, 99, 60, true},
		{183, 99, 99, 0, false},
		{184, 99, 100, 0, false},
		{243, 99, 100, 59, false},
	} {
		age := h.look(tp, step.stable, step.end, at(step.at))
		if due := h.due(tp, age, time.Minute, at(step.at)); age != time.Duration(step.age)*time.Second || due != step.due {
			t.Errorf("step %d: age %s, due %v", i, age, due)
		}
	}
}
