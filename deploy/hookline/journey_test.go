package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/ingest/event/scan"
	"github.com/hookline/hookline/retrytiers/tier"
)

// The schedule of the two endpoints that fail: short, so that the test ends in seconds.
const (
	journeyBase = 400 * time.Millisecond
	journeyCap  = time.Second
)

const journeyEndpoints = `
endpoints:
  - {id: healthy, url: "%[1]s/healthy", events: [message.*]}
  - {id: flaky, url: "%[1]s/flaky", events: ["message.**"], retry: {base: 400ms, factor: 2, cap: 1s, transient: [422]}}
  - {id: dead, url: "%[1]s/dead", retry: {base: 400ms, factor: 2, cap: 1s, max_attempts: 3, transient: [422]}}
`

// sent is one accepted event.
type sent struct {
	accepted
	body []byte
}

// journeyBodies are what a producer may send and a careless carrier would change.
func journeyBodies() []string {
	bodies := []string{
		"{ \"event\" :\t\"message.sent\", \"message_id\": \"m-space\" }\r\n\n",
		`{"event":"message.sent","message_id":"m-big","n":9007199254740993,"f":1e400,"z":-0.0}`,
		`{"event":"message.sent","message_id":"m-dup","a":1,"a":2,"nested":{"event":"x","event":"y"}}`,
		`{"z":1,"message_id":"m-text","t":"caf` + "\u00e9 \u2028 \U0001f600" + `","e":"\u00e9\/\u0000","event":"message.sent"}`,
		`{"event":"message.sent","message_id":"m-long","pad":"` + strings.Repeat("x", 200_000) + `"}`,
	}
	for i := range 15 {
		bodies = append(bodies, fmt.Sprintf(`{"event":"message.status-%d","message_id":"m%d","n":%d}`, i%3, i%5, i))
	}
	return bodies
}

// A user's way through the commands: apply, publish, dlq, a clean stop and a new start. Every event reaches the healthy endpoint once and as it was
// sent, the flaky one at its fourth attempt, and ends as a dead letter of the third.
func TestE2EJourney(t *testing.T) {
	i := install(t)
	shop := startCustomer(t)
	d := i.startDev()
	secrets := i.applyEndpoints(shop)

	var events []sent
	for n, body := range journeyBodies() {
		if n < 3 { // the others through HTTP, which is faster than a process each
			var a accepted
			if err := json.Unmarshal([]byte(i.must(body, "events", "publish", "--json")), &a); err != nil {
				t.Fatal(err)
			}
			events = append(events, sent{a, []byte(body)})
			continue
		}
		events = append(events, sent{post(t, d.ingest, body), []byte(body)})
	}
	n := len(events)
	poll(t, func() bool {
		return shop.count("/healthy") >= n && shop.count("/flaky") >= 4*n && shop.count("/dead") >= 3*n
	})
	letters := i.waitDead(n)

	rows := readAttempts(t, d.kafka, i.prefix)
	for _, e := range events {
		for path, attempts := range map[string]int{"/healthy": 1, "/flaky": 4, "/dead": 3} {
			checkChain(t, shop.chain(path, e.ID), &e, attempts, secrets[path[1:]], secrets["other"])
			checkRows(t, rows, shop.chain(path, e.ID), path[1:], e.ID, attempts)
		}
		checkLetter(t, i, letters, &e)
	}
	if total := shop.count(""); total != 8*n {
		t.Errorf("%d requests for %d events, want %d", total, n, 8*n)
	}
	if len(rows) != 8*n {
		t.Errorf("%d attempt records, want %d", len(rows), 8*n)
	}
	checkSequences(t, shop, events)

	code, took := d.stop()
	if code != exitOK || took > drainTime {
		t.Errorf("stop: exit code %d after %s", code, took)
	}
	if lines := d.printed(); len(lines) != 1 {
		t.Errorf("stdout of dev: %q", lines)
	}
	i.restart(shop)
}

// restart starts the installation again: its endpoints are there, nothing is delivered twice.
func (i *installation) restart(shop *customer) {
	i.t.Helper()
	before := shop.count("")
	d := i.startDev()
	e := post(i.t, d.ingest, `{"event":"message.sent","message_id":"after"}`)
	poll(i.t, func() bool { return len(shop.chain("/flaky", e.ID)) == 4 && len(shop.chain("/dead", e.ID)) == 3 })
	i.waitDead(len(journeyBodies()) + 1)
	if got := shop.count("") - before; got != 8 {
		i.t.Errorf("%d requests after a restart and one event, want 8", got)
	}
	if code, _ := d.stop(); code != exitOK {
		i.t.Errorf("second stop: exit code %d", code)
	}
}

