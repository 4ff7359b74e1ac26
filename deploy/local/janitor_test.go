package local

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event"
)

// aged fills a topic with one record for each age, oldest first.
func aged(t *testing.T, addr, topic string, ages ...time.Duration) {
	t.Helper()
	cl := client(t, addr)
	for _, age := range ages {
		produce(t, cl, &kgo.Record{Topic: topic, Value: []byte("v"), Timestamp: time.Now().Add(-age)})
	}
}

func TestJanitorTrims(t *testing.T) {
	const day = 24 * time.Hour
	b := start(t, t.TempDir())
	f := func(name string, policy, retention string, groups map[string]int64, ages []time.Duration, want int64) {
		t.Helper()
		spec := event.Topic{Suffix: fmt.Sprintf("t%d", len(b.topicNames(t))), Partitions: 1, Configs: map[string]string{}}
		if policy != "" {
			spec.Configs["cleanup.policy"] = policy
		}
		if retention != "" {
			spec.Configs["retention.ms"] = retention
		}
		topic := spec.Name("p.")
		createTopic(t, b.Addr(), topic, 1, spec.Configs)
		aged(t, b.Addr(), topic, ages...)
		var names []string
		for group, at := range groups {
			names = append(names, group)
			if at < 0 {
				continue
			}
			if err := commit(testContext(t), client(t, b.Addr()), group, topic, 0, at, ""); err != nil {
				t.Fatal(err)
			}
		}
		j, err := NewJanitor(JanitorConfig{
			Kafka: []kgo.Opt{kgo.SeedBrokers(b.Addr())}, Prefix: "p.", Topics: []event.Topic{spec},
			Groups: map[string][]string{spec.Suffix: names}, Log: quiet(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.pass(testContext(t), kadm.NewClient(client(t, b.Addr()))); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, _ := offsets(t, b.Addr(), topic, 0, false); got != want {
			t.Errorf("%s: log starts at %d, want %d", name, got, want)
		}
	}
	threeDays := "259200000"
	week := []time.Duration{7 * day, 6 * day, 5 * day, day, 0}
	old := []time.Duration{9 * day, 8 * day, 7 * day}
	f("by age", "delete", threeDays, nil, week, 3)
	f("no policy is delete", "", threeDays, nil, week, 3)
	f("the last record stays", "delete", threeDays, nil, old, 2)
	f("an empty partition", "delete", threeDays, nil, nil, 0)
	f("held by the slowest group", "delete", threeDays, map[string]int64{"a": 5, "b": 2}, week, 2)
	f("held by a group that has not begun", "delete", threeDays, map[string]int64{"a": 5, "never": -1}, week, 0)
	f("groups that are further do not matter", "delete", threeDays, map[string]int64{"a": 5}, week, 3)
	f("compacted topics are left alone", "compact", threeDays, nil, old, 0)
	f("no retention time", "delete", "", nil, old, 0)
	f("unlimited", "delete", "-1", nil, old, 0)
	f("old behind young stays", "delete", threeDays, nil, []time.Duration{7 * day, 0, 7 * day}, 1)
}

// topicNames lists the topics of the broker.
func (b *Broker) topicNames(t *testing.T) map[string]topicMeta {
	t.Helper()
	topics, err := readTopics(b.cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	return topics
}

func TestJanitorRunsUntilItIsStopped(t *testing.T) {
	b := start(t, t.TempDir())
	spec := event.Topic{Suffix: "t", Partitions: 1, Configs: map[string]string{"retention.ms": "1000"}}
	createTopic(t, b.Addr(), "t", 1, spec.Configs)
	j, err := NewJanitor(JanitorConfig{Kafka: []kgo.Opt{kgo.SeedBrokers(b.Addr())}, Topics: []event.Topic{spec}, Every: 10 * time.Millisecond, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(testContext(t))
	done := make(chan error, 1)
	go func() { done <- j.Run(ctx) }()
	for _, want := range []int64{1, 3} {
		aged(t, b.Addr(), "t", time.Hour, time.Hour)
		wait(t, func() bool { return b.fake.PartitionInfo("t", 0).LogStartOffset == want })
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
}

func TestJanitorRefusesBadRetention(t *testing.T) {
	_, err := NewJanitor(JanitorConfig{Topics: []event.Topic{{Suffix: "t", Partitions: 1, Configs: map[string]string{"retention.ms": "3d"}}}})
	if err == nil {
		t.Error("retention.ms of 3d was accepted")
	}
}
