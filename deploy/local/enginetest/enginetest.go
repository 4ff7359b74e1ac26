package enginetest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookline/hookline/deploy/local/engine"
)

// childArg tells the test binary that it is the engine.
const childArg = "hookline-engine-child"

// Env names the environment variable with the path of libchdb.so.
const Env = "HOOKLINE_LIBCHDB"

// startTimeout bounds a start on a machine that is busy with other packages' tests.
const startTimeout = 60 * time.Second

// Main runs the tests of a package, or the engine when the binary was started as its child.
func Main(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		os.Exit(engine.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// Engine is one engine and its data directory.
type Engine struct {
	t   testing.TB
	cfg engine.Config
	run *engine.Engine
}

// Start returns an engine on an empty data directory; it ends with the test.
func Start(t testing.TB, change ...func(*engine.Config)) *Engine {
	t.Helper()
	cfg := Config(t)
	for _, f := range change {
		f(&cfg)
	}
	e := &Engine{t: t, cfg: cfg}
	t.Cleanup(func() {
		if e.run == nil {
			return
		}
		e.Resume()
		if err := e.run.Close(); err != nil {
			t.Errorf("close the embedded engine: %v", err)
		}
	})
	e.start()
	return e
}

// Config is how a test starts an engine itself.
func Config(t testing.TB) engine.Config {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatalf("find the test binary: %v", err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	return engine.Config{
		Command: []string{exe, childArg}, Env: []string{"TZ=UTC", "HOME=" + os.TempDir(), "TMPDIR=" + os.TempDir()},
		DataDir: filepath.Join(t.TempDir(), "clickhouse"), Lib: Library(t), Log: log,
	}
}

// Library is the path of libchdb.so; the test fails without it.
func Library(t testing.TB) string {
	t.Helper()
	if path := os.Getenv(Env); path != "" {
		return path
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("find the working directory: %v", err)
	}
	path, ok := engine.FindLibrary(dir)
	if !ok {
		t.Fatalf("no .tools/libchdb.so above %s: run make tools-chdb, or set %s", dir, Env)
	}
	return path
}

func (e *Engine) start() {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	run, err := engine.Start(ctx, e.cfg)
	if err != nil {
		e.t.Fatalf("start the embedded engine: %v", err)
	}
	e.run = run
	e.cfg.Addr = strings.TrimPrefix(run.DSN(), "http://")
}

// DSN is where clients find the engine, "http://127.0.0.1:PORT". It stays over Restart.
func (e *Engine) DSN() string { return "http://" + e.cfg.Addr }

// DataDir is where the engine keeps its data.
func (e *Engine) DataDir() string { return e.cfg.DataDir }

// PID is the process id of the engine; 0 after Kill.
func (e *Engine) PID() int { return e.run.PID() }

// Kill ends the engine with SIGKILL and returns when it has gone. Connections are refused then.
func (e *Engine) Kill() {
	e.t.Helper()
	e.signal(syscall.SIGKILL)
	e.run.Wait()
	e.run = nil
}

// Pause stops the engine's process: connections are accepted and nothing answers.
func (e *Engine) Pause() { e.t.Helper(); e.signal(syscall.SIGSTOP) }

// Resume lets a paused engine go on.
func (e *Engine) Resume() { e.t.Helper(); e.signal(syscall.SIGCONT) }

// Restart starts the engine again on the same data and address, after ending it in good order if it
// runs.
func (e *Engine) Restart() {
	e.t.Helper()
	if e.run != nil {
		if err := e.run.Close(); err != nil {
			e.t.Fatalf("close the embedded engine: %v", err)
		}
	}
	e.start()
}

func (e *Engine) signal(s syscall.Signal) {
	e.t.Helper()
	if e.run == nil {
		e.t.Fatalf("the engine was killed; Restart it first")
	}
	if err := e.run.Signal(s); err != nil {
		e.t.Fatalf("signal %v to the engine: %v", s, err)
	}
}
