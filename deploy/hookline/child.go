package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is this program in a process of its own, started for a measurement.
type child struct {
	cmd    *exec.Cmd
	stderr *tail
	done   chan struct{} // closed by the waiting goroutine once the child has ended
}

// childReady bounds the start of a child.
const childReady = 2 * time.Minute

// startChild starts this program in dir and returns the fields of its ready line.
func startChild(ctx context.Context, dir string, args []string, env ...string) (*child, map[string]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("find own program: %w", err)
	}
	c := &child{stderr: &tail{}, done: make(chan struct{})}
	c.cmd = exec.Command(self, args...)
	c.cmd.Dir = dir // no hookline.yaml there
	c.cmd.Env = append(withoutSettings(os.Environ()), env...)
	c.cmd.Stderr = c.stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is ours to pass on
	stdout, err := c.cmd.StdoutPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	lines := make(chan string, 1)
	go func() { // ends with the child's stdout
		scanner := bufio.NewScanner(stdout)
		for scanner.Scan() {
			select {
			case lines <- scanner.Text():
			default:
			}
		}
		_ = c.cmd.Wait() // what it said on stderr tells more
		close(c.done)
	}()
	fields, err := c.readReady(ctx, lines)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start %s: %w", args[0], err), c.stop())
	}
	return c, fields, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

func (c *child) readReady(ctx context.Context, lines <-chan string) (map[string]string, error) {
	timeout := time.NewTimer(childReady)
	defer timeout.Stop()
	select {
	case line := <-lines:
		return parseReady(line), nil
	case <-c.done:
		return nil, fmt.Errorf("it did not start: %s", orDefault(c.stderr.String(), c.cmd.ProcessState.String()))
	case <-timeout.C:
		return nil, fmt.Errorf("it is not ready after %s: %s", childReady, c.stderr)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// parseReady reads the fields of a ready line.
func parseReady(line string) map[string]string {
	out := map[string]string{}
	rest, ok := strings.CutPrefix(line, "ready ")
	if !ok {
		return out
	}
	for field := range strings.FieldsSeq(rest) {
		if k, v, ok := strings.Cut(field, "="); ok {
			out[k] = v
		}
	}
	return out
}

// stop ends the child; nil has ended.
func (c *child) stop() error {
	if c == nil {
		return nil
	}
	var errs []error
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		errs = append(errs, fmt.Errorf("stop process: %w", err))
	}
	select {
	case <-c.done:
	case <-time.After(drainTime + 5*time.Second):
		errs = append(errs, errors.New("a process did not stop and was killed"), c.cmd.Process.Kill())
		<-c.done
	}
	return errors.Join(errs...)
}

// withoutSettings keeps the caller's settings out of the child.
func withoutSettings(environ []string) []string {
	var out []string
	for _, kv := range environ {
		if !strings.HasPrefix(kv, "HOOKLINE_") {
			out = append(out, kv)
		}
	}
	return out
}

// tail keeps the end of what is written to it.
type tail struct {
	mu sync.Mutex // guards b
	b  []byte
}

const tailBytes = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if len(t.b) > tailBytes {
		t.b = append([]byte(nil), t.b[len(t.b)-tailBytes:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.b))
}
