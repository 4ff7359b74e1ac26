package retrytiers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Environment of the child process that TestMain turns into a Mover.
const (
	childSeeds  = "HOOKLINE_RETRYTIERS_CHILD_SEEDS"
	childPrefix = "HOOKLINE_RETRYTIERS_CHILD_PREFIX"
)

// TestMain runs the test binary as a Mover of its own when a test asks for one to kill.
func TestMain(m *testing.M) {
	if seeds := os.Getenv(childSeeds); seeds != "" {
		if err := runChild(strings.Split(seeds, ","), os.Getenv(childPrefix)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runChild runs until its standard input ends, that is, until its parent is gone.
func runChild(seeds []string, prefix string) error {
	cfg := testConfig()
	cfg.InstanceID = "child" // the next child takes over at once, not after the session
	m, err := New(cfg, Deps{Kafka: []kgo.Opt{kgo.SeedBrokers(seeds...)}, Prefix: prefix})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	go func() {
		for m.Ready() != nil {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
				return
			}
		}
		fmt.Println("ready")
	}()
	return m.Run(ctx)
}

// child starts a Mover in a process of its own and waits until it is ready.
func (r *rig) child() *exec.Cmd {
	r.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childSeeds+"="+strings.Join(r.b.Seeds, ","), childPrefix+"="+r.b.Prefix)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "ready\n" {
		r.t.Fatalf("child said %q: %v", line, err)
	}
	return cmd
}

// kill is kill -9.
func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says that it was killed
}

// TestKilledProcessLosesNothing kills the process three times with a full wheel. What was in
// it is in the log, not done; what was released and not committed comes a second time, and
// only that.
func TestKilledProcessLosesNothing(t *testing.T) {
	r := newRig(t)
	cmd := r.child()
	const n = 4000
	// 4,000 due over 12 s with the widest slot 0.8 s: some 250 in the wheel at any time.
	start := time.Now()
	ids := r.place("k", n, func(i int) time.Duration { return time.Duration(i) * 12 * time.Second / n })
	t.Logf("appended in %s", time.Since(start))
	for i := range 3 {
		want := n / 4 * (i + 1)
		r.until(fmt.Sprintf("%d deliveries", want), func() bool { return r.have(ids) >= want })
		kill(t, cmd)
		cmd = r.child()
	}
	duplicates := r.all(ids)
	late := r.lateness(ids)
	t.Logf("%d duplicates, lateness p50 %s, largest %s", duplicates, late[n/2], late[n-1])
	// 333 a second: a commit interval, the commit under way, and what was in flight. Half a
	// second of it for each kill, since the machine may be busy.
	if most := 3 * 333 / 2; duplicates > most {
		t.Errorf("%d came twice, want at most %d", duplicates, most)
	}
}

// TestKillRightAfterATrim: the log behind the commit is gone, and the position survives.
func TestKillRightAfterATrim(t *testing.T) {
	r := newRig(t)
	cfg := testConfig()
	cfg.TrimInterval = 50 * time.Millisecond
	cfg.InstanceID = "child"
	p := r.start(cfg)
	r.ready(p)
	first := r.place("a", 200, func(i int) time.Duration { return time.Duration(i) * 20 * time.Millisecond })
	r.all(first)
	r.until("trimmed logs", func() bool {
		left := int64(0)
		eachSlot(func(suffix string, partition int32) {
			if start, end := r.ends(suffix, partition); end > 0 {
				left += end - 1 - start
			}
		})
		return left == 0
	})
	p.halt()
	cmd := r.child()
	kill(t, cmd)
	second := r.place("b", 200, func(i int) time.Duration { return time.Duration(i) * 20 * time.Millisecond })
	r.child()
	r.all(second)
	if duplicates := r.all(first); duplicates != 0 {
		t.Errorf("%d came again after the trim", duplicates)
	}
}
