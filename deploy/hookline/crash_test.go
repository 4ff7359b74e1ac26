package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookline/hookline/bench/receiver"
	"github.com/hookline/hookline/bench/verify"
	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/retrytiers/tier"
)

const (
	crashEvents   = 20_000
	crashInFlight = 256
	crashWorkers  = 16
	crashWheel    = 300 // records; the case full-wheel fills it
	crashPatience = 2 * time.Minute
	crashSecret   = "whsec_AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
)

// crashCase is one seed: what of the retry tiers is going on when the process dies.
type crashCase struct {
	name  string
	seed  uint64
	base  string // of the failing endpoint's schedule
	env   []string
	ready func(*program) func() bool // when the process may be killed; nil = at once
}

func crashCases() []crashCase {
	seeds, full := 10, os.Getenv("HOOKLINE_FULL") != ""
	if full {
		seeds = 40
	}
	if os.Getenv(brokertest.Env) != "" {
		seeds = 3
		if full {
			seeds = 12
		}
	}
	var out []crashCase
	for i := range seeds {
		c := crashCase{name: fmt.Sprint("seed", i), seed: uint64(i), base: "300ms"}
		switch i {
		case 0:
			c.name, c.base = "full-wheel", "4s"
			c.env = []string{fmt.Sprint("HOOKLINE_RETRYTIERS_WHEEL_RECORDS=", crashWheel)}
			c.ready = func(p *program) func() bool {
				return func() bool { return p.metric("hookline_retrytiers_wheel_records") >= crashWheel }
			}
		case 1:
			c.name = "after-trim"
			c.env = []string{"HOOKLINE_RETRYTIERS_TRIM_INTERVAL=100ms", "HOOKLINE_DISPATCHER_TRIM_INTERVAL=100ms"}
			c.ready = func(p *program) func() bool {
				before := p.trimmed()
				return func() bool { return p.trimmed() > before }
			}
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
	prog := newProgram(t, binary, append(c.env, fmt.Sprint("HOOKLINE_DISPATCHER_IN_FLIGHT=", crashInFlight))...)
	prog.start()
	defer prog.kill()
	prog.endpoint("ok", recv.URL()+"/ok", "")
	prog.endpoint("fail", recv.URL()+"/fail", fmt.Sprintf(`,"retry":{"max_attempts":3,"base":%q,"cap":"5s"}`, c.base))

	pub := &publisher{prog: prog}
	pub.run(crashEvents)
	var points []int64
	for range 3 {
		points = append(points, int64(rng.IntN(crashEvents*8/10)))
	}
	slices.Sort(points)
	var kills []time.Time
	for _, at := range points {
		pub.waitFor(t, at)
		if c.ready != nil {
			until(t, "the moment to kill", c.ready(prog))
		}
		prog.kill()
		kills = append(kills, time.Now())
		prog.start()
	}
	pub.wait.Wait()
	until(t, "quiet in all topics", prog.quiet)
	judgeCrash(t, prog, recv, pub, kills)
	if t.Failed() {
		t.Logf("stderr of the program:\n%s", prog.stderr())
	}
}

// judgeCrash compares what was answered 202 with what arrived and what is dead. Nothing is
// under way any more.
func judgeCrash(t *testing.T, prog *program, recv *receiver.Receiver, pub *publisher, kills []time.Time) {
	t.Helper()
	check := verify.New("ok", "fail")
	for _, id := range pub.ids {
		check.Accept(id, 0, time.Time{})
	}
	recv.Each(func(q *receiver.Request) bool {
		check.Receive(verify.Received{ID: q.ID, Endpoint: q.Path[1:], MessageID: q.MessageID, Sequence: q.Sequence, Attempt: q.Attempt, At: q.At, OK: q.OK()})
		if q.Signature != receiver.Valid {
			t.Errorf("event %s came with an invalid signature", q.ID)
		}
		return true
	})
	for _, l := range prog.deadLetters() {
		if l.Reason != tier.Exhausted || l.Attempts != 3 {
			t.Errorf("dead letter %s of %s: reason %s after %d attempts", l.EventID, l.EndpointID, l.Reason, l.Attempts)
		}
		check.Dead(l.EventID, l.EndpointID)
	}
	r, repeats, bound := check.Report(), repeatsOf(recv), repeatBound(recv, kills)
	t.Logf("accepted %d, unanswered %d, delivered %d, dead %d, lost %d, duplicates %d, repeated attempts %d (bound %d), also dead %d, extra %d, restarts ready after %v",
		r.Accepted, pub.unanswered.Load(), r.Delivered, r.Dead, r.Lost, r.Duplicates, repeats, bound, r.AlsoDead, r.Extra, prog.took)
	// A kill cuts at most the post of each worker, and the one it starts before it knows.
	if n := pub.unanswered.Load(); int64(r.Accepted)+n != crashEvents || n > int64(2*crashWorkers*len(kills)) {
		t.Errorf("%d of %d events were accepted and %d have no answer", r.Accepted, crashEvents, n)
	}
	if r.Lost != 0 || r.SequenceChanged != 0 || r.Misrouted != 0 {
		t.Errorf("after %d kills: %+v", len(kills), r)
	}
	if int64(r.Extra) > pub.unanswered.Load() {
		t.Errorf("%d events arrived that nobody published", r.Extra)
	}
	if repeats > bound || r.Duplicates > bound || r.AlsoDead > bound {
		t.Errorf("%d attempts were repeated, %d deliveries were duplicates, %d dead ones were delivered, the bound is %d", repeats, r.Duplicates, r.AlsoDead, bound)
	}
}

// repeatBound is what may repeat: the permits of each kill, and what arrived in the 100 ms
// before it.
func repeatBound(recv *receiver.Receiver, kills []time.Time) (bound int) {
	for _, k := range kills {
		bound += crashInFlight
		recv.Each(func(q *receiver.Request) bool {
			if q.At.Before(k) && k.Sub(q.At) <= 100*time.Millisecond {
				bound++
			}
			return true
		})
	}
	return bound
}

// repeatsOf counts requests whose (event, endpoint, attempt) came before.
func repeatsOf(recv *receiver.Receiver) (n int) {
	type key struct {
		id, path string
		attempt  int
	}
	seen := map[key]bool{}
	recv.Each(func(q *receiver.Request) bool {
		k := key{q.ID, q.Path, q.Attempt}
		if seen[k] {
			n++
		}
		seen[k] = true
		return true
	})
	return n
}

// publisher posts events and keeps the ids that were answered 202. A post without an answer
// is an unknown outcome and is not sent again.
type publisher struct {
	prog       *program
	sent       atomic.Int64
	unanswered atomic.Int64
	wait       sync.WaitGroup // of the workers

	mu  sync.Mutex
	ids []string // to be read after wait
}

// run starts the workers; wait ends when all n events were posted.
func (p *publisher) run(n int64) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: crashWorkers}, Timeout: 10 * time.Second}
	for range crashWorkers {
		p.wait.Go(func() {
			for {
				i := p.sent.Add(1)
				if i > n {
					return
				}
				id, ok := p.post(client, i)
				if !ok {
					p.unanswered.Add(1)
					continue
				}
				p.mu.Lock()
				p.ids = append(p.ids, id)
				p.mu.Unlock()
			}
		})
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
			<-time.After(10 * time.Millisecond) // as a producer would
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
