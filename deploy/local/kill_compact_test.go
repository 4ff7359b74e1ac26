package local

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	tableTopic = "hookline.endpoints"
	tableKeys  = 40
)

// table is the state of a compacted topic as its one transactional writer knows it. Every
// update writes one version to two keys, so that a half of one shows.
type table struct {
	acked   [tableKeys]int // by the commit's answer
	tried   [tableKeys]int
	version int
	aborted map[int]bool
}

// write updates random keys until ctx is done. Some updates are aborted.
func (w *table) write(ctx context.Context, cl *kgo.Client) {
	for ctx.Err() == nil {
		w.version++
		key := rand.IntN(tableKeys)
		value := strconv.Itoa(w.version) + " " + strings.Repeat("v", 200+rand.IntN(3000))
		abort := rand.IntN(4) == 0
		if abort {
			w.aborted[w.version] = true
		} else {
			w.tried[key] = w.version
		}
		if cl.BeginTransaction() != nil {
			return
		}
		for _, half := range []string{"a", "b"} { // a flush between: two batches, two requests
			if cl.ProduceSync(ctx, &kgo.Record{Topic: tableTopic, Key: fmt.Appendf(nil, "%s%d", half, key), Value: []byte(value)}).FirstErr() != nil {
				return
			}
		}
		if cl.EndTransaction(ctx, kgo.TransactionEndTry(!abort)) != nil {
			return
		}
		if !abort {
			w.acked[key] = w.version
		}
	}
}

func (w *table) verify(t *testing.T, addr string) {
	t.Helper()
	_, high := offsets(t, addr, tableTopic, 0, false)
	_, stable := offsets(t, addr, tableTopic, 0, true)
	if high != stable {
		t.Fatalf("no transaction can be open, but the last stable offset is %d of %d", stable, high)
	}
	view := make(map[string]int)
	for _, r := range readAll(t, addr, tableTopic, 0, true) {
		version, err := strconv.Atoi(strings.Fields(string(r.Value))[0])
		if err != nil {
			t.Fatal(err)
		}
		if w.aborted[version] {
			t.Fatalf("offset %d: version %d was aborted and is visible", r.Offset, version)
		}
		view[string(r.Key)] = version
	}
	for key := range tableKeys {
		a, b := view[fmt.Sprintf("a%d", key)], view[fmt.Sprintf("b%d", key)]
		if a != b {
			t.Fatalf("key %d: half an update is visible: %d and %d", key, a, b)
		}
		if a != w.acked[key] && a != w.tried[key] {
			t.Fatalf("key %d has version %d, want %d (acked) or %d (sent)", key, a, w.acked[key], w.tried[key])
		}
		if a != w.tried[key] { // not in effect after the crash: it must never come back
			w.aborted[w.tried[key]] = true
		}
		w.acked[key], w.tried[key] = a, a
	}
}

func TestKillDuringCompaction(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := &table{aborted: make(map[int]bool)}
	for round := range 12 {
		c := startChild(t, dir, "compact")
		if round == 0 {
			createTopic(t, c.addr, tableTopic, 1, map[string]string{"cleanup.policy": "compact", "segment.bytes": "32768"})
		} else {
			w.verify(t, c.addr)
		}
		if round%5 == 4 {
			c.close(t)
			c = startChild(t, dir, "compact")
			w.verify(t, c.addr)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cl := client(t, c.addr, kgo.TransactionalID("hookline.endpoints"), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()))
		timer := time.AfterFunc(time.Duration(50+rand.IntN(250))*time.Millisecond, func() {
			c.kill(t)
			cancel()
			cl.Close() // a record that may have been written does not end with its context
		})
		w.write(ctx, cl)
		<-ctx.Done()
		timer.Stop()
	}
	c := startChild(t, dir, "")
	w.verify(t, c.addr)
	c.close(t)
	t.Logf("%d versions written", w.version)
}
