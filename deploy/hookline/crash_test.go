package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/bench/receiver"
	"github.com/hookline/hookline/bench/verify"
	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event/scan"
	"github.com/hookline/hookline/retrytiers/tier"
)

const (
	crashEvents   = 20_000
	crashInFlight = 256
	crashPatience = 2 * time.Minute
	crashSecret   = "whsec_AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
)

// crashCase is one seed: what of the retry tiers is going on when the process dies.
type crashCase struct {
	name string
	seed uint64
	base string // of the failing endpoint's schedule
	trim string // interval of the trims
}

func crashCases() []crashCase {
	seeds := 10
	if os.Getenv(brokertest.Env) != "" {
		seeds = 3
	}
	var out []crashCase
	for i := range seeds {
		c := crashCase{name: fmt.Sprint("seed", i), seed: uint64(i), base: "300ms", trim: "1m"}
		switch i {
		case 0: // most retries of the run are in the wheel at every kill
			c.name, c.base = "full-wheel", "4s"
		case 1: // a kill is never further than 200 ms behind a trim
			c.name, c.trim = "after-trim", "200ms"
		}
		out = append(out, c)
	}
	return out
}

// TestE2ECrash kills -9 the whole program at three random points among 20,000 events with two
// endpoints, one of which fails a fifth of its requests. What was answered 202 must end
// delivered or dead, by id; what repeats is bounded by what was in flight.
func TestE2ECrash(t *testing.T) {
	binary := buildBinary(t)
	for _, c := range crashCases() {
		t.Run(c.name, func(t *testing.T) { crashRun(t, binary, c) })
	}
}

