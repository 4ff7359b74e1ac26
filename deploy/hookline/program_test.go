package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/ingest/event/scan"
	"github.com/hookline/hookline/retrytiers/tier"
)

// program is the built binary as `hookline dev` on fixed loopback ports and one data folder.
type program struct {
	t             *testing.T
	binary, dir   string
	env           []string
	ingest, admin string
	kafka         string
	prefix        string
	took          []time.Duration

	mu      sync.Mutex
	cmd     *exec.Cmd
	ready   chan struct{} // closed while the program is up
	errFile *os.File
}

// buildBinary builds the program once per test run.
func buildBinary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hookline")
	cmd := exec.Command("go", "build", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

func newProgram(t *testing.T, binary string, env ...string) *program {
	t.Helper()
	p := &program{t: t, binary: binary, dir: t.TempDir(), ready: make(chan struct{}), prefix: "hookline."}
	ingest, admin := freeAddr(t), freeAddr(t)
	p.ingest, p.admin = "http://"+ingest, "http://"+admin
	p.env = append(os.Environ(), "HOOKLINE_INGEST_ADDR="+ingest, "HOOKLINE_ADMIN_ADDR="+admin, "HOOKLINE_CLICKHOUSE_DSN=off")
	if seeds := os.Getenv(brokertest.Env); seeds != "" {
		b := brokertest.Start(t)
		p.prefix = b.Prefix
		p.env = append(p.env, "HOOKLINE_KAFKA_BROKERS="+seeds, "HOOKLINE_KAFKA_PREFIX="+b.Prefix, "HOOKLINE_TOPICS_PARTITIONS=6")
	}
	p.env = append(p.env, env...)
	f, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	p.errFile = f
	return p
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // only its number is wanted
	return l.Addr().String()
}

// start runs the program and waits for its ready line.
func (p *program) start() {
	p.t.Helper()
	began := time.Now()
	cmd := exec.Command(p.binary, "dev", "--data-dir", p.dir)
	cmd.Env, cmd.Stderr = p.env, p.errFile
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	line := make(chan string, 1)
	go func() {
		s := bufio.NewScanner(out)
		if s.Scan() {
			line <- s.Text()
		}
		close(line)
		_, _ = io.Copy(io.Discard, out)
	}()
	p.mu.Lock()
	p.cmd = cmd
	p.mu.Unlock()
	select {
	case text, ok := <-line:
		if !ok || !strings.HasPrefix(text, "ready ") {
			p.t.Fatalf("program said %q\n%s", text, p.stderr())
		}
		for _, word := range strings.Fields(text) {
			if addr, ok := strings.CutPrefix(word, "kafka="); ok {
				p.kafka = addr
			}
		}
	case <-time.After(crashPatience):
		p.t.Fatalf("program is not ready\n%s", p.stderr())
	}
	p.took = append(p.took, time.Since(began).Round(time.Millisecond))
	p.mu.Lock()
	close(p.ready)
	p.mu.Unlock()
}

// kill is kill -9: nothing is flushed, nothing is left.
func (p *program) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	p.ready = make(chan struct{})
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.cmd = nil
}

// stop is the clean end: SIGTERM, and exit code 0.
func (p *program) stop() {
	p.t.Helper()
	p.mu.Lock()
	cmd := p.cmd
	p.cmd = nil
	p.mu.Unlock()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		p.t.Errorf("clean stop: %v\n%s", err, p.stderr())
	}
}

func (p *program) up() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready
}

func (p *program) stderr() string {
	raw, err := os.ReadFile(p.errFile.Name())
	if err != nil {
		return err.Error()
	}
	if len(raw) > 8000 {
		raw = raw[len(raw)-8000:]
	}
	return string(raw)
}

