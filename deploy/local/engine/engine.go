package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"
)

// Config says how to run the engine.
type Config struct {
	Command  []string // that ends in Main, without the arguments of Main
	Env      []string // of the child
	DataDir  string
	Lib      string // path of libchdb.so
	Addr     string // 127.0.0.1:0 when empty
	Password string // "" = whoever reaches the listener may ask

	Running int   // queries at once; 0 = the default
	Queue   int   // queries that may wait; 0 = the default
	Memory  int64 // bytes that the engine may use; 0 = the default
	MaxBody int64 // bytes of a request; 0 = the default
	Nice    int   // how much priority the process gives up; see LowPriority

	// LockWait is how long a start waits for another engine to leave the data directory, such as
	// one whose parent has just been killed; 0 = the default.
	LockWait time.Duration

	Log     *slog.Logger          `json:"-"`
	Metrics prometheus.Registerer `json:"-"` // nil = none
}

// LowPriority is the Nice of an engine that must not be felt by what runs beside it: a tenth of
// the processor while others want all of it.
const LowPriority = 10

// closeWait bounds the end of the child, in which it lets its queries end.
const closeWait = stopWait + 3*time.Second

// startWait bounds one start under supervision: a table with many parts takes a while to load.
const startWait = 2 * time.Minute

func (c Config) childArgs() []string {
	args := []string{"-data-dir", c.DataDir, "-lib", c.Lib, "-addr", c.Addr}
	if c.LockWait > 0 {
		args = append(args, "-lock-wait", c.LockWait.String())
	}
	for name, v := range map[string]int64{"-running": int64(c.Running), "-queue": int64(c.Queue), "-memory": c.Memory, "-max-body": c.MaxBody, "-nice": int64(c.Nice)} {
		if v > 0 {
			args = append(args, name, fmt.Sprint(v))
		}
	}
	return args
}

// Engine is a ClickHouse engine in a process of its own.
type Engine struct {
	cfg      Config
	restarts prometheus.Counter

	mu     sync.Mutex
	child  *child // nil while there is none
	closed bool
}

// Start starts the engine and returns when it answers queries.
func Start(ctx context.Context, cfg Config) (*Engine, error) {
	if cfg.Addr == "" {
		cfg.Addr = "127.0.0.1:0"
	}
	if len(cfg.Command) == 0 {
		return nil, errors.New("embedded engine: no command to run it by")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{cfg: cfg}
	if err := e.register(); err != nil {
		return nil, err
	}
	c, err := startChild(ctx, cfg)
	if err != nil {
		return nil, err
	}
	e.cfg.Addr = c.addr // every later life has the same address
	e.child = c
	return e, nil
}

func (e *Engine) register() error {
	e.restarts = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "hookline_engine_restarts_total", Help: "How often the embedded ClickHouse engine had to be started again.",
	})
	up := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "hookline_engine_up", Help: "1 while the process of the embedded ClickHouse engine runs.",
	}, func() float64 {
		if e.PID() == 0 {
			return 0
		}
		return 1
	})
	if e.cfg.Metrics == nil {
		return nil
	}
	for _, c := range []prometheus.Collector{e.restarts, up} {
		if err := e.cfg.Metrics.Register(c); err != nil {
			return fmt.Errorf("register metrics of the embedded engine: %w", err)
		}
	}
	return nil
}

// DSN is where clients find the engine; it does not change over restarts.
func (e *Engine) DSN() string { return "http://" + e.cfg.Addr }

// PID is the process id of the child; 0 while there is none.
func (e *Engine) PID() int {
	c := e.current()
	if c == nil {
		return 0
	}
	select {
	case <-c.done:
		return 0
	default:
		return c.cmd.Process.Pid
	}
}

// Signal sends a signal to the child.
func (e *Engine) Signal(s syscall.Signal) error {
	c := e.current()
	if c == nil {
		return errors.New("embedded engine: no process")
	}
	return c.signal(s)
}

// Wait returns when the present child has gone.
func (e *Engine) Wait() {
	if c := e.current(); c != nil {
		<-c.done
	}
}

func (e *Engine) current() *child {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.child
}

// Run starts the child again whenever it ends, until ctx is done; then it ends the engine.
func (e *Engine) Run(ctx context.Context) error {
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(15*time.Second), backoff.WithMaxElapsedTime(0))
	for {
		c := e.current()
		since := time.Now()
		select {
		case <-ctx.Done():
			return e.Close()
		case <-c.done:
		}
		if time.Since(since) > time.Minute {
			pause.Reset()
		}
		e.cfg.Log.Error("the embedded ClickHouse engine has ended; starting it again", "error", c.ending(), "last_line", c.last.text())
		if err := e.restart(ctx, pause); err != nil {
			if ctx.Err() != nil {
				return e.Close()
			}
			return err
		}
	}
}

// restart tries until the child answers again, for ever: deliveries do not need it.
func (e *Engine) restart(ctx context.Context, pause backoff.BackOff) error {
	return backoff.RetryNotify(func() error {
		e.restarts.Inc()
		startCtx, cancel := context.WithTimeout(ctx, startWait)
		defer cancel()
		c, err := startChild(startCtx, e.cfg)
		if err != nil {
			return err
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.closed {
			c.kill()
			return backoff.Permanent(errors.New("embedded engine: closed"))
		}
		e.child = c
		return nil
	}, backoff.WithContext(pause, ctx), func(err error, wait time.Duration) {
		e.cfg.Log.Error("the embedded ClickHouse engine does not start", "error", err, "again_in", wait)
	})
}

// Close ends the child, in good order if it goes in time.
func (e *Engine) Close() error {
	e.mu.Lock()
	c, closed := e.child, e.closed
	e.closed = true
	e.mu.Unlock()
	if closed || c == nil {
		return nil
	}
	return c.stop(closeWait)
}
