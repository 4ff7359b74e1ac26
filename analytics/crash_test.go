package analytics

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/analytics/clickhouse"
	"github.com/hookline/hookline/dispatcher/attempt"
)

// childArg tells the test binary that it is a sink.
const childArg = "hookline-sink-child"

// crash says where a child dies: at the nth time that it comes to a point, and how long after it.
type crash struct {
	Brokers       []string
	Prefix, DSN   string
	Database      string
	BatchRows     int
	Point         point // "" = never
	Nth           int
	AfterMs       int
	BeforeStartMs int // > 0: it dies that long after its start, wherever it is
}

func kill() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // nothing comes after it
	select {}
}

// childMain is a sink in a process of its own.
func childMain(args []string) int {
	var c crash
	if err := json.Unmarshal([]byte(args[0]), &c); err != nil {
		panic(err)
	}
	if c.BeforeStartMs > 0 {
		time.AfterFunc(time.Duration(c.BeforeStartMs)*time.Millisecond, kill)
	}
	// With few batches left it may never come to its point; then it dies at rest.
	time.AfterFunc(10*time.Second, kill)
	conn, err := clickhouse.Open(c.DSN, 6)
	if err != nil {
		panic(err)
	}
	cfg := testConfig()
	cfg.BatchRows, cfg.InstanceID, cfg.Database = c.BatchRows, "child", c.Database
	s, err := New(cfg, Deps{
		Kafka:  []kgo.Opt{kgo.SeedBrokers(c.Brokers...), kgo.DisableClientMetrics()},
		Prefix: c.Prefix, ClickHouse: conn, Log: slog.New(slog.NewTextHandler(os.Stdout, nil)),
	})
	if err != nil {
		panic(err)
	}
	n := make(chan int, 1)
	n <- 0
	s.hook = func(p point) {
		if p != c.Point {
			return
		}
		at := <-n + 1
		n <- at
		switch {
		case at != c.Nth:
		case c.AfterMs > 0:
			time.AfterFunc(time.Duration(c.AfterMs)*time.Millisecond, kill)
		default:
			kill()
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // the parent closes our input when we may end
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		cancel()
	}()
	if err := s.Run(ctx); err != nil {
		fmt.Println("level=ERROR", err)
		return 1
	}
	return 0
}

// child runs a sink until it dies, or until done says so. It returns what it has logged.
func (r *rig) child(c crash) string {
	r.t.Helper()
	c.Brokers, c.Prefix, c.DSN, c.Database = r.broker.Seeds, r.broker.Prefix, r.engine.DSN(), r.db
	arg, err := json.Marshal(c)
	if err != nil {
		r.t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, childArg, string(arg))
	in, err := cmd.StdinPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	out, err := cmd.CombinedOutput() // which closes our end, too
	_ = in
	if ctx.Err() != nil {
		r.t.Fatalf("a child that was to die at %s %d did not: %s", c.Point, c.Nth, out)
	}
	if err == nil || !strings.Contains(err.Error(), "killed") {
		r.t.Fatalf("child: %v %s", err, out)
	}
	return string(out)
}

// The process is killed at every step of the loop, and in the middle of inserts and elsewhere. Raw
// table and rollups say what the topic says.
func killedAtEveryStep(t *testing.T, r *rig) {
	points := []point{pointBeforeIntent, pointBeforeInsert, pointBeforeCommit, pointAfterCommit}
	n, rng := 6, rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 7))
	if os.Getenv("HOOKLINE_FULL") != "" {
		n = 30
	}
	replayed := 0
	for i := range n {
		r.attempts(uint64(100+i), 1200)
		c := crash{BatchRows: 200}
		if i%5 == 4 {
			c.BeforeStartMs = 500 + rng.IntN(1500)
		} else {
			c.Point, c.Nth, c.AfterMs = points[i%len(points)], 1+rng.IntN(3), rng.IntN(3)*rng.IntN(12)
			if c.Point == pointAfterCommit {
				c.Nth = 1
			}
		}
		replayed += strings.Count(r.child(c), "is inserted again")
	}
	run := r.start(func(cfg *Config, _ *Sink) { cfg.InstanceID = "child" })
	r.drained(attempt.Suffix)
	r.compare()
	replayed += int(run.metric(t, "intents_replayed_total"))
	t.Logf("%d kills, %d batches inserted again", n, replayed)
	if replayed == 0 {
		t.Error("no batch was left behind: the test proves nothing")
	}
}

// A batch that was inserted and not committed is inserted again as it was, whatever the limits of
// the next owner are; and when the server may have forgotten it, its rows are looked for.
func announcedBatchKeepsItsEnds(t *testing.T, r *rig) {
	r.attempts(1, 3000)
	r.child(crash{BatchRows: 900, Point: pointBeforeCommit, Nth: 2})
	if n := r.scalar("(SELECT count() FROM " + r.db + ".attempts)"); n < 900 {
		t.Fatalf("%d rows were inserted before the kill", n)
	}
	run := r.start(func(cfg *Config, _ *Sink) {
		cfg.InstanceID, cfg.BatchRows, cfg.WindowAge = "child", 70, time.Millisecond
	})
	r.drained(attempt.Suffix)
	r.compare()
	if run.metric(t, "intents_replayed_total") < 2 || run.metric(t, "tokens_beyond_window_total") < 2 {
		t.Errorf("%v batches again, %v looked for", run.metric(t, "intents_replayed_total"), run.metric(t, "tokens_beyond_window_total"))
	}
}