func crashRun(t *testing.T, binary string, c crashCase) {
	rng := rand.New(rand.NewPCG(c.seed, 7))
	recv, err := receiver.Start(receiver.Config{Paths: map[string]receiver.Path{
		"/ok":   {Behaviour: receiver.Healthy(), Secrets: []string{crashSecret}},
		"/fail": {Behaviour: receiver.Behaviour{Share: 0.2, Fail: receiver.Answer{Status: 503}}, Secrets: []string{crashSecret}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer recv.Close() //nolint:errcheck // the test is over
	prog := newProgram(t, binary, "HOOKLINE_DISPATCHER_IN_FLIGHT="+fmt.Sprint(crashInFlight),
		"HOOKLINE_RETRYTIERS_TRIM_INTERVAL="+c.trim, "HOOKLINE_DISPATCHER_TRIM_INTERVAL="+c.trim)
	prog.start()
	defer prog.kill()
	prog.endpoint("ok", recv.URL()+"/ok", "")
	prog.endpoint("fail", recv.URL()+"/fail", fmt.Sprintf(`,"retry":{"max_attempts":3,"base":%q,"cap":"5s"}`, c.base))

	pub := &publisher{prog: prog, check: verify.New("ok", "fail")}
	go pub.run(crashEvents, 16)
	var kills []time.Time
	points := []int64{}
	for range 3 {
		points = append(points, int64(rng.IntN(crashEvents*8/10)))
	}
	for _, at := range sorted(points) {
		pub.waitFor(t, at)
		prog.kill()
		kills = append(kills, time.Now())
		prog.start()
	}
	pub.waitFor(t, crashEvents)
	settleCrash(t, prog, recv, pub, kills)
}

// settleCrash waits until nothing is missing and judges.
func settleCrash(t *testing.T, prog *program, recv *receiver.Receiver, pub *publisher, kills []time.Time) {
	t.Helper()
	deadline := time.Now().Add(crashPatience)
	var report verify.Report
	var repeats []time.Time
	for {
		check := verify.New("ok", "fail")
		for _, a := range pub.accepted() {
			check.Accept(a, 0, time.Time{})
		}
		repeats = repeatsOf(recv)
		recv.Each(func(q *receiver.Request) bool {
			check.Receive(verify.Received{ID: q.ID, Endpoint: q.Path[1:], MessageID: q.MessageID, Sequence: q.Sequence, Attempt: q.Attempt, At: q.At, OK: q.OK()})
			if q.Signature != receiver.Valid {
				t.Fatalf("event %s came with an invalid signature", q.ID)
			}
			return true
		})
		for _, l := range prog.deadLetters() {
			if l.Reason != tier.Exhausted || l.Attempts != 3 {
				t.Fatalf("dead letter %s of %s: reason %s after %d attempts", l.EventID, l.EndpointID, l.Reason, l.Attempts)
			}
			check.Dead(l.EventID, l.EndpointID)
		}
		report = check.Report()
		if report.Lost == 0 || time.Now().After(deadline) {
			break
		}
		<-time.After(200 * time.Millisecond) // state of another process: there is no signal to wait for
	}
	t.Logf("accepted %d, delivered %d, dead %d, lost %d, duplicates %d, repeated attempts %d, extra %d, restarts ready after %v",
		report.Accepted, report.Delivered, report.Dead, report.Lost, report.Duplicates, report.RepeatedAttempts, report.Extra, prog.took)
	if report.Accepted == 0 || report.Lost != 0 || report.SequenceChanged != 0 || report.Misrouted != 0 {
		t.Errorf("after %d kills: %+v", len(kills), report)
	}
	// In flight are the permits; what finished in the last 100 ms is what arrived then.
	bound := 0
	for _, k := range kills {
		recent := 0
		recv.Each(func(q *receiver.Request) bool {
			if q.At.Before(k) && k.Sub(q.At) <= 100*time.Millisecond {
				recent++
			}
			return true
		})
		bound += crashInFlight + recent
	}
	if len(repeats) > bound {
		t.Errorf("%d attempts were repeated, the bound is %d", len(repeats), bound)
	}
	if t.Failed() {
		t.Logf("stderr of the program:\n%s", prog.stderr())
	}
}

// repeatsOf returns the times of requests whose (event, endpoint, attempt) came before.
func repeatsOf(recv *receiver.Receiver) []time.Time {
	type key struct {
		id, path string
		attempt  int
	}
	seen := map[key]bool{}
	var out []time.Time
	recv.Each(func(q *receiver.Request) bool {
		k := key{q.ID, q.Path, q.Attempt}
		if seen[k] {
			out = append(out, q.At)
		}
		seen[k] = true
		return true
	})
	return out
}

func sorted(in []int64) []int64 {
	for i := range in {
		for j := i; j > 0 && in[j] < in[j-1]; j-- {
			in[j], in[j-1] = in[j-1], in[j]
		}
	}
	return in
}

// publisher posts events and keeps the ids that were answered 202. A post without an answer
// is an unknown outcome and is not sent again.
type publisher struct {
	prog  *program
	check *verify.Check
	sent  atomic.Int64

	mu  sync.Mutex
	ids []string
}

func (p *publisher) accepted() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.ids...)
}

func (p *publisher) run(n int64, workers int) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}, Timeout: 10 * time.Second}
	for range workers {
		go func() {
			for {
				i := p.sent.Add(1)
				if i > n {
					return
				}
				if id, ok := p.post(client, i); ok {
					p.mu.Lock()
					p.ids = append(p.ids, id)
					p.mu.Unlock()
				}
			}
		}()
	}
}

// post sends one event once the program takes connections; refusals are tried again, since
// they say that nothing was accepted.
func (p *publisher) post(client *http.Client, i int64) (string, bool) {
	body := fmt.Sprintf(`{"event":"message.delivered","message_id":"m-%d","n":%d}`, i%5000, i)
	for {
		<-p.prog.up()
		req, err := http.NewRequest(http.MethodPost, p.prog.ingest+"/v1/events", strings.NewReader(body))
		if err != nil {
			return "", false
		}
		req.Header.Set("Authorization", "Bearer dev")
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			return "", false
		}
		raw, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return "", false
		}
		switch resp.StatusCode {
		case http.StatusAccepted:
			var ok struct {
				ID string `json:"id"`
			}
			return ok.ID, json.Unmarshal(raw, &ok) == nil
		case http.StatusServiceUnavailable:
			continue
		default:
			return "", false
		}
	}
}

func (p *publisher) waitFor(t *testing.T, n int64) {
	t.Helper()
	deadline := time.After(crashPatience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for p.sent.Load() < n {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("only %d of %d events sent", p.sent.Load(), n)
		}
	}
}

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
	p.env = append(os.Environ(), "HOOKLINE_INGEST_ADDR="+ingest, "HOOKLINE_ADMIN_ADDR="+admin)
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
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.kafka))
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
