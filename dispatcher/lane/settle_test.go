package lane

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event"
)

// TestNothingOfARemovedPartitionComesAfterSettle holds a batch in the callback while its
// partition is removed: Settle must wait for it, and nothing may come behind it.
func TestNothingOfARemovedPartitionComesAfterSettle(t *testing.T) {
	b := brokertest.Start(t)
	topic := event.Topic{Suffix: "log", Partitions: 1}
	b.CreateTopics(t, topic)
	name := topic.Name(b.Prefix)
	cl := b.Client(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i := range 10 {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: name, Value: fmt.Appendf(nil, "%d", i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	entered, release := make(chan struct{}, 100), make(chan struct{})
	var settled atomic.Bool
	var late atomic.Int64
	r, err := NewReader(b.Opts, func(string, int32, []*kgo.Record) {
		entered <- struct{}{}
		<-release
		if settled.Load() {
			late.Add(1)
		}
	}, func(_ string, _ int32, err error) { t.Errorf("fetch: %v", err) })
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.Add(name, 0, 0)
	<-entered
	r.RemoveLater(name, 0)
	back := make(chan struct{})
	go func() {
		r.Settle()
		settled.Store(true)
		close(back)
	}()
	select {
	case <-back:
		t.Error("settled while an old batch is being delivered")
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	<-back
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: name, Value: []byte("after")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	r.Settle()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("reader ended with %v", err)
	}
	if n := late.Load(); n != 0 {
		t.Errorf("%d batches came after Settle", n)
	}
	r.Settle() // of a reader that has ended: everything has taken effect
}
