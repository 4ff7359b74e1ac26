package dispatcher

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/dispatcher/sequence"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

func TestAnEventReachesEveryMatchingEndpoint(t *testing.T) {
	r := newRig(t, 3)
	r.endpoint("all", nil)
	r.endpoint("some", func(e *endpoint.Endpoint) { e.Events = []string{"message.*"} })
	r.endpoint("other", func(e *endpoint.Endpoint) { e.Events = []string{"account.*"} })
	r.endpoint("foreign", func(e *endpoint.Endpoint) { e.Tenant = "someone-else" })
	p := r.start("a", nil)
	ev := r.publish("m-1", nil)
	posts := r.recv.wait(t, 2)
	verifier, err := standardwebhooks.NewWebhook(testSecret)
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]bool{}
	for _, q := range posts {
		paths[q.path] = true
		if q.body != string(ev.Body) {
			t.Errorf("body changed: %q", q.body)
		}
		if q.id != ev.ID || q.attempt != "1" {
			t.Errorf("id %q attempt %q", q.id, q.attempt)
		}
		if seq, err := strconv.ParseUint(q.sequence, 10, 64); err != nil || seq < 1<<sequence.Shift || seq >= 1<<53 {
			t.Errorf("sequence %q", q.sequence)
		}
		if err := verifier.Verify([]byte(q.body), q.header); err != nil {
			t.Errorf("signature: %v", err)
		}
	}
	if !paths["all"] || !paths["some"] {
		t.Errorf("reached %v", paths)
	}
	number := event.Partition("m-1", 3)
	eventually(t, "commit of the event", func() bool { return r.committed(event.EventsSuffix, number) == 1 })
	rows := r.rowsOf()
	if len(rows) != 2 {
		t.Fatalf("%d attempt records, want 2", len(rows))
	}
	for _, row := range rows {
		if row.Outcome != attempt.Delivered || row.Deliveries != 2 || row.StatusCode != 200 || row.Attempt != 1 ||
			row.Position.Topic != attempt.SourceEvents || row.Position.Partition != number || row.Worker != "w-a" {
			t.Errorf("row %+v", row)
		}
	}
	p.end(t)
	if n := len(r.recv.all()); n != 2 {
		t.Errorf("%d posts, want 2", n)
	}
}

func TestAFailureLeavesThroughADelaySlotAndComesBackNumbered(t *testing.T) {
	r := newRig(t, 2)
	r.endpoint("e", func(e *endpoint.Endpoint) { e.Retry.MaxAttempts = 2 })
	r.recv.answers(func(post) int { return 500 })
	p := r.start("a", nil)
	before := time.Now()
	ev := r.publish("m-1", nil)
	r.recv.wait(t, 1)
	eventually(t, "retry copy", func() bool { return len(r.copies()) == 1 })
	c := r.copies()[0]
	tk, err := tier.DecodeTicket(c.Headers)
	if err != nil {
		t.Fatal(err)
	}
	delay := time.UnixMilli(tk.DueMs).Sub(before)
	if tk.Endpoint != "e" || tk.Attempt != 1 || tk.Status != 500 || tk.Orig.Partition != event.Partition("m-1", 2) ||
		delay < 0 || delay > 3*time.Second {
		t.Errorf("ticket %+v, delay %s", tk, delay)
	}
	if c.Topic != r.topic("retry.15s") || string(c.Value) != string(ev.Body) || string(c.Key) != "m-1" {
		t.Errorf("copy in %s: %q", c.Topic, c.Value)
	}
	r.due(&ev, tk)
	posts := r.recv.wait(t, 2)
	if posts[1].attempt != "2" || posts[1].id != posts[0].id || posts[1].sequence != posts[0].sequence || posts[1].body != posts[0].body {
		t.Errorf("second attempt %+v after %+v", posts[1], posts[0])
	}
	eventually(t, "dead letter", func() bool { return len(r.read(tier.DeadSuffix)) == 1 })
	dead := tier.DecodeDead(r.read(tier.DeadSuffix)[0])
	if dead.Reason != tier.Exhausted || dead.Attempts != 2 || dead.LastStatus != 500 || dead.EventID != ev.ID || string(dead.Value) != string(ev.Body) {
		t.Errorf("dead letter %+v", dead)
	}
	eventually(t, "two rows", func() bool { return len(r.rowsOf()) == 2 })
	for _, row := range r.rowsOf() {
		switch row.Attempt {
		case 1:
			if row.Outcome != attempt.Retry || row.NextRetryMs != tk.DueMs || row.ErrorClass == "" {
				t.Errorf("first row %+v", row)
			}
		case 2:
			if row.Outcome != attempt.Dead || row.Reason != string(tier.Exhausted) || row.Position.Topic != attempt.SourceDue || row.Position.Attempt != 1 {
				t.Errorf("second row %+v", row)
			}
		}
	}
	eventually(t, "commit of due", func() bool { return r.committed(tier.DueSuffix, tk.Orig.Partition) == 1 })
	p.end(t)
}