// applyEndpoints creates the endpoints as a user does and returns their secrets.
func (i *installation) applyEndpoints(shop *customer) map[string]string {
	i.t.Helper()
	file := fmt.Sprintf(journeyEndpoints, shop.URL)
	var out struct{ Steps []step }
	if err := json.Unmarshal([]byte(i.must(file, "endpoints", "apply", "-f", "-", "--yes", "--json")), &out); err != nil {
		i.t.Fatal(err)
	}
	secrets := map[string]string{"other": newSecret("v1")}
	for _, s := range out.Steps {
		secrets[s.ID] = s.Secret
	}
	if len(secrets) != 4 {
		i.t.Fatalf("steps %+v", out.Steps)
	}
	return secrets
}

func post(t *testing.T, ingest, body string) accepted {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, ingest+"/v1/events", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer dev")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	raw, err := io.ReadAll(resp.Body)
	var a accepted
	if err != nil || resp.StatusCode != http.StatusAccepted || json.Unmarshal(raw, &a) != nil {
		t.Fatalf("publish: %d %s %v", resp.StatusCode, raw, err)
	}
	return a
}

// checkChain judges all requests for one event at one endpoint, as they arrived.
func checkChain(t *testing.T, chain []*hook, e *sent, attempts int, secret, other string) {
	t.Helper()
	if len(chain) != attempts {
		t.Errorf("event %s: %d requests, want %d", e.ID, len(chain), attempts)
		return
	}
	for n, h := range chain {
		if !bytes.Equal(h.body, e.body) {
			t.Errorf("%s %s: body %.80q, sent %.80q", h.path, e.ID, h.body, e.body)
		}
		if h.attempt(t) != n+1 {
			t.Errorf("%s %s: request %d says attempt %d", h.path, e.ID, n+1, h.attempt(t))
		}
		h.verify(t, secret, other)
		stamp, err := strconv.ParseInt(h.header.Get("Webhook-Timestamp"), 10, 64)
		if age := h.at.Sub(time.Unix(stamp, 0)); err != nil || age < 0 || age > 3*time.Second {
			t.Errorf("%s %s: timestamp is %s old at arrival (%v)", h.path, e.ID, age, err)
		}
		if h.header.Get("Content-Type") != "application/json" || !strings.HasPrefix(h.header.Get("User-Agent"), "hookline/") {
			t.Errorf("%s: headers %v", h.path, h.header)
		}
		if seq := h.header.Get("Webhook-Sequence"); seq == "" || seq != chain[0].header.Get("Webhook-Sequence") {
			t.Errorf("%s %s: sequence %q of attempt %d", h.path, e.ID, seq, n+1)
		}
	}
}

// checkRows holds the attempt records of one delivery against its requests: one each, and
// delays within the bounds of full jitter, never early.
func checkRows(t *testing.T, rows []attempt.Record, chain []*hook, endpointID, id string, attempts int) {
	t.Helper()
	mine := map[int]attempt.Record{}
	for _, r := range rows {
		if r.EventID == id && r.Endpoint == endpointID {
			if _, twice := mine[int(r.Attempt)]; twice {
				t.Errorf("event %s at %s: attempt %d is recorded twice", id, endpointID, r.Attempt)
			}
			mine[int(r.Attempt)] = r
		}
	}
	if len(mine) != attempts || len(chain) != attempts {
		t.Errorf("event %s at %s: %d records for %d requests", id, endpointID, len(mine), len(chain))
		return
	}
	schedule := tier.Schedule{Base: journeyBase, Factor: 2, Cap: journeyCap}
	for n, h := range chain {
		r := mine[n+1]
		last := n+1 == attempts
		want := attempt.Retry
		switch {
		case last && h.status == http.StatusOK:
			want = attempt.Delivered
		case last:
			want = attempt.Dead
		}
		if r.Outcome != want || int(r.StatusCode) != h.status {
			t.Errorf("event %s at %s attempt %d: %s %d, want %s %d", id, endpointID, n+1, r.Outcome, r.StatusCode, want, h.status)
		}
		if last {
			continue
		}
		// The draw is made when the answer is in, which is after the start by the attempt's time.
		ended := time.UnixMilli(r.AttemptedMs).Add(time.Duration(r.TotalUs) * time.Microsecond)
		due := time.UnixMilli(r.NextRetryMs)
		const rounding = 2 * time.Millisecond
		if wait := due.Sub(ended); wait < -rounding || wait > schedule.Bound(n+1)+100*time.Millisecond {
			t.Errorf("event %s at %s: wait after attempt %d is %s, bound %s", id, endpointID, n+1, wait, schedule.Bound(n+1))
		}
		late := chain[n+1].at.Sub(due)
		if late < -rounding || late > 10*time.Second {
			t.Errorf("event %s at %s: attempt %d came %s after its due time", id, endpointID, n+2, late)
		}
	}
}

