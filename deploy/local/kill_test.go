package local

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// acked is what the parent process of a kill test knows to be durable.
type acked struct {
	mu      sync.Mutex
	values  map[int32]map[int64]string // partition -> offset -> value
	commits map[int32]int64
	tried   map[int32]int64 // highest commit sent: it may be in effect without an answer
	rounds  int
}

func newAcked() *acked {
	return &acked{values: make(map[int32]map[int64]string), commits: make(map[int32]int64), tried: make(map[int32]int64)}
}

func (a *acked) produced(r *kgo.Record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.values[r.Partition] == nil {
		a.values[r.Partition] = make(map[int64]string)
	}
	a.values[r.Partition][r.Offset] = string(r.Value)
}

// contiguous returns the end of the acked records that have no gap before them, at or above from.
func (a *acked) contiguous(partition int32, from int64) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		if _, ok := a.values[partition][from]; !ok {
			return from
		}
		from++
	}
}

const killPartitions = 4

// Metadata as long as allowed: entries of several pages are those that a kill can tear.
func metadataFor(at int64) string {
	s := fmt.Sprintf("at-%d ", at)
	return s + strings.Repeat("x", MaxCommitMetadata-len(s))
}

// load produces to every partition and commits behind it until ctx is done.
func (a *acked) load(ctx context.Context, cl *kgo.Client, topic, group string, trim bool) {
	var wg sync.WaitGroup
	a.rounds++
	for p := range int32(killPartitions) {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				value := fmt.Sprintf("%d/%d/%d ", a.rounds, p, n)
				value += strings.Repeat("v", 200+rand.IntN(6000))
				cl.Produce(ctx, &kgo.Record{Topic: topic, Partition: p, Value: []byte(value)}, func(r *kgo.Record, err error) {
					if err == nil {
						a.produced(r)
					}
				})
				if n%16 == 15 {
					cl.Flush(ctx) //nolint:errcheck // ctx is what ends it
				}
			}
		})
		wg.Go(func() {
			a.mu.Lock()
			at := a.tried[p]
			a.mu.Unlock()
			for ctx.Err() == nil {
				if at = a.contiguous(p, at); at == 0 {
					continue
				}
				a.mu.Lock()
				a.tried[p] = max(a.tried[p], at)
				a.mu.Unlock()
				if commit(ctx, cl, group, topic, p, at, metadataFor(at)) == nil {
					a.mu.Lock()
					a.commits[p] = at
					a.mu.Unlock()
					if trim {
						trimmed := make(kadm.Offsets)
						trimmed.AddOffset(topic, p, at, -1)            // up to the end: the broker keeps the last record itself
						kadm.NewClient(cl).DeleteRecords(ctx, trimmed) //nolint:errcheck // not acked is not trimmed
					}
				}
			}
		})
	}
	wg.Wait()
}

// verify compares a restarted broker with what was acked.
func (a *acked) verify(t *testing.T, addr, topic, group string, trim bool) {
	t.Helper()
	a.mu.Lock() // promises of the last client may still come in
	defer a.mu.Unlock()
	for p := range int32(killPartitions) {
		from, to := offsets(t, addr, topic, p, false)
		at, metadata := committed(t, addr, group, topic, p)
		if at < a.commits[p] || at > a.tried[p] {
			t.Fatalf("partition %d: committed %d, want between %d (acked) and %d (sent)", p, at, a.commits[p], a.tried[p])
		}
		if at > to {
			t.Fatalf("partition %d: committed %d is past the end %d", p, at, to)
		}
		if at > 0 && metadata != metadataFor(at) {
			t.Fatalf("partition %d: metadata of commit %d does not belong to it: %.20q", p, at, metadata)
		}
		if from > 0 && (!trim || from > at) {
			t.Fatalf("partition %d: log starts at %d, committed %d", p, from, at)
		}
		got := make(map[int64]string)
		for _, r := range readAll(t, addr, topic, p, false) {
			got[r.Offset] = string(r.Value)
		}
		for offset, value := range a.values[p] {
			if offset >= to {
				t.Fatalf("partition %d: end is %d, but offset %d was acked", p, to, offset)
			}
			if offset >= from && got[offset] != value {
				t.Fatalf("partition %d: offset %d has %.20q, acked was %.20q", p, offset, got[offset], value)
			}
			if offset < from {
				delete(a.values[p], offset)
			}
		}
	}
}

func killRounds(t *testing.T, rounds int, trim bool) {
	t.Parallel() // most of it is waiting for a child
	const topic, group = "hookline.events", "hookline.dispatcher"
	dir := t.TempDir()
	a := newAcked()
	for round := range rounds {
		c := startChild(t, dir, "")
		if round == 0 {
			createTopic(t, c.addr, topic, killPartitions, map[string]string{"segment.bytes": "65536"}) // many rolls in a short test
		} else {
			a.verify(t, c.addr, topic, group, trim)
		}
		if round%5 == 4 { // a clean stop in between leaves a snapshot that then grows old
			c.close(t)
			c = startChild(t, dir, "")
			a.verify(t, c.addr, topic, group, trim)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cl := client(t, c.addr, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()))
		timer := time.AfterFunc(time.Duration(50+rand.IntN(250))*time.Millisecond, func() {
			c.kill(t)
			cancel()
		})
		a.load(ctx, cl, topic, group, trim)
		timer.Stop()
		cl.Close()
	}
	c := startChild(t, dir, "")
	a.verify(t, c.addr, topic, group, trim)
	c.close(t)
	total := 0
	for _, values := range a.values {
		total += len(values)
	}
	t.Logf("%d kills, %d acked records verified, commits %v", rounds, total, a.commits)
}

func TestKillDuringProduceAndCommit(t *testing.T) { killRounds(t, 9, false) }

func TestKillDuringTrim(t *testing.T) { killRounds(t, 9, true) }
