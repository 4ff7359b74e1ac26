package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/bench"
)

// childStack is a hookline dev in a process of its own, with data that is thrown away: what
// it costs can be told from what measuring it costs.
type childStack struct {
	bench.Remote
	cmd    *exec.Cmd
	dir    string
	stderr *tail
	done   chan struct{} // closed by the waiting goroutine once the child has ended
	shared bool          // on a cluster that keeps what we leave
}

// childReady bounds the start of the stack.
const childReady = 2 * time.Minute

// startChildStack starts this program as a stack. brokers "" = embedded.
func startChildStack(ctx context.Context, brokers string) (*childStack, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own program: %w", err)
	}
	dir, err := os.MkdirTemp("", "hookline-bench-")
	if err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	s := &childStack{dir: dir, stderr: &tail{}, done: make(chan struct{}), shared: brokers != ""}
	secret := rand.Text()
	s.Token, s.Key, s.TopicPrefix = secret, secret, "hookline-bench-"+shortID()+"."
	s.cmd = exec.Command(self, "dev", "--ingest-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0")
	s.cmd.Dir = dir // no hookline.yaml there
	s.cmd.Env = append(withoutSettings(os.Environ()),
		"HOOKLINE_DATA_DIR="+filepath.Join(dir, "data"), "HOOKLINE_KAFKA_PREFIX="+s.TopicPrefix, "HOOKLINE_KAFKA_BROKERS="+brokers,
		"HOOKLINE_ADMIN_TOKEN="+s.Token, "HOOKLINE_API_KEYS=bench:"+s.Key)
	s.cmd.Stderr = s.stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is ours to pass on
	stdout, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the stack: %w", err), os.RemoveAll(dir))
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
		_ = s.cmd.Wait() // what it said on stderr tells more
		close(s.done)
	}()
	if err := s.readReady(ctx, lines); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// readReady takes addresses from the ready line.
func (s *childStack) readReady(ctx context.Context, lines <-chan string) error {
	timeout := time.NewTimer(childReady)
	defer timeout.Stop()
	select {
	case line := <-lines:
		fields := parseReady(line)
		s.Ingest, s.Admin = fields["ingest"], fields["admin"]
		seeds := strings.Split(fields["kafka"], ",")
		if s.Ingest == "" || s.Admin == "" || fields["kafka"] == "" {
			return fmt.Errorf("the stack said %q instead of its addresses", line)
		}
		s.Brokers = []kgo.Opt{kgo.SeedBrokers(seeds...)}
		s.Processes = []int{s.cmd.Process.Pid}
		return nil
	case <-s.done:
		return fmt.Errorf("the stack did not start: %s", orDefault(s.stderr.String(), s.cmd.ProcessState.String()))
	case <-timeout.C:
		return fmt.Errorf("the stack is not ready after %s: %s", childReady, s.stderr)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// parseReady reads the fields of dev's ready line.
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

// stop ends the child and removes what it kept.
func (s *childStack) stop() error {
	var errs []error
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		errs = append(errs, fmt.Errorf("stop the stack: %w", err))
	}
	select {
	case <-s.done:
	case <-time.After(drainTime + 5*time.Second):
		errs = append(errs, errors.New("the stack did not stop and was killed"), s.cmd.Process.Kill())
		<-s.done
	}
	if s.shared && s.Brokers != nil {
		errs = append(errs, s.removeTopics())
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// removeTopics takes topics and groups of the run off a shared cluster.
func (s *childStack) removeTopics() error {
	cl, err := kgo.NewClient(s.Brokers...)
	if err != nil {
		return fmt.Errorf("remove topics: %w", err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	topics, err := adm.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("remove topics: %w", err)
	}
	var names []string
	for name := range topics {
		if strings.HasPrefix(name, s.TopicPrefix) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		if _, err := adm.DeleteTopics(ctx, names...); err != nil {
			return fmt.Errorf("remove topics: %w", err)
		}
	}
	groups, err := adm.ListGroups(ctx)
	if err != nil {
		return fmt.Errorf("remove groups: %w", err)
	}
	var mine []string
	for _, g := range groups.Groups() {
		if strings.HasPrefix(g, s.TopicPrefix) {
			mine = append(mine, g)
		}
	}
	if len(mine) > 0 {
		if _, err := adm.DeleteGroups(ctx, mine...); err != nil {
			return fmt.Errorf("remove groups: %w", err)
		}
	}
	return nil
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

func shortID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand documents it
	return hex.EncodeToString(b[:])
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