func (p *program) endpoint(id, url, more string) {
	p.t.Helper()
	body := fmt.Sprintf(`{"id":%q,"tenant":"dev","url":%q,"max_in_flight":64,"secret":%q%s}`, id, url, crashSecret, more)
	req, err := http.NewRequest(http.MethodPost, p.admin+"/v1/endpoints", bytes.NewBufferString(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer dev")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	raw, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		p.t.Fatalf("create endpoint: %d %s", resp.StatusCode, raw)
	}
}

// deadLetters reads the dead topic to its end.
func (p *program) deadLetters() []tier.DeadLetter {
	p.t.Helper()
	var out []tier.DeadLetter
	p.read(tier.DeadSuffix, func(r *kgo.Record) { out = append(out, tier.DecodeDead(r)) })
	return out
}

func (p *program) read(suffix string, fn func(*kgo.Record)) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), crashPatience)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(p.kafka, ",")...))
	if err != nil {
		p.t.Fatal(err)
	}
	defer cl.Close()
	topic := p.prefix + suffix
	listed, err := kadm.NewClient(cl).ListTopics(ctx, topic)
	if err != nil {
		p.t.Fatal(err)
	}
	for n := range int32(len(listed[topic].Partitions)) {
		from, err := scan.Start(ctx, cl, topic, n)
		if err != nil {
			p.t.Fatal(err)
		}
		end, err := scan.End(ctx, cl, topic, n, true)
		if err != nil {
			p.t.Fatal(err)
		}
		if _, err := scan.Range(ctx, cl, scan.Spec{Topic: topic, Partition: n, From: from, Until: end, ReadCommitted: true}, func(r *kgo.Record) error {
			fn(r)
			return nil
		}); err != nil {
			p.t.Fatal(err)
		}
	}
}

// metric reads one value without labels from /metrics.
func (p *program) metric(name string) float64 {
	p.t.Helper()
	resp, err := http.Get(p.admin + "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				p.t.Fatal(err)
			}
			return v
		}
	}
	p.t.Fatalf("no metric %s", name)
	return 0
}

// waiting are the topics that a delivery passes until it ends, with the groups that read them.
func (p *program) waiting() map[string]string {
	groups := map[string]string{p.prefix + event.EventsSuffix: "dispatcher", p.prefix + tier.DueSuffix: "dispatcher"}
	for _, step := range tier.DefaultLadder().Steps() {
		groups[p.prefix+step.Suffix] = "retrytiers"
	}
	return groups
}

// trimmed sums the log starts of the topics that the program trims.
func (p *program) trimmed() (n int64) {
	p.t.Helper()
	p.onBroker(func(ctx context.Context, adm *kadm.Client) {
		for topic := range p.waiting() {
			if topic == p.prefix+event.EventsSuffix {
				continue
			}
			starts, err := adm.ListStartOffsets(ctx, topic)
			if err != nil {
				p.t.Fatal(err)
			}
			starts.Each(func(o kadm.ListedOffset) { n += o.Offset })
		}
	})
	return n
}

// quiet reports whether every delivery has come to its end: all that waits was read and
// committed.
func (p *program) quiet() (yes bool) {
	p.t.Helper()
	yes = true
	p.onBroker(func(ctx context.Context, adm *kadm.Client) {
		for topic, role := range p.waiting() {
			ends, err := adm.ListEndOffsets(ctx, topic)
			if err != nil {
				p.t.Fatal(err)
			}
			committed, err := adm.FetchOffsets(ctx, event.GroupName(p.prefix, role))
			if err != nil {
				p.t.Fatal(err)
			}
			ends.Each(func(end kadm.ListedOffset) {
				at, ok := committed.Lookup(topic, end.Partition)
				yes = yes && (end.Offset == 0 || ok && at.At >= end.Offset)
			})
		}
	})
	return yes
}

// onBroker runs fn with an admin client on the program's broker.
func (p *program) onBroker(fn func(context.Context, *kadm.Client)) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), crashPatience)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(p.kafka, ",")...), kgo.MetadataMinAge(250*time.Millisecond))
	if err != nil {
		p.t.Fatal(err)
	}
	defer cl.Close()
	fn(ctx, kadm.NewClient(cl))
}

// until polls a state of another process: there is no signal to wait for.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(crashPatience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s does not come true", what)
		}
	}
}
