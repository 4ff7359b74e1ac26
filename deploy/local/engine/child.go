package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is one life of the engine's process.
type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	addr  string
	done  chan struct{} // closed when it is gone; err says how it ended
	err   error
	last  *lastLine
}

// startChild starts the process and waits until it answers queries.
func startChild(ctx context.Context, cfg Config) (*child, error) {
	args := append(append([]string{}, cfg.Command[1:]...), cfg.childArgs()...)
	cmd := exec.Command(cfg.Command[0], args...) //nolint:noctx // the context bounds the start only
	cmd.SysProcAttr = childAttr()
	cmd.Env = cfg.Env
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	c := &child{cmd: cmd, stdin: stdin, done: make(chan struct{}), last: &lastLine{log: cfg.Log}}
	cmd.Stderr = c.last
	started := make(chan error, 1)
	ready := make(chan string, 1)
	go c.live(stdout, cfg.Password, started, ready, cfg.Log)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cfg.Command[0], err)
	}
	select {
	case c.addr = <-ready:
		return c, nil
	case <-c.done:
		return nil, fmt.Errorf("the engine ended at its start: %s: %w", c.last.text(), c.ending())
	case <-ctx.Done():
		c.kill()
		return nil, fmt.Errorf("wait for the engine to start: %w", context.Cause(ctx))
	}
}

// live owns the process. It keeps its thread until the end: the kernel would kill the child with it.
func (c *child) live(stdout io.Reader, password string, started chan<- error, ready chan<- string, log *slog.Logger) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	io.WriteString(c.stdin, password+"\n") //nolint:errcheck // then it has ended, which is noticed below
	defer close(c.done)
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if addr, ok := strings.CutPrefix(lines.Text(), readyLine); ok {
			select {
			case ready <- addr:
			default:
			}
			continue
		}
		log.Debug("embedded engine", "line", lines.Text())
	}
	c.err = c.cmd.Wait()
}

// ending says how the process ended; after done.
func (c *child) ending() error {
	if exit, ok := errors.AsType[*exec.ExitError](c.err); ok && exit.ExitCode() == exitInUse {
		return ErrInUse
	}
	if c.err == nil {
		return errors.New("exit status 0")
	}
	return c.err
}

func (c *child) kill() {
	c.signal(syscall.SIGKILL) //nolint:errcheck // it has gone already
	<-c.done
}

func (c *child) signal(s syscall.Signal) error {
	select {
	case <-c.done:
		return errors.New("the engine's process has ended")
	default:
		return c.cmd.Process.Signal(s)
	}
}

// stop ends the process in good order, or by force when it does not go in time.
func (c *child) stop(wait time.Duration) error {
	c.stdin.Close() //nolint:errcheck // the process has gone already
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-c.done:
		return c.err
	case <-timer.C:
		c.kill()
		return fmt.Errorf("the embedded engine did not end within %s and was killed", wait)
	}
}

// lastLine logs what the process writes to its standard error and keeps the end of it.
type lastLine struct {
	log  *slog.Logger
	mu   sync.Mutex
	part []byte
	line string
}

// lineLimit bounds what is kept of a line.
const lineLimit = 2 << 10

func (l *lastLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range p {
		if b != '\n' {
			if len(l.part) < lineLimit {
				l.part = append(l.part, b)
			}
			continue
		}
		if text := strings.TrimSpace(string(l.part)); text != "" {
			l.line = text
			l.log.Warn("embedded engine", "line", text)
		}
		l.part = l.part[:0]
	}
	return len(p), nil
}

func (l *lastLine) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.line
}
