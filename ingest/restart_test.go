package ingest

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/deploy/local"
	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event"
)

// cluster is a broker that the test may stop and start again with its data.
type cluster struct {
	seeds string
	start func()
	stop  func(crash bool)
}

// newCluster is the embedded broker, or with HOOKLINE_TEST_BROKERS set an Apache Kafka of the
// test's own: that of the suite is others', too.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	if os.Getenv(brokertest.Env) != "" {
		return newApache(t)
	}
	c := &cluster{}
	cfg := local.BrokerConfig{DataDir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}
	var running *local.Broker
	c.start = func() {
		t.Helper()
		b, err := local.StartBroker(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		running, cfg.Addr, c.seeds = b, b.Addr(), b.Addr()
	}
	c.stop = func(bool) { // a process cannot kill a part of itself; deploy/hookline kills the whole
		t.Helper()
		if err := running.Close(); err != nil {
			t.Fatal(err)
		}
	}
	c.start()
	t.Cleanup(func() { c.stop(false) })
	return c
}

func newApache(t *testing.T) *cluster {
	t.Helper()
	dir := t.TempDir()
	script := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("../deploy/kafka/kafka", append(args, "--dir", dir+"/kafka")...).CombinedOutput()
		if err != nil {
			t.Fatalf("deploy/kafka/kafka %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	t.Cleanup(func() { script("wipe") })
	out := script("start", "--nodes", "1", "--port", "auto")
	_, seeds, ok := strings.Cut(strings.TrimSpace(out), "brokers=")
	if !ok {
		t.Fatalf("deploy/kafka/kafka start: %s", out)
	}
	return &cluster{
		seeds: seeds,
		start: func() { script("start") },
		stop: func(crash bool) {
			if crash {
				script("stop", "--now")
				return
			}
			script("stop")
		},
	}
}

// TestEveryAnswerIsTrueOverBrokerRestarts stops the broker and kills it under load. The first
// event is accepted within a second of its return, without anybody's help.
func TestEveryAnswerIsTrueOverBrokerRestarts(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	opts := []kgo.Opt{kgo.SeedBrokers(c.seeds), kgo.DisableClientMetrics()}
	b := &brokertest.Broker{Opts: opts, Prefix: "restart."}
	b.CreateTopics(t, event.EventsTopic(4))
	r := launch(t, opts, b.Prefix)
	r.ready()
	p := publish(r, 4)
	for _, crash := range []bool{false, true} {
		many := p.count(202) + 200
		eventually(t, func() bool { return p.count(202) >= many })
		c.stop(crash)
		eventually(t, func() bool { return p.has(504) && p.has(503) })
		c.start()
		back := time.Now()
		accepted(t, p, 10*time.Second)
		took := time.Since(back).Round(time.Millisecond)
		t.Logf("crash %v: an event was accepted %s after the broker was back", crash, took)
		if took > time.Second {
			t.Errorf("the first event was accepted %s after the broker was back", took)
		}
		p.forget()
	}
	p.end()
	p.audit(t, opts, b.Prefix+event.EventsSuffix)
}

// accepted returns when an event is accepted from now on.
func accepted(t *testing.T, p *publishers, within time.Duration) {
	t.Helper()
	select {
	case <-p.opened: // an old one
	default:
	}
	select {
	case <-p.opened:
	case <-time.After(within):
		t.Fatalf("no event was accepted within %s", within)
	}
}
