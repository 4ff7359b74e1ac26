package brokertest

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event"
)

func TestStartGivesTopicsThatCanBeUsedAtOnce(t *testing.T) {
	b := Start(t)
	topic := event.Topic{Suffix: "events", Partitions: 3, Configs: map[string]string{"retention.ms": "3600000"}}
	b.CreateTopics(t, topic, event.Topic{Suffix: "control", Partitions: 1, Configs: map[string]string{"cleanup.policy": "compact"}})

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	name := topic.Name(b.Prefix)
	cl := b.Client(t, kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumerGroup(b.Prefix+"group"))
	for range 10 {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: name, Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for got := 0; got < 10; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatal(err)
		}
		got += fetches.NumRecords()
	}
}

func TestPrefixIsUniqueAndLegal(t *testing.T) {
	long := "TestWith/a case, spaces & more_" + string(make([]byte, 300))
	a, b := newPrefix(long), newPrefix(long)
	if a == b {
		t.Fatalf("two prefixes are the same: %q", a)
	}
	if len(a) > 80 || a[len(a)-1] != '.' {
		t.Fatalf("prefix %q is too long or has no dot at its end", a)
	}
	for _, r := range a[:len(a)-1] {
		if r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			t.Fatalf("prefix %q has %q in it", a, r)
		}
	}
}
