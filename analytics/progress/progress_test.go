package progress

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event"
)

func TestLag(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t)
	b.CreateTopics(t, event.Topic{Suffix: "a", Partitions: 3, Configs: map[string]string{}}, event.Topic{Suffix: "b", Partitions: 1, Configs: map[string]string{}})
	cl := b.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	adm := kadm.NewClient(cl)
	r := NewReader(adm, b.Opts)
	a, group := b.Prefix+"a", b.Prefix+"g"
	lag := func() time.Duration {
		t.Helper()
		d, err := r.Lag(t.Context(), group, a, b.Prefix+"b")
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	commit := func(p int32, at int64) {
		t.Helper()
		o := kadm.Offsets{}
		o.AddOffset(a, p, at, -1)
		if err := adm.CommitAllOffsets(t.Context(), group, o); err != nil {
			t.Fatal(err)
		}
	}
	if d := lag(); d != 0 {
		t.Errorf("nothing is there, and it lags by %s", d)
	}
	big := make([]byte, 2*headBytes) // a record that is larger than what is fetched of a partition at once
	for i, age := range []time.Duration{3 * time.Hour, 2 * time.Hour, time.Hour} {
		for p := range int32(3) {
			rec := &kgo.Record{Topic: a, Partition: p, Value: big, Timestamp: time.Now().Add(-age - time.Duration(p)*time.Minute)}
			if err := cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
				t.Fatal(i, err)
			}
		}
	}
	about := func(what string, want time.Duration) {
		t.Helper()
		if d := lag(); d < want || d > want+time.Minute/2 {
			t.Errorf("%s: %s, want %s", what, d, want)
		}
	}
	about("a group that never committed is at the start", 3*time.Hour+2*time.Minute)
	commit(2, 2)
	about("the oldest open record of all partitions", 3*time.Hour+time.Minute)
	commit(0, 3)
	commit(1, 3)
	about("the last open record", time.Hour+2*time.Minute)
	commit(2, 1)
	if _, err := adm.DeleteRecords(t.Context(), kadm.Offsets{a: {2: {Topic: a, Partition: 2, At: 2}}}); err != nil {
		t.Fatal(err)
	}
	about("what was trimmed is not open", time.Hour+2*time.Minute)
	commit(2, 3)
	if d := lag(); d != 0 {
		t.Errorf("all is done, and it lags by %s", d)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Lag(ctx, group, a); err == nil {
		t.Error("a lag that was not measured is told")
	}
}

func TestCached(t *testing.T) {
	t.Parallel()
	var calls int // of one measurement at a time, or the race detector tells
	answer, failure := time.Second, error(nil)
	get := Cached(time.Hour, func(ctx context.Context) (time.Duration, error) {
		calls++
		return answer, failure
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel() // who gives up does not spoil it for the others
			if d, err := get(ctx); d != time.Second || err != nil {
				t.Error(d, err)
			}
		})
	}
	wg.Wait()
	if calls != 1 {
		t.Errorf("%d measurements", calls)
	}
	fresh := Cached(0, func(context.Context) (time.Duration, error) { return 0, errors.New("away") })
	if _, err := fresh(t.Context()); err == nil {
		t.Error("a failure is hidden")
	}
}