// checkSequences: Webhook-Sequence is one number per event at all endpoints and follows the
// log, so that it grows within a message id.
func checkSequences(t *testing.T, shop *customer, events []sent) {
	t.Helper()
	var base int64
	for n, e := range events {
		var seqs []int64
		for _, path := range []string{"/healthy", "/flaky", "/dead"} {
			for _, h := range shop.chain(path, e.ID) {
				seq, err := strconv.ParseInt(h.header.Get("Webhook-Sequence"), 10, 64)
				if err != nil {
					t.Error(err)
				}
				seqs = append(seqs, seq)
			}
		}
		if len(seqs) == 0 {
			continue // told elsewhere
		}
		slices.Sort(seqs)
		if n == 0 {
			base = seqs[0] - e.Offset
		}
		if seqs[0] != seqs[len(seqs)-1] || seqs[0] != base+e.Offset || base <= 0 {
			t.Errorf("event %s at offset %d: sequences %v, base %d", e.ID, e.Offset, seqs, base)
		}
	}
}

// waitDead returns once dlq list shows n letters.
func (i *installation) waitDead(n int) []tier.DeadLetter {
	i.t.Helper()
	var out struct{ Items []tier.DeadLetter }
	poll(i.t, func() bool {
		if err := json.Unmarshal([]byte(i.must("", "dlq", "list", "--limit", "0", "--json")), &out); err != nil {
			i.t.Fatal(err)
		}
		return len(out.Items) >= n
	})
	if len(out.Items) != n {
		i.t.Errorf("%d dead letters, want %d", len(out.Items), n)
	}
	return out.Items
}

func checkLetter(t *testing.T, i *installation, letters []tier.DeadLetter, e *sent) {
	t.Helper()
	at := slices.IndexFunc(letters, func(d tier.DeadLetter) bool { return d.EventID == e.ID })
	if at < 0 {
		t.Errorf("event %s is not among the dead letters", e.ID)
		return
	}
	d := letters[at]
	if d.EndpointID != "dead" || d.Reason != tier.Exhausted || d.Attempts != 3 || d.LastStatus != 422 || d.MessageID != e.MessageID || d.Tenant != "dev" || d.FirstAt == nil {
		t.Errorf("dead letter of %s: %+v", e.ID, d)
	}
	if !strings.Contains(e.MessageID, "-") { // the odd bodies only: a process each
		return
	}
	var shown deadShow
	if err := json.Unmarshal([]byte(i.must("", "dlq", "show", fmt.Sprintf("%d/%d", d.Partition, d.Offset))), &shown); err != nil {
		t.Fatal(err)
	}
	if shown.Body == nil || *shown.Body != string(e.body) || shown.Headers["hl_reason"] != "exhausted" || shown.Headers["ce_id"] != e.ID {
		t.Errorf("dlq show of %s: %+v", e.ID, shown)
	}
}

// readAttempts reads the whole attempts topic.
func readAttempts(t *testing.T, kafka, prefix string) []attempt.Record {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(kafka, ",")...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	topic := attempt.Topic(attempt.DefaultPartitions)
	var out []attempt.Record
	for p := range topic.Partitions {
		end, err := scan.End(ctx, cl, topic.Name(prefix), p, true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := scan.Range(ctx, cl, scan.Spec{Topic: topic.Name(prefix), Partition: p, Until: end, ReadCommitted: true}, func(r *kgo.Record) error {
			var rec attempt.Record
			if err := attempt.Decode(r.Value, &rec); err != nil {
				return err
			}
			out = append(out, rec)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
