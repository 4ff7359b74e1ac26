package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/bench/receiver"
	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/retrytiers/tier"
)

// e2eSchedule is small enough for three retries to end in seconds.
var e2eSchedule = tier.Schedule{Base: 400 * time.Millisecond, Factor: 2, Cap: 2 * time.Second}

// e2e is the program with its endpoints and what was published to it.
type e2e struct {
	t      *testing.T
	prog   *program
	recv   *receiver.Receiver
	bodies map[string]string // by event id
	posts  map[string][]receiver.Request
	rows   []attempt.Record

	official *official
}

// TestE2EPipeline drives the built program as a user would: one endpoint is healthy, one fails
// three times and recovers, one never does, and one verifies with the official library.
func TestE2EPipeline(t *testing.T) {
	e := startE2E(t)
	e.publish([]string{
		`{"event":"message.delivered","message_id":"m-1","status":"delivered","occurred_at":"2026-07-19T09:15:25Z"}`,
		`{ "z":9007199254740993, "a":1.0, "event":"message.failed",  "message_id":"m-1", "a":2 }`,
		"{\"event\":\"message.sent\",\"message_id\":\"m-2\",\"text\":\"caf\\u00e9 \u2028 \U0001F600\"}\n",
		`{"event":"account.updated","message_id":"acct_9","nested":{"event":"x","message_id":"y"}}`,
	})
	e.await()
	e.checkDeliveries()
	e.checkRows() // all outcomes are durable, so the library has seen all, too
	e.checkOfficial()
	e.checkDead()
	e.prog.stop()
}

func startE2E(t *testing.T) *e2e {
	t.Helper()
	secrets := []string{crashSecret}
	recv, err := receiver.Start(receiver.Config{KeepBodies: true, Paths: map[string]receiver.Path{
		"/ok":    {Behaviour: receiver.Healthy(), Secrets: secrets},
		"/flaky": {Behaviour: receiver.FailFirst(3, http.StatusServiceUnavailable), Secrets: secrets},
		"/dead":  {Behaviour: receiver.Always(http.StatusInternalServerError), Secrets: secrets},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = recv.Close() })
	e := &e2e{t: t, prog: newProgram(t, buildBinary(t)), recv: recv, bodies: map[string]string{}, posts: map[string][]receiver.Request{}}
	e.prog.start()
	t.Cleanup(e.prog.kill)
	retry := fmt.Sprintf(`,"retry":{"base":"400ms","factor":2,"cap":"2s","max_attempts":%d}`, 16)
	e.prog.endpoint("ok", recv.URL()+"/ok", retry)
	e.prog.endpoint("flaky", recv.URL()+"/flaky", retry)
	e.official = newOfficial(t)
	e.prog.endpoint("official", e.official.URL, "")
	e.prog.endpoint("dead", recv.URL()+"/dead", `,"retry":{"base":"400ms","factor":2,"cap":"2s","max_attempts":3}`)
	return e
}

func (e *e2e) publish(bodies []string) {
	e.t.Helper()
	for _, body := range bodies {
		req, err := http.NewRequest(http.MethodPost, e.prog.ingest+"/v1/events", strings.NewReader(body))
		if err != nil {
			e.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer dev")
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			e.t.Fatal(err)
		}
		raw, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		var got struct {
			ID        string `json:"id"`
			MessageID string `json:"message_id"`
			Partition *int   `json:"partition"`
			Offset    *int64 `json:"offset"`
		}
		if err := json.Unmarshal(raw, &got); resp.StatusCode != http.StatusAccepted || err != nil ||
			!strings.HasPrefix(got.ID, "evt_") || got.MessageID == "" || got.Partition == nil || got.Offset == nil {
			e.t.Fatalf("publish: %d %s", resp.StatusCode, raw)
		}
		e.bodies[got.ID] = body
	}
}

// await blocks until the receivers saw every attempt that is owed.
func (e *e2e) await() {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), crashPatience)
	defer cancel()
	n := len(e.bodies)
	for path, owed := range map[string]int{"/ok": n, "/flaky": 4 * n, "/dead": 3 * n} {
		err := e.recv.Wait(ctx, func(s receiver.Stats) bool { return int(s.Requests) >= owed }, path)
		if err != nil {
			e.t.Fatalf("%s: not all of %d attempts arrived: %v\n%s", path, owed, err, e.prog.stderr())
		}
	}
	e.recv.Each(func(q *receiver.Request) bool {
		key := q.ID + q.Path
		e.posts[key] = append(e.posts[key], *q)
		return true
	})
}

func (e *e2e) checkDeliveries() {
	e.t.Helper()
	if len(e.posts) != 3*len(e.bodies) {
		e.t.Errorf("%d pairs of event and endpoint, want %d", len(e.posts), 3*len(e.bodies))
	}
	for id, body := range e.bodies {
		for path, owed := range map[string]int{"/ok": 1, "/flaky": 4, "/dead": 3} {
			posts := e.posts[id+path]
			if len(posts) != owed {
				e.t.Errorf("%s at %s: %d attempts, want %d", id, path, len(posts), owed)
				continue
			}
			for i, q := range posts {
				if string(q.Body) != body {
					e.t.Errorf("%s at %s: body %q, want %q", id, path, q.Body, body)
				}
				if q.Attempt != i+1 || q.Signature != receiver.Valid || q.Sequence != posts[0].Sequence || q.Sequence == 0 {
					e.t.Errorf("%s at %s: attempt %d, sequence %d, signature %v", id, path, q.Attempt, q.Sequence, q.Signature)
				}
				if d := q.At.Unix() - q.Timestamp; d < -1 || d > 2 {
					e.t.Errorf("%s at %s: timestamp is %d s old", id, path, d)
				}
			}
		}
	}
}

