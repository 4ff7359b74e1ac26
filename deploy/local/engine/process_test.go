package engine_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/hookline/hookline/deploy/local/engine"
	"github.com/hookline/hookline/deploy/local/enginetest"
)

// A crash is noticed and the engine is back on the same address with its data, again and again.
func TestSupervision(t *testing.T) {
	t.Parallel()
	cfg := enginetest.Config(t)
	reg := prometheus.NewRegistry()
	cfg.Metrics = reg
	cfg.Nice = engine.LowPriority
	e, err := engine.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- e.Run(ctx) }()
	dsn := e.DSN()
	c := connect(t, dsn)
	run(t, c, "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
	run(t, c, "INSERT INTO t VALUES (1)")
	for range 2 {
		pid := e.PID()
		if err := e.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the engine is back", func() bool { return e.PID() != 0 && e.PID() != pid })
		if e.DSN() != dsn {
			t.Errorf("it is at %s, was at %s", e.DSN(), dsn)
		}
		if r := post(t, dsn, values(), "SELECT count() FROM t"); r.body != "1\n" {
			t.Errorf("after a crash: %d %s", r.status, r.body)
		}
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP hookline_engine_restarts_total How often the embedded ClickHouse engine had to be started again.
# TYPE hookline_engine_restarts_total counter
hookline_engine_restarts_total 2
# HELP hookline_engine_up 1 while the process of the embedded ClickHouse engine runs.
# TYPE hookline_engine_up gauge
hookline_engine_up 1
`)); err != nil {
		t.Error(err)
	}
	nice, err := os.ReadFile("/proc/" + strconv.Itoa(e.PID()) + "/stat")
	if f := strings.Fields(string(nice)); err != nil || f[18] != strconv.Itoa(engine.LowPriority) {
		t.Errorf("nice %v, %v", f, err)
	}
	pid := e.PID()
	cancel()
	if err := <-ran; err != nil {
		t.Errorf("end: %v", err)
	}
	if alive(pid) {
		t.Error("the engine runs on")
	}
}

// alive says whether a process runs; one that has ended and was not waited for does not.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func TestSecondEngine(t *testing.T) {
	t.Parallel()
	first, _ := start(t)
	cfg := enginetest.Config(t)
	cfg.DataDir = first.DataDir()
	cfg.LockWait = 50 * time.Millisecond
	if e, err := engine.Start(t.Context(), cfg); !errors.Is(err, engine.ErrInUse) || !strings.Contains(err.Error(), strconv.Itoa(first.PID())) {
		t.Errorf("a second engine: %v, %v", e, err)
	}
	// One that waits gets the directory once the first has gone.
	cfg.LockWait = 20 * time.Second
	got := make(chan error, 1)
	go func() {
		e, err := engine.Start(context.WithoutCancel(t.Context()), cfg)
		if err == nil {
			err = e.Close()
		}
		got <- err
	}()
	first.Kill()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestStartFailures(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*engine.Config){
		"no such program":     func(c *engine.Config) { c.Command = []string{"/does/not/exist"} },
		"no such library":     func(c *engine.Config) { c.Lib = "/does/not/exist.so" },
		"not a library":       func(c *engine.Config) { c.Lib = c.Command[0] },
		"listens on loopback": func(c *engine.Config) { c.Addr = "0.0.0.0:0" },
	} {
		cfg := enginetest.Config(t)
		change(&cfg)
		if _, err := engine.Start(t.Context(), cfg); err == nil {
			t.Errorf("%s: it starts", what)
		} else if what == "listens on loopback" && !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A stopped process cannot end in good order; Close ends it all the same, in time.
func TestCloseOfStoppedEngine(t *testing.T) {
	t.Parallel()
	e, err := engine.Start(t.Context(), enginetest.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	pid := e.PID()
	if err := e.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := e.Close(); err == nil {
		t.Error("Close says that it ended in good order")
	}
	if took := time.Since(began); took > 20*time.Second || alive(pid) {
		t.Errorf("took %s, alive: %v", took, alive(pid))
	}
}

const parentArg = "hookline-engine-parent"

// parent is a process that runs an engine and is killed.
func parent(args []string) {
	var cfg engine.Config
	if err := json.Unmarshal([]byte(args[0]), &cfg); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	e, err := engine.Start(context.Background(), cfg)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(e.PID())
	fmt.Println(e.Run(context.Background()))
	os.Exit(1)
}

// The engine ends with its parent, also when the parent is killed, also when the engine is stopped.
func TestParentIsKilled(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{false, true} {
		cfg := enginetest.Config(t)
		cfg.Log = nil
		raw, err := json.Marshal(cfg)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(cfg.Command[0], parentArg, string(raw)) //nolint:noctx // killed below
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		pid, convErr := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || convErr != nil {
			t.Fatalf("the parent says %q: %v", line, err)
		}
		if stopped {
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait() //nolint:errcheck // it was killed
		eventually(t, "the engine has ended", func() bool { return !alive(pid) })
		// Its data can be used at once.
		if e, err := engine.Start(t.Context(), enginetestConfig(t, cfg.DataDir)); err != nil {
			t.Error(err)
		} else if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

func enginetestConfig(t *testing.T, dir string) engine.Config {
	t.Helper()
	cfg := enginetest.Config(t)
	cfg.DataDir = dir
	return cfg
}
