package local

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event"
)

// How kfake differs from Kafka, and what this package does about it. A part that is about
// plain kfake and fails means that kfake has changed and the workaround may go.

func TestLogAppendTimeOfTopicIsIgnored(t *testing.T) {
	b := start(t, t.TempDir())
	createTopic(t, b.Addr(), "t", 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
	future := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	cl := client(t, b.Addr(), kgo.DefaultProduceTopic("t"))
	produce(t, cl, &kgo.Record{Value: []byte("v"), Timestamp: future})
	got := readAll(t, b.Addr(), "t", 0, false)[0]
	// So a reader takes min(record timestamp, own clock at the first read): right on both.
	if !got.Timestamp.Equal(future) || got.Attrs.TimestampType() != 0 {
		t.Errorf("timestamp %v of type %d, want the producer's %v", got.Timestamp, got.Attrs.TimestampType(), future)
	}
}

func TestOverlongCommitMetadataIsRefused(t *testing.T) {
	f := func(name, addr string, length int, want error) {
		t.Helper()
		createTopic(t, addr, "t", 1, nil)
		fill(t, addr, 1)
		err := commit(testContext(t), client(t, addr), "g", "t", 0, 1, strings.Repeat("m", length))
		if !errors.Is(err, want) {
			t.Errorf("%s: commit with %d bytes of metadata: %v, want %v", name, length, err, want)
		}
	}
	f("plain kfake", servePlain(t, t.TempDir()), MaxCommitMetadata+1, nil)
	f("broker", serveBroker(t, t.TempDir()), MaxCommitMetadata, nil)
	f("broker", serveBroker(t, t.TempDir()), MaxCommitMetadata+1, kerr.OffsetMetadataTooLarge)
}

func TestEmptiedPartitionStartsAgainAtZero(t *testing.T) {
	f := func(name string, addr string, restart func() string, wantFrom, wantTo int64) {
		t.Helper()
		createTopic(t, addr, "t", 1, nil)
		fill(t, addr, 10)
		all := make(kadm.Offsets)
		all.AddOffset("t", 0, -1, -1)
		if err := trim(testContext(t), kadm.NewClient(client(t, addr)), all); err != nil {
			t.Fatal(err)
		}
		if from, to := offsets(t, restart(), "t", 0, false); from != wantFrom || to != wantTo {
			t.Errorf("%s: offsets %d to %d, want %d to %d", name, from, to, wantFrom, wantTo)
		}
	}
	dir := t.TempDir()
	fake := plain(t, dir)
	f("plain kfake", fake.ListenAddrs()[0], func() string { fake.Close(); return servePlain(t, dir) }, 0, 0)
	b := start(t, t.TempDir())
	f("broker, stopped", b.Addr(), func() string {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		return serveBroker(t, b.cfg.DataDir)
	}, 9, 10)
	killed := start(t, t.TempDir())
	// What was trimmed inside a segment comes back after a kill: never less than was kept.
	f("broker, killed", killed.Addr(), func() string { return serveBroker(t, image(t, killed.cfg.DataDir)) }, 0, 10)
}

func TestRetentionOfBrokerDeletesNothing(t *testing.T) {
	old := func(t *testing.T, addr string) {
		cl := client(t, addr)
		for _, topic := range []string{"log", "table"} {
			for range 3 {
				produce(t, cl, &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("v"), Timestamp: time.Now().Add(-30 * 24 * time.Hour)})
			}
		}
	}
	f := func(name string, fake *kfake.Cluster, wantLog int) {
		t.Helper()
		fake.ApplyRetention()
		if got := len(readAll(t, fake.ListenAddrs()[0], "log", 0, false)); got != wantLog {
			t.Errorf("%s: %d old records in an append-only topic, want %d", name, got, wantLog)
		}
		// A compacted topic has no retention time in Kafka; kfake takes its default of 7 days.
		if got := len(readAll(t, fake.ListenAddrs()[0], "table", 0, false)); got != wantLog {
			t.Errorf("%s: %d old records in a compacted topic, want %d", name, got, wantLog)
		}
	}
	fake := plain(t, t.TempDir())
	adm := kadm.NewClient(client(t, fake.ListenAddrs()[0]))
	for topic, configs := range map[string]map[string]*string{
		"log":   {"retention.ms": kadm.StringPtr("259200000")},
		"table": {"cleanup.policy": kadm.StringPtr("compact")},
	} {
		if _, err := adm.CreateTopic(testContext(t), 1, 1, configs, topic); err != nil {
			t.Fatal(err)
		}
	}
	old(t, fake.ListenAddrs()[0])
	f("plain kfake", fake, 0)

	b := start(t, t.TempDir())
	createTopic(t, b.Addr(), "log", 1, map[string]string{"retention.ms": "259200000"})
	createTopic(t, b.Addr(), "table", 1, map[string]string{"cleanup.policy": "compact"})
	old(t, b.Addr())
	f("broker", b.fake, 3)
}

