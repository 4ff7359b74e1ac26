package dispatcher

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/circuit"
	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

func names(kinds ...string) func(*endpoint.Endpoint) {
	return func(e *endpoint.Endpoint) { e.Events, e.Retry.MaxAttempts = kinds, 1 }
}

// told returns the feedback events in the log.
func (r *rig) told() []event.Event {
	r.t.Helper()
	var out []event.Event
	for _, rec := range r.read(event.EventsSuffix) {
		if rec.Attrs.IsControl() {
			continue
		}
		ev, err := event.Decode(rec)
		if err != nil {
			r.t.Fatal(err)
		}
		if ev.IsFeedback() {
			if want := event.Partition(ev.MessageID, r.lanes); rec.Partition != want {
				r.t.Errorf("feedback event lies in partition %d, want %d", rec.Partition, want)
			}
			out = append(out, ev)
		}
	}
	return out
}

// TestATenantIsToldOfADeadDelivery lets deliveries of three tenants die, and the delivery of the
// telling too: only the tenant that names the event hears of it, once, and nothing is told of that.
func TestATenantIsToldOfADeadDelivery(t *testing.T) {
	r := newRig(t, 4)
	tenant := func(name string, kinds ...string) func(*endpoint.Endpoint) {
		return func(e *endpoint.Endpoint) { names(kinds...)(e); e.Tenant = name }
	}
	r.endpoint("bad", names("message.*"))
	r.endpoint("watch", names(event.DeliveryDead))
	r.endpoint("all", names("**", "*", "*.*.*")) // does not name it
	r.endpoint("other", tenant("t2", "message.*", "**"))
	r.recv.answers(func(p post) int {
		if p.path == "all" {
			return 200
		}
		return 500
	})
	p := r.start("a", nil)
	ev := r.publish("m-1", nil)
	r.publish("m-2", func(e *event.Event) { e.Tenant = "t2" })
	eventually(t, "all rows", func() bool { return len(r.rowsOf()) == 4 })
	p.end(t)

	told := r.told()
	if len(told) != 1 {
		t.Fatalf("%d feedback events, want 1", len(told))
	}
	fb := told[0]
	fields, err := event.ParseBody(fb.Body)
	if err != nil {
		t.Fatal(err)
	}
	var body map[string]string
	if err := json.Unmarshal(fb.Body, &body); err != nil {
		t.Fatal(err)
	}
	if fb.Tenant != "dev" || fb.MessageID != "bad" || !strings.HasPrefix(fb.ID, "evt_k") || fields.Event != event.DeliveryDead || fields.MessageID != "bad" {
		t.Errorf("told %+v %s", fb, fb.Body)
	}
	if at, err := time.Parse(time.RFC3339, body["occurred_at"]); err != nil || time.Since(at) > time.Minute {
		t.Errorf("occurred at %q", body["occurred_at"])
	}
	if body["endpoint_id"] != "bad" || body["event_id"] != ev.ID || body["reason"] != string(tier.Exhausted) {
		t.Errorf("body %s", fb.Body)
	}
	var at []string
	for _, row := range r.rowsOf() {
		at = append(at, row.Endpoint+" "+row.Outcome.String())
	}
	if got := fmt.Sprint(at); strings.Count(got, "watch dead") != 1 || strings.Count(got, "bad dead") != 1 {
		t.Errorf("rows: %s", got)
	}
	if got := metricValue(t, p, "feedback_events_total"); got != 1 {
		t.Errorf("counted %v", got)
	}
}

// TestADeadDeliveryIsNotDoneBeforeItIsTold refuses the feedback event: no attempt record, no commit.
func TestADeadDeliveryIsNotDoneBeforeItIsTold(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("bad", names("message.*"))
	r.endpoint("watch", names(event.DeliveryDead))
	let := make(chan struct{})
	r.recv.answers(func(p post) int {
		if p.path == "bad" {
			<-let
			return 500
		}
		return 200
	})
	p := r.start("a", nil)
	r.publish("m", nil)
	r.recv.wait(t, 1)
	release := r.forbid(event.EventsSuffix)
	close(let)
	eventually(t, "dead letter", func() bool { return len(r.read(tier.DeadSuffix)) == 1 })
	if r.b.Fake() != nil {
		eventually(t, "refusals", func() bool { return metricValue(t, p, "produce_failures_total") >= 2 })
		stays(t, "nothing told and nothing committed", func() bool {
			return len(r.rowsOf()) == 0 && r.committed(event.EventsSuffix, 0) <= 0
		})
	}
	release()
	eventually(t, "commit", func() bool { return r.committed(event.EventsSuffix, 0) == 2 })
	if dead := len(r.read(tier.DeadSuffix)); dead != 1 || len(r.told()) != 1 {
		t.Errorf("%d dead letters and %d feedback events, want one each", dead, len(r.told()))
	}
	p.end(t)
}