// official is an endpoint that does nothing but verify with the official library.
type official struct {
	*httptest.Server
	mu       sync.Mutex
	verified map[string]bool // by event id
	faults   []error
}

func newOfficial(t *testing.T) *official {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(crashSecret)
	if err != nil {
		t.Fatal(err)
	}
	o := &official{verified: map[string]bool{}}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = verifier.Verify(body, r.Header)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if err != nil {
			o.faults = append(o.faults, err)
		}
		o.verified[r.Header.Get("Webhook-Id")] = err == nil
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(o.Close)
	return o
}

func (e *e2e) checkOfficial() {
	e.t.Helper()
	e.official.mu.Lock()
	defer e.official.mu.Unlock()
	for id := range e.bodies {
		if !e.official.verified[id] {
			e.t.Errorf("%s was not verified by the official library: %v", id, e.official.faults)
		}
	}
}

// checkRows holds the attempts topic against what the receivers saw: one record per attempt,
// and no attempt before the due time that the record before it announced.
func (e *e2e) checkRows() {
	e.t.Helper()
	until(e.t, "quiet in all topics", e.prog.quiet) // no record comes after this
	e.prog.read(attempt.Suffix, func(r *kgo.Record) {
		var row attempt.Record
		if err := attempt.Decode(r.Value, &row); err != nil {
			e.t.Fatalf("attempt record: %v", err)
		}
		e.rows = append(e.rows, row)
	})
	if want := 9 * len(e.bodies); len(e.rows) != want {
		e.t.Errorf("%d attempt records, want %d", len(e.rows), want)
	}
	seen := map[string]bool{}
	for _, row := range e.rows {
		key := fmt.Sprint(row.EventID, "/", row.Endpoint, "/", row.Attempt)
		if seen[key] {
			e.t.Errorf("two records of %s", key)
		}
		seen[key] = true
		if row.Deliveries != 4 {
			e.t.Errorf("%s: owed to %d endpoints, want 4", key, row.Deliveries)
		}
		if row.Endpoint == "official" {
			if row.Outcome != attempt.Delivered || row.StatusCode != http.StatusNoContent {
				e.t.Errorf("%s: record %+v", key, row)
			}
			continue
		}
		posts := e.posts[row.EventID+"/"+row.Endpoint]
		if int(row.Attempt) < 1 || int(row.Attempt) > len(posts) {
			e.t.Errorf("record of an attempt that no receiver saw: %s", key)
			continue
		}
		if q := posts[row.Attempt-1]; int(row.StatusCode) != q.Status || row.Sequence != q.Sequence || row.Position.Topic == attempt.SourceNone {
			e.t.Errorf("%s: record %+v, answered %d", key, row, q.Status)
		}
		if row.NextRetryMs != 0 && int(row.Attempt) < len(posts) {
			// Full jitter: between the end of the attempt and the bound of the next wait.
			ended := row.AttemptedMs + int64(row.TotalUs)/1000
			if wait := row.NextRetryMs - ended; wait < 0 || wait > e2eSchedule.Bound(int(row.Attempt)).Milliseconds()+50 {
				e.t.Errorf("%s: next attempt %d ms after it, the bound is %s", key, wait, e2eSchedule.Bound(int(row.Attempt)))
			}
			if at := posts[row.Attempt].At.UnixMilli(); at < row.NextRetryMs {
				e.t.Errorf("%s: next attempt came %d ms early", key, row.NextRetryMs-at)
			}
		}
		last := row.Endpoint == "ok" || row.Endpoint == "flaky" && row.Attempt == 4
		switch {
		case last && row.Outcome != attempt.Delivered,
			row.Endpoint == "dead" && row.Attempt == 3 && (row.Outcome != attempt.Dead || row.Reason != string(tier.Exhausted)),
			!last && !(row.Endpoint == "dead" && row.Attempt == 3) && row.Outcome != attempt.Retry:
			e.t.Errorf("%s: outcome %s, reason %q", key, row.Outcome, row.Reason)
		}
	}
}

// checkDead asks the command line, as an operator would.
func (e *e2e) checkDead() {
	e.t.Helper()
	out := e.command("dlq", "list", "--json")
	var list struct {
		Items []tier.DeadLetter `json:"items"`
	}
	if err := json.Unmarshal(out, &list); err != nil {
		e.t.Fatalf("dlq list: %v\n%s", err, out)
	}
	if len(list.Items) != len(e.bodies) {
		e.t.Errorf("%d dead letters, want %d", len(list.Items), len(e.bodies))
	}
	for _, l := range list.Items {
		if l.EndpointID != "dead" || l.Reason != tier.Exhausted || l.Attempts != 3 || l.LastStatus != 500 || l.LastError == "" {
			e.t.Errorf("dead letter %+v", l)
		}
		show := e.command("dlq", "show", fmt.Sprintf("%d/%d", l.Partition, l.Offset), "--json")
		var one struct {
			Body string `json:"body"`
		}
		if err := json.Unmarshal(show, &one); err != nil || one.Body != e.bodies[l.EventID] {
			e.t.Errorf("dlq show %d/%d: body %q, want %q (%v)", l.Partition, l.Offset, one.Body, e.bodies[l.EventID], err)
		}
	}
}

func (e *e2e) command(args ...string) []byte {
	e.t.Helper()
	cmd := exec.Command(e.prog.binary, append(args, "--admin", e.prog.admin, "--token", "dev")...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		e.t.Fatalf("hookline %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out
}