func TestVerdictsWithoutAnAttempt(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("e", func(e *endpoint.Endpoint) { e.Events = []string{"message.*"} })
	r.endpoint("off", func(e *endpoint.Endpoint) { e.Enabled, e.Events = false, []string{"paused.*"} })
	p := r.start("a", nil)
	r.publish("m-1", func(ev *event.Event) { ev.Type = "account.updated" }) // unrouted
	r.publish("m-2", func(ev *event.Event) { ev.Type = "paused.x" })        // parks
	gone := r.publish("m-3", func(ev *event.Event) { ev.Type = "nobody.wants" })
	r.due(&gone, tier.Ticket{Endpoint: "deleted-one", Attempt: 3, DueMs: time.Now().UnixMilli(), FirstMs: time.Now().UnixMilli()})
	r.produce(&kgo.Record{Topic: r.topic(event.EventsSuffix), Value: []byte("no key, no headers")})
	r.produce(&kgo.Record{Topic: r.topic(tier.DueSuffix), Key: []byte("k"), Value: []byte("no ticket")})
	want := map[string]int{"unrouted": 2, "parked": 1, "dead/endpoint_deleted": 1, "dead/poison": 2}
	count := func() map[string]int {
		got := map[string]int{}
		for _, row := range r.rowsOf() {
			name := row.Outcome.String()
			if row.Reason != "" {
				name += "/" + row.Reason
			}
			got[name]++
		}
		return got
	}
	eventually(t, "all verdicts", func() bool { return fmt.Sprint(count()) == fmt.Sprint(want) })
	reasons := map[tier.Reason]int{}
	for _, rec := range r.read(tier.DeadSuffix) {
		reasons[tier.DecodeDead(rec).Reason]++
	}
	if reasons[tier.Poison] != 2 || reasons[tier.EndpointDeleted] != 1 || len(reasons) != 2 {
		t.Errorf("dead letters %v", reasons)
	}
	copies := r.copies()
	if len(copies) != 1 {
		t.Fatalf("%d parked copies, want 1", len(copies))
	}
	if tk, err := tier.DecodeTicket(copies[0].Headers); err != nil || tk.Attempt != 0 || tk.Parks != 1 {
		t.Errorf("parked ticket %+v: %v", tk, err)
	}
	eventually(t, "both positions committed", func() bool {
		return r.committed(event.EventsSuffix, 0) == 4 && r.committed(tier.DueSuffix, 0) == 2
	})
	if n := len(r.recv.all()); n != 0 {
		t.Errorf("%d posts for verdicts without an attempt", n)
	}
	p.end(t)
}

func TestForkedCopiesCollapse(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("e", nil)
	release := make(chan struct{})
	r.recv.answers(func(post) int { <-release; return http.StatusOK })
	p := r.start("a", nil)
	ev := event.Event{
		ID: event.NewID(), Type: "message.x", Source: "/s", MessageID: "m", Tenant: "dev", Schema: "1",
		AcceptedMs: time.Now().UnixMilli(), Sequence: -1, Body: []byte(`{}`),
	}
	tk := tier.Ticket{Endpoint: "e", Attempt: 1, DueMs: time.Now().UnixMilli(), FirstMs: time.Now().UnixMilli()}
	r.due(&ev, tk)
	r.recv.wait(t, 1)
	r.due(&ev, tk) // joins the one in flight
	tk.Attempt = 0
	r.due(&ev, tk) // an older step of the same chain joins, too
	close(release)
	eventually(t, "due committed", func() bool { return r.committed(tier.DueSuffix, 0) == 3 })
	r.due(&ev, tk) // the chain has ended
	eventually(t, "late copy committed", func() bool { return r.committed(tier.DueSuffix, 0) == 4 })
	if posts := r.recv.all(); len(posts) != 1 {
		t.Errorf("%d posts, want 1", len(posts))
	}
	outcomes := map[string]int{}
	for _, row := range r.rowsOf() {
		outcomes[row.Outcome.String()]++
	}
	if outcomes["delivered"] != 1 || outcomes["dropped"] != 3 {
		t.Errorf("rows %v", outcomes)
	}
	p.end(t)
}

func TestIdempotencyWindowDropsRepeatsAndBuriesConflicts(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("e", nil)
	id := event.DeriveID("dev", "message.delivered", "m", "key-1")
	keyed := func(body string) func(*event.Event) {
		return func(ev *event.Event) { ev.ID, ev.Body = id, []byte(body) }
	}
	release := make(chan struct{})
	r.recv.answers(func(post) int { <-release; return http.StatusOK })
	p := r.start("a", nil)
	r.publish("m", keyed(`{"a":1}`))
	r.recv.wait(t, 1)
	r.publish("m", keyed(`{"a":1}`)) // in flight: joins
	r.publish("m", keyed(`{"a":2}`)) // other body
	close(release)
	eventually(t, "three committed", func() bool { return r.committed(event.EventsSuffix, 0) == 3 })
	p.end(t)

	// The next owner knows it from what is committed.
	p = r.start("b", nil)
	r.publish("m", keyed(`{"a":1}`))
	r.publish("m", keyed(`{"a":3}`))
	r.publish("m", nil) // another event flows
	r.recv.wait(t, 2)
	eventually(t, "all committed", func() bool { return r.committed(event.EventsSuffix, 0) == 6 })
	posts := 0
	for _, q := range r.recv.all() {
		if q.id == id {
			posts++
		}
	}
	if posts != 1 {
		t.Errorf("%d posts of the keyed event, want 1", posts)
	}
	dead := r.read(tier.DeadSuffix)
	if len(dead) != 2 {
		t.Fatalf("%d dead letters, want 2 conflicts", len(dead))
	}
	for _, rec := range dead {
		if l := tier.DecodeDead(rec); l.Reason != tier.IDConflict || l.EventID != id {
			t.Errorf("dead letter %+v", l)
		}
	}
	p.end(t)
}
