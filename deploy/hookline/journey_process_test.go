package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/deploy/local/enginetest"
)

// installation is one deployment as a user has it: a directory, settings, a broker.
type installation struct {
	t       *testing.T
	binary  string
	dir     string
	prefix  string
	environ []string
}

// install makes a directory with settings for dev: embedded, or on the cluster that
// HOOKLINE_TEST_BROKERS names, under a prefix of its own.
func install(t *testing.T) *installation {
	t.Helper()
	i := &installation{t: t, binary: buildBinary(t), dir: t.TempDir(), prefix: "hookline."}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "HOOKLINE_") {
			i.environ = append(i.environ, kv)
		}
	}
	if os.Getenv(brokertest.Env) != "" {
		b := brokertest.Start(t) // removes the topics when the test ends
		i.prefix = b.Prefix
		i.set("HOOKLINE_KAFKA_BROKERS", strings.Join(b.Seeds, ","))
		i.set("HOOKLINE_KAFKA_PREFIX", b.Prefix)
	}
	i.set("HOOKLINE_INGEST_ADDR", "127.0.0.1:0")
	i.set("HOOKLINE_ADMIN_ADDR", "127.0.0.1:0")
	i.set("HOOKLINE_CLICKHOUSE_DSN", "off") // withClickHouse turns it on: a test that does not ask it starts faster without
	return i
}

// withClickHouse gives dev its embedded ClickHouse.
func (i *installation) withClickHouse() {
	i.t.Helper()
	i.set("HOOKLINE_CLICKHOUSE_DSN", "")
	i.set("HOOKLINE_LIBCHDB", enginetest.Library(i.t)) // no .tools/ is above the directory of a test
}

func (i *installation) set(name, value string) { i.environ = append(i.environ, name+"="+value) }

// command runs a client command to its end and returns what it printed.
func (i *installation) command(stdin string, args ...string) (stdout string, err error) {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, i.binary, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = i.dir, i.environ, strings.NewReader(stdin)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String(), errors.Join(err, errors.New(strings.TrimSpace(errOut.String())))
	}
	return out.String(), nil
}

// must is command for one that has to succeed.
func (i *installation) must(stdin string, args ...string) string {
	i.t.Helper()
	out, err := i.command(stdin, args...)
	if err != nil {
		i.t.Fatalf("hookline %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// proc is a process of the program that serves.
type proc struct {
	t      *testing.T
	cmd    *exec.Cmd
	done   chan struct{} // closed when the process has ended
	stderr tail

	mu    sync.Mutex // guards lines
	lines []string
}

// start starts a command that serves. It is killed when the test ends, if it still runs.
func (i *installation) start(args ...string) *proc {
	i.t.Helper()
	p := &proc{t: i.t, cmd: exec.Command(i.binary, args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env, p.cmd.Stderr = i.dir, i.environ, &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		i.t.Fatalf("start hookline %v: %v", args, err)
	}
	go func() {
		scanner := bufio.NewScanner(stdout)
		for scanner.Scan() {
			p.mu.Lock()
			p.lines = append(p.lines, scanner.Text())
			p.mu.Unlock()
		}
		_ = p.cmd.Wait() // its state is asked for
		close(p.done)
	}()
	i.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // gone already in a test that passes
		<-p.done
		if i.t.Failed() {
			i.t.Logf("stderr of hookline %s:\n%s", strings.Join(args, " "), p.stderr.String())
		}
	})
	return p
}

// printed returns the lines of stdout so far.
func (p *proc) printed() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.lines...)
}

// running says whether the process has not ended.
func (p *proc) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// stop asks the process to end and returns its exit code and the time that it took.
func (p *proc) stop() (code int, took time.Duration) {
	p.t.Helper()
	start := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatalf("signal: %v", err)
	}
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		p.t.Fatal("did not stop within a minute")
	}
	return p.cmd.ProcessState.ExitCode(), time.Since(start)
}

// dev is a running hookline dev and where it listens.
type devProc struct {
	*proc
	ingest, admin, kafka, clickhouse string
}

// startDev starts hookline dev, waits for its ready line and points the client commands at it.
func (i *installation) startDev() *devProc {
	i.t.Helper()
	d := &devProc{proc: i.start("dev")}
	poll(i.t, func() bool { return len(d.printed()) > 0 || !d.running() })
	if !d.running() {
		i.t.Fatalf("hookline dev ended: %s", d.stderr.String())
	}
	fields := parseReady(d.printed()[0])
	d.ingest, d.admin, d.kafka, d.clickhouse = fields["ingest"], fields["admin"], fields["kafka"], fields["clickhouse"]
	if d.ingest == "" || d.admin == "" || d.kafka == "" || fields["console"] != d.admin+"/console/" || d.clickhouse == "" {
		i.t.Fatalf("ready line %q", d.printed()[0])
	}
	i.set("HOOKLINE_INGEST_URL", d.ingest)
	i.set("HOOKLINE_ADMIN_URL", d.admin)
	return d
}