// A batch costs about 80 bytes of heap for as long as its segment file is there. Small
// segments make that the time until it was trimmed.
func TestTrimGivesSegmentsBack(t *testing.T) {
	b := start(t, t.TempDir())
	createTopic(t, b.Addr(), "t", 1, map[string]string{"segment.bytes": "4096"})
	fill(t, b.Addr(), 500)
	files := func() int {
		found, err := filepath.Glob(filepath.Join(b.cfg.DataDir, partitionsDir, "t-0", "*.dat"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	before := files()
	to := make(kadm.Offsets)
	to.AddOffset("t", 0, 499, -1)
	if err := trim(testContext(t), kadm.NewClient(client(t, b.Addr())), to); err != nil {
		t.Fatal(err)
	}
	if after := files(); before < 5 || after != 1 {
		t.Errorf("%d segments before and %d after the trim, want 5 or more and 1", before, after)
	}
}

func TestBrokerConfigsAreInEffect(t *testing.T) {
	b := start(t, t.TempDir())
	described, err := kadm.NewClient(client(t, b.Addr())).DescribeBrokerConfigs(testContext(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, c := range described[0].Configs {
		got[c.Key] = c.MaybeValue()
	}
	for k, want := range brokerConfigs() {
		if got[k] != want {
			t.Errorf("broker config %s is %q, want %q", k, got[k], want)
		}
	}
}

func TestTopicConfigsKeepTheRest(t *testing.T) {
	original := event.Topic{Suffix: "x", Partitions: 3, Configs: map[string]string{
		"retention.ms": "1000", "cleanup.policy": "compact,delete", "max.message.bytes": "5",
	}}
	got := TopicConfigs(original)
	want := map[string]string{"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "compact", "max.message.bytes": "5"}
	for k, v := range want {
		if got.Configs[k] != v {
			t.Errorf("%s is %q, want %q", k, got.Configs[k], v)
		}
	}
	if got.Suffix != "x" || got.Partitions != 3 || len(got.Configs) != len(want) || original.Configs["retention.ms"] != "1000" {
		t.Errorf("got %+v from %+v", got, original)
	}
	if none := TopicConfigs(event.Topic{Suffix: "y", Partitions: 1}); none.Configs["retention.ms"] != "-1" {
		t.Errorf("a topic without configs got %v", none.Configs)
	}
}

// A group that commits nothing for a week, a laptop that was off, loses its place in Kafka.
func TestCommitsOutliveAMonth(t *testing.T) {
	dir := t.TempDir()
	fake := plain(t, dir)
	addr := fake.ListenAddrs()[0]
	createTopic(t, addr, "t", 1, nil)
	fill(t, addr, 1)
	mustCommit(t, addr, 1, "")
	fake.Close()
	var old []commitEntry
	for group, age := range map[string]time.Duration{"month": 30 * 24 * time.Hour, "ancient": 20 * 365 * 24 * time.Hour} {
		then := time.Now().Add(-age).UnixMilli()
		old = append(old, commitEntry{Type: "commit", Group: group, Topic: "t", Offset: 1, LastCommit: &then})
	}
	if err := appendFrames(filepath.Join(dir, groupsLog), old); err != nil {
		t.Fatal(err)
	}
	f := func(name string, configs map[string]string, want bool) {
		t.Helper()
		soon := map[string]string{"offsets.retention.check.interval.ms": "10"}
		fake := plain(t, image(t, dir), kfake.BrokerConfigs(configs), kfake.BrokerConfigs(soon))
		wait(t, func() bool { return fake.GroupInfo("ancient") == nil }) // tells that the check has run
		if got := fake.GroupInfo("month") != nil; got != want {
			t.Errorf("%s: a commit of last month is there: %v, want %v", name, got, want)
		}
	}
	f("default configs", nil, false)
	f("our configs", brokerConfigs(), true)
}

// wait polls until ok, which must be soon.
func wait(t *testing.T, ok func() bool) {
	t.Helper()
	ctx := testContext(t)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatal("it did not come to pass")
		case <-tick.C:
		}
	}
}