// TestWhatACrashTellsTwiceArrivesOnce kills a dispatcher between the feedback event and the attempt
// record. The next one tells again, at another time of day, and window A knows it.
func TestWhatACrashTellsTwiceArrivesOnce(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("bad", names("message.*"))
	r.endpoint("watch", names(event.DeliveryDead))
	let := make(chan struct{})
	r.recv.answers(func(p post) int {
		if p.path == "bad" {
			<-let
			return 500
		}
		return 200
	})
	p := r.start("a", nil)
	r.publish("m", nil)
	r.recv.wait(t, 1)
	release := r.forbid(attempt.Suffix)
	close(let)
	eventually(t, "feedback event", func() bool { return len(r.told()) == 1 })
	if r.b.Fake() == nil {
		p.end(t) // nothing can be refused there
		return
	}
	p.cut.kill()
	p.stop()
	release()

	next := r.start("a", nil)
	eventually(t, "all committed", func() bool { return r.committed(event.EventsSuffix, 0) == 3 })
	next.end(t)
	count := map[string]int{}
	for _, row := range r.rowsOf() {
		count[row.Endpoint+" "+row.Outcome.String()+" "+row.Reason]++
	}
	if told := r.told(); len(told) != 2 || told[0].ID != told[1].ID {
		t.Errorf("%d feedback events, want one and its repeat", len(told))
	}
	if count["bad dead exhausted"] != 1 || count["watch delivered "] != 1 || count[" dropped "] != 1 || len(count) != 3 {
		t.Errorf("rows %v", count)
	}
}

// TestWhetherSomebodyWantsToKnowIsAskedOfAProvenView hides the endpoints while a delivery dies.
func TestWhetherSomebodyWantsToKnowIsAskedOfAProvenView(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("bad", names("message.*"))
	let := make(chan struct{})
	r.recv.answers(func(p post) int {
		if p.path == "bad" {
			<-let
			return 500
		}
		return 200
	})
	p := r.start("a", nil)
	r.publish("m", nil)
	r.recv.wait(t, 1)
	if r.b.Fake() == nil {
		close(let)
		p.end(t)
		return
	}
	release := r.blind()
	r.endpoint("watch", names(event.DeliveryDead))
	eventually(t, "a view that is not proven", func() bool { return !p.viewProven() })
	close(let)
	eventually(t, "dead letter", func() bool { return len(r.read(tier.DeadSuffix)) == 1 })
	stays(t, "nothing is decided", func() bool { return len(r.rowsOf()) == 0 })
	release()
	eventually(t, "the telling", func() bool { return len(r.recv.all()) == 2 })
	p.end(t)
}

// TestAnOpeningIsToldOnce takes a breaker through an opening with probes that fail, and its end.
func TestAnOpeningIsToldOnce(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	g, lane := newGates(1000, 8), &partition{}
	e := &endpoint.Endpoint{ID: "e", MaxInFlight: 64, Enabled: true}
	var told []string
	var changes int
	g.changed = func(dl *delivery, was circuit.State, b breaker) {
		changes++
		if n, ok := breakerNotice(dl, was, b.State, now); ok {
			told = append(told, n.kind+" "+n.endpoint+" "+n.reason)
		}
	}
	try := func(s circuit.Signal, change func(*delivery)) {
		dl := testDelivery(lane, attempt.SourceEvents)
		dl.endpoint, dl.ticket.Endpoint = e, "e"
		if change != nil {
			change(dl)
		}
		if g.enter(dl, now) == entered {
			dl.signal, dl.took = s, time.Millisecond
			g.leave(dl, now)
		}
	}
	outage := func(change func(*delivery)) {
		for range 5 {
			now = now.Add(time.Second)
			try(circuit.Unreachable, change)
		}
		for range 3 { // failed probes
			now = now.Add(10 * time.Minute)
			try(circuit.Unreachable, change)
		}
		now = now.Add(10 * time.Minute)
		for range 10 {
			try(circuit.OK, change)
			now = now.Add(time.Second)
		}
	}
	outage(nil)
	outage(nil)
	one := "hookline.endpoint.failing e circuit_open hookline.endpoint.recovered e circuit_closed"
	if got := strings.Join(told, " "); got != one+" "+one || changes != 10 {
		t.Errorf("told %q by %d changes", got, changes)
	}
	told = nil
	outage(func(dl *delivery) {
		dl.slot.event = event.Event{Type: event.EndpointFailing, Source: event.FeedbackSource}
	})
	if len(told) != 0 {
		t.Errorf("told about deliveries of feedback: %q", told)
	}
}

// TestAnEndpointThatFailsIsTold breaks the connections of one endpoint.
func TestAnEndpointThatFailsIsTold(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("bad", func(e *endpoint.Endpoint) { e.Events = []string{"message.*"} })
	r.endpoint("watch", names("hookline.endpoint.*"))
	told := make(chan *Request, 10)
	r.send = senderFunc(func(_ context.Context, req *Request) Result {
		if req.Endpoint.ID == "bad" {
			return Result{ErrorClass: attempt.ConnectRefused}
		}
		told <- req
		return Result{Status: 200}
	})
	p := r.start("a", nil)
	for i := range 8 {
		r.publish(fmt.Sprint("m-", i), nil)
	}
	select {
	case req := <-told:
		if f, err := event.ParseBody(req.Body); err != nil || f.Event != event.EndpointFailing || f.MessageID != "bad" {
			t.Errorf("told %s, %v", req.Body, err)
		}
	case <-time.After(patience):
		t.Fatal("nothing is told")
	}
	p.end(t)
	if n := len(told); n != 0 {
		t.Errorf("told %d times more", n)
	}
}

// TestNoticesOfBreakersNeverWait fills their queue.
func TestNoticesOfBreakersNeverWait(t *testing.T) {
	r := newRig(t, 1)
	cl, err := kgo.NewClient(r.b.Opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	p := r.start("a", nil)
	p.end(t)
	p.copies = cl
	dl := testDelivery(&partition{}, attempt.SourceEvents)
	dl.ticket.Endpoint = "e"
	for range noticeQueue + 5 {
		p.breakerChanged(dl, circuit.Closed, breaker{State: circuit.Open})
	}
	if got := metricValue(t, p, "feedback_events_lost_total"); got != 5 {
		t.Errorf("%v counted as lost, want 5", got)
	}
}
