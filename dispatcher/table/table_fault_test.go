package table_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/dispatcher/table"
	"github.com/hookline/hookline/ingest/event/scan"
)

// steered returns a bench over three nodes that the test may break.
func steered(t *testing.T) (*bench, *kfake.Cluster) {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(3))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	// Tombstones may go at once, so that compaction removes what a lagging reader has not seen.
	zero, compact := "0", "compact"
	if err := fake.CreateTopic("table", 1, map[string]string{"cleanup.policy": compact, "delete.retention.ms": zero}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	b := &brokertest.Broker{Opts: []kgo.Opt{kgo.SeedBrokers(fake.ListenAddrs()...)}, Prefix: "t."}
	return &bench{b: b, topic: "table", ctx: ctx}, fake
}

func TestProofGrowsOldWithoutAnswers(t *testing.T) {
	s, fake := steered(t)
	s.put(t, "k", []byte("v"))
	tab := s.run(t, s.config())
	if err := tab.WaitApplied(s.ctx, 1); err != nil {
		t.Fatal(err)
	}
	fault := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.KafkaStorageError, Count: -1})
	if err := fault.Wait(s.ctx, 2); err != nil {
		t.Fatal(err)
	}
	broken := time.Now()
	next := s.put(t, "k", []byte("w"))
	if err := fault.Wait(s.ctx, 4); err != nil {
		t.Fatal(err)
	}
	if p := tab.Proven(); !p.Before(broken) {
		t.Errorf("proven %v after the brokers stopped answering", p.Sub(broken))
	}
	if v, _ := tab.Get("k"); string(v) != "v" {
		t.Errorf("the view went away: %q", v)
	}
	fault.Remove()
	if err := tab.WaitProven(s.ctx, time.Now()); err != nil {
		t.Fatal(err)
	}
	if v, _ := tab.Get("k"); string(v) != "w" || tab.Applied() < next {
		t.Errorf("proven with %q, applied %d", v, tab.Applied())
	}
}

// TestLaggingReaderForgetsWhatWasRemoved: the tombstone of a key is compacted away before the
// reader sees it, so no record will ever say that the key is gone.
func TestLaggingReaderForgetsWhatWasRemoved(t *testing.T) {
	s, fake := steered(t)
	heard := make(map[string]string)
	cfg := s.config()
	cfg.OnChange = func(key string, value []byte, _ int64) {
		if value == nil {
			delete(heard, key)
			return
		}
		heard[key] = string(value)
	}
	for i := range 5 {
		s.put(t, fmt.Sprint(i), []byte("old"))
	}
	tab := s.run(t, cfg)
	if err := tab.WaitApplied(s.ctx, 5); err != nil {
		t.Fatal(err)
	}
	fault := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.KafkaStorageError, Count: -1})
	if err := fault.Wait(s.ctx, 1); err != nil {
		t.Fatal(err)
	}
	s.put(t, "0", nil)
	s.put(t, "1", nil)
	for i := 2; i < 5; i++ {
		s.put(t, fmt.Sprint(i), []byte("new"))
	}
	next := s.put(t, "5", []byte("new"))
	fake.Compact()
	fault.Remove()
	if err := tab.WaitApplied(s.ctx, next); err != nil {
		t.Fatal(err)
	}
	if err := tab.WaitProven(s.ctx, time.Now()); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"2": "new", "3": "new", "4": "new", "5": "new"}
	if !maps.Equal(heard, want) || tab.Len() != 4 {
		t.Errorf("heard %v, len %d", heard, tab.Len())
	}
}

func TestTableAndWritersOutlastMovingLeaders(t *testing.T) {
	s, fake := steered(t)
	tab := s.run(t, s.config())
	w := s.writer(t, s.config())
	for i := range 9 {
		if err := fake.MoveTopicPartition(s.topic, 0, int32(i%3)); err != nil {
			t.Fatal(err)
		}
		if i == 5 {
			fake.RehashCoordinators()
		}
		s.update(t, w, increment("n"))
		if err := tab.WaitProven(s.ctx, time.Now()); err != nil {
			t.Fatal(err)
		}
		if v, _ := tab.Get("n"); string(v) != fmt.Sprint(i+1) {
			t.Fatalf("after %d increments: %s", i+1, v)
		}
	}
}

func TestCompactionUnderATableAndAWriter(t *testing.T) {
	s, fake := steered(t)
	tab := s.run(t, s.config())
	w := s.writer(t, s.config())
	for i := range 20 {
		next := s.update(t, w, increment("n"))
		if i%4 == 0 {
			s.update(t, w, set(fmt.Sprint(i), "x"))
		}
		if i%3 == 0 {
			fake.Compact()
		}
		if err := tab.WaitApplied(s.ctx, next); err != nil {
			t.Fatal(err)
		}
	}
	if v, _ := tab.Get("n"); string(v) != "20" || tab.Len() != 6 {
		t.Errorf("n = %s, len %d", v, tab.Len())
	}
	if got := s.contents(t); got["n"] != "20" || len(got) != 6 {
		t.Errorf("a fresh reader finds %v", got)
	}
}

func TestTopicMadeAgainStopsTheTableButNotTheWriter(t *testing.T) {
	s, fake := steered(t)
	w := s.writer(t, s.config())
	s.update(t, w, set("k", "1", "l", "2"))
	tab, err := table.New(s.config())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- tab.Run(s.ctx) }()
	if err := tab.WaitProven(s.ctx, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := fake.DeleteTopic(s.topic); err != nil {
		t.Fatal(err)
	}
	if err := fake.CreateTopic(s.topic, 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, scan.ErrTopicReplaced) {
		t.Errorf("Run: %v", err)
	}
	s.update(t, w, func(v table.View) ([]table.Change, error) {
		if v.Len() != 0 {
			t.Errorf("fn sees %d keys of the topic that is gone", v.Len())
		}
		return []table.Change{{Key: "m", Value: []byte("3")}}, nil
	})
	if got := s.contents(t); !maps.Equal(got, map[string]string{"m": "3"}) {
		t.Errorf("contents %v", got)
	}
}

func TestNoPermissionStopsTheTable(t *testing.T) {
	s, fake := steered(t)
	fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	tab, err := table.New(s.config())
	if err != nil {
		t.Fatal(err)
	}
	if err := tab.Run(s.ctx); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("Run: %v", err)
	}
}
