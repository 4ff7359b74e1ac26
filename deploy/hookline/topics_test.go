package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

// onBroker are the arguments that point a command at a test's broker. One replica, as the
// test clusters have one node.
func onBroker(b *brokertest.Broker, args ...string) []string {
	return append(args, "--kafka-brokers", strings.Join(b.Seeds, ","), "--set", "kafka.prefix="+b.Prefix,
		"--set", "topics.replication_factor=1", "--set", "topics.min_insync_replicas=0", "--set", "topics.partitions=3")
}

func TestTopicsCreateThenVerify(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t)
	_, stderr, code := command(t, nil, onBroker(b, "topics", "verify")...)
	if code != exitFailed || !strings.Contains(stderr, "hookline topics create") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("verify of nothing: %d %q", code, stderr)
	}
	stdout, stderr, code := command(t, nil, onBroker(b, "topics", "create", "--json")...)
	if code != exitOK {
		t.Fatalf("create: %d %s", code, stderr)
	}
	var made struct{ Created []string }
	if err := json.Unmarshal([]byte(stdout), &made); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{
		"events", "retry.15s", "retry.2m", "retry.15m", "retry.1h", "due", "dead", "attempts", "endpoints",
		"endpoint-state", "fences", "dedupe", "control", "audit",
	} {
		if !slices.Contains(made.Created, b.Prefix+suffix) {
			t.Errorf("%s was not created", suffix)
		}
	}
	if _, stderr, code = command(t, nil, onBroker(b, "topics", "verify")...); code != exitOK {
		t.Errorf("verify: %d %s", code, stderr)
	}
	stdout, _, code = command(t, nil, onBroker(b, "topics", "create")...)
	if code != exitOK || !strings.Contains(stdout, "0 topics created") {
		t.Errorf("create again: %d %s", code, stdout)
	}
	stdout, _, code = command(t, nil, onBroker(b, "topics", "describe")...)
	if code != exitOK || !strings.Contains(stdout, b.Prefix+"retry.1h") {
		t.Errorf("describe: %d %s", code, stdout)
	}
}

func TestVerifyRefusesAnotherLadder(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t)
	if _, stderr, code := command(t, nil, onBroker(b, "topics", "create")...); code != exitOK {
		t.Fatalf("create: %s", stderr)
	}
	// The same topics and slots, another floor: only control can tell.
	steps := tier.DefaultLadder().Steps()
	last := len(steps) - 1
	steps[last].Width += time.Second
	other, err := tier.NewLadder(steps)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(map[string]any{"retrytiers": map[string]any{"ladder": other}})
	if err != nil {
		t.Fatal(err)
	}
	file := writeFile(t, "h.yaml", string(raw))
	_, stderr, code := command(t, nil, onBroker(b, "topics", "verify", "--config", file)...)
	if code != exitFailed || !strings.Contains(stderr, "keeps another ladder") {
		t.Errorf("verify: %d %q", code, stderr)
	}
}

func TestVerifyRefusesAnUnequalLane(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t)
	if _, stderr, code := command(t, nil, onBroker(b, "topics", "create")...); code != exitOK {
		t.Fatalf("create: %s", stderr)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	adm := kadm.NewClient(b.Client(t))
	resp, err := adm.CreatePartitions(ctx, 1, tier.DueTopic(1).Name(b.Prefix))
	if err != nil || resp.Error() != nil {
		t.Fatal(err, resp.Error())
	}
	// Metadata may trail the answer on a cluster of several nodes.
	poll(t, func() bool {
		_, stderr, code := command(t, nil, onBroker(b, "topics", "verify")...)
		return code == exitFailed && strings.Contains(stderr, "due: has 4 partitions")
	})
}

// poll waits until cond holds.
func poll(t *testing.T, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("condition did not hold within 30 s")
		}
	}
}

func specsFor(t *testing.T) (*Config, []event.Topic, map[string]topicState) {
	t.Helper()
	c, problems := decodeFile(t, "{}", nil, nil, dev)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	specs := topicSpecs(c)
	have := map[string]topicState{}
	for _, s := range specs {
		configs := map[string]string{}
		for k, v := range s.Configs {
			configs[k] = v
		}
		have[s.Suffix] = topicState{Name: s.Name("p."), Partitions: s.Partitions, Configs: configs}
	}
	return c, specs, have
}

func TestCompareTopics(t *testing.T) {
	t.Parallel()
	f := func(name string, change func(map[string]topicState), fatal bool, want string) {
		t.Helper()
		c, specs, have := specsFor(t)
		change(have)
		faults := compareTopics(specs, have, "p.", c.Ingest.MaxBody)
		for _, fault := range faults {
			if fault.Fatal == fatal && strings.Contains(fault.String(), want) {
				return
			}
		}
		t.Errorf("%s: no fault (fatal %t) with %q in %v", name, fatal, want, faults)
	}
	partitions := func(suffix string, n int32) func(map[string]topicState) {
		return func(have map[string]topicState) { s := have[suffix]; s.Partitions = n; have[suffix] = s }
	}
	config := func(suffix, key, v string) func(map[string]topicState) {
		return func(have map[string]topicState) { have[suffix].Configs[key] = v }
	}
	f("missing", func(have map[string]topicState) { delete(have, "due") }, true, "p.due: does not exist")
	f("lane", partitions("fences", 13), true, "p.fences: has 13 partitions and p.events has 12")
	f("dedupe", partitions("dedupe", 1), true, "p.dedupe")
	f("slots", partitions("retry.2m", 8), true, "p.retry.2m")
	f("one order", partitions("endpoints", 2), true, "must have 1")
	f("attempts", partitions("attempts", 9), false, "p.attempts")
	f("small messages", config("dead", "max.message.bytes", "270000"), true, "max.message.bytes")
	f("larger messages", config("dead", "max.message.bytes", "2000000"), false, "max.message.bytes")
	f("clock", config("retry.1h", "message.timestamp.type", "CreateTime"), true, "LogAppendTime")
	f("deleted table", config("endpoints", "cleanup.policy", "delete"), true, "cleanup.policy")
	f("retention", config("dead", "retention.ms", "1000"), false, "retention.ms")

	c, specs, have := specsFor(t)
	if faults := compareTopics(specs, have, "p.", c.Ingest.MaxBody); len(faults) > 0 {
		t.Errorf("equal: %v", faults)
	}
	for _, suffix := range coPartitioned() {
		partitions(suffix, 24)(have)
	}
	if err := fatalFaults(compareTopics(specs, have, "p.", c.Ingest.MaxBody)); err != nil {
		t.Errorf("an equal lane of another size is refused: %v", err)
	}
}
