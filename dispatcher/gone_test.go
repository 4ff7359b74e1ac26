package dispatcher

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/dispatcher/table"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

// TestGoneIsBelievedUnlessManySayIt compares the rule with a count over all answers.
func TestGoneIsBelievedUnlessManySayIt(t *testing.T) {
	t.Parallel()
	var believed, suspended int
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		var rule goneRule
		var past []goneAnswer
		now := time.Unix(1_800_000_000, 0)
		all, some := 1+rnd.IntN(600), 1+rnd.IntN(40)
		pause := 1 + rnd.IntN(8000)
		for range 200 {
			now = now.Add(time.Duration(rnd.IntN(pause)) * time.Millisecond)
			id := fmt.Sprint(rnd.IntN(some))
			past = append(past, goneAnswer{id, now})
			say := map[string]bool{}
			for _, a := range past {
				if now.Sub(a.at) < time.Minute {
					say[a.id] = true
				}
			}
			want := len(say) <= 10 || float64(len(say)) <= 0.05*float64(all)
			if got := rule.believe(id, all, now); got != want {
				t.Fatalf("seed %d: %d of %d endpoints within a minute: believed %v", seed, len(say), all, got)
			}
			if want {
				believed++
			} else {
				suspended++
			}
			if len(rule.by) != rule.order.Len() || len(rule.by) != len(say) {
				t.Fatalf("seed %d: %d remembered of %d", seed, len(rule.by), len(say))
			}
		}
	}
	if believed < 1000 || suspended < 1000 {
		t.Errorf("the draw is one-sided: %d, %d", believed, suspended)
	}
}

// stored returns the endpoints as the topic has them.
func (r *rig) stored() map[string]*endpoint.Endpoint {
	r.t.Helper()
	out := map[string]*endpoint.Endpoint{}
	for _, rec := range r.read(endpoint.Suffix) {
		if rec.Attrs.IsControl() {
			continue
		}
		e, err := endpoint.Open(string(rec.Key), rec.Value, r.ring)
		if err != nil {
			r.t.Fatal(err)
		}
		out[e.ID] = e
	}
	return out
}

// gone makes the endpoints whose name begins with g answer 410.
func gone(p post) int {
	if p.path[0] == 'g' {
		return 410
	}
	return 200
}

// TestAnEndpointThatIsGoneIsDisabled follows one answer of 410 to all of its ends.
func TestAnEndpointThatIsGoneIsDisabled(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("gone", names("message.*"))
	r.endpoint("watch", names("hookline.endpoint.disabled", "hookline.delivery.dead"))
	r.recv.answers(gone)
	var mu sync.Mutex
	var audit []string
	r.off = func(before, after *endpoint.Endpoint) {
		mu.Lock()
		defer mu.Unlock()
		audit = append(audit, fmt.Sprintln(after.ID, before.Enabled, after.Enabled))
	}
	p := r.start("a", nil)
	r.publish("m", nil)
	r.recv.wait(t, 3)
	eventually(t, "the view", func() bool { e := p.registry.Get("gone"); return e != nil && !e.Enabled })
	r.publish("m", nil)
	eventually(t, "all committed", func() bool { return r.committed(event.EventsSuffix, 0) == 4 })
	p.end(t)

	if e := r.stored()["gone"]; e.Enabled || len(e.Keys) != 1 || e.Keys[0].Secret != testSecret || e.UpdatedAt.IsZero() {
		t.Errorf("stored %+v", e)
	}
	if got := fmt.Sprint(audit); got != "[gone true false\n]" {
		t.Errorf("audit %s", got)
	}
	count := map[string]int{}
	for _, row := range r.rowsOf() {
		count[row.Endpoint+" "+row.Outcome.String()+" "+row.Reason]++
	}
	if count["gone dead endpoint_gone"] != 1 || count["gone parked "] != 1 || count["watch delivered "] != 2 {
		t.Errorf("rows %v", count)
	}
	told := r.told()
	if len(told) != 2 || told[0].Type != event.EndpointDisabled || told[1].Type != event.DeliveryDead {
		t.Errorf("told %v", told)
	}
}

// TestADisableAndOtherChangesLoseNothing changes endpoints by a writer of the admin API's while
// they answer 410: every change of both counts.
func TestADisableAndOtherChangesLoseNothing(t *testing.T) {
	r := newRig(t, 1)
	const n, changes = 6, 8
	for i := range n {
		r.endpoint(fmt.Sprint("g", i), names("message.*"))
	}
	r.recv.answers(gone)
	var mu sync.Mutex
	off := map[string]int{}
	r.off = func(_, after *endpoint.Endpoint) {
		mu.Lock()
		defer mu.Unlock()
		off[after.ID]++
	}
	topic := r.topic(endpoint.Suffix)
	admin, err := table.NewWriter(table.Config{Kafka: r.b.Opts, Topic: topic, Log: testLog(t)}, topic)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	p := r.start("a", nil)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for c := range changes {
		r.publish(fmt.Sprint("m-", c), nil)
		for i := range n {
			id := fmt.Sprint("g", i)
			_, err := admin.Update(ctx, func(v table.View) ([]table.Change, error) {
				entry, _ := v.Get(id)
				e, err := endpoint.Open(id, entry.Value, r.ring)
				if err != nil {
					return nil, err
				}
				e.RatePerSecond += 1000
				value, err := endpoint.Seal(e, r.ring)
				return []table.Change{{Key: id, Value: value}}, err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	last := 0
	eventually(t, "all disabled", func() bool {
		on := 0
		for _, e := range r.stored() {
			if e.Enabled {
				on++
			}
		}
		if on > 0 {
			last++
			r.publish(fmt.Sprint("more-", last), nil)
		}
		return on == 0
	})
	p.end(t)
	for id, e := range r.stored() {
		if e.RatePerSecond != changes*1000 || off[id] != 1 {
			t.Errorf("%s: %v of %d changes, disabled %d times", id, e.RatePerSecond/1000, changes, off[id])
		}
	}
}

// TestManyGoneAtOnceAreAProxy lets 14 endpoints of 14 answer 410.
func TestManyGoneAtOnceAreAProxy(t *testing.T) {
	r := newRig(t, 1)
	const n = 14
	for i := range n {
		r.endpoint(fmt.Sprint("g", i), names("message.*"))
	}
	r.recv.answers(gone)
	p := r.start("a", nil)
	r.publish("m", nil)
	eventually(t, "dead letters", func() bool { return len(r.rowsOf()) == n })
	p.end(t)
	on := 0
	for _, e := range r.stored() {
		if e.Enabled {
			on++
		}
	}
	if dead := len(r.read(tier.DeadSuffix)); dead != n || on != n-goneMost {
		t.Errorf("%d dead letters, %d endpoints left enabled", dead, on)
	}
}

// TestACrashBehindTheDisableLosesNothing kills a dispatcher before it can write the attempt record.
func TestACrashBehindTheDisableLosesNothing(t *testing.T) {
	r := newRig(t, 1)
	if r.b.Fake() == nil {
		return // nothing can be refused there
	}
	r.endpoint("gone", names("message.*"))
	r.recv.answers(gone)
	release := r.forbid(attempt.Suffix)
	p := r.start("a", nil)
	r.publish("m", nil)
	eventually(t, "disable", func() bool { return !r.stored()["gone"].Enabled })
	if len(r.read(tier.DeadSuffix)) != 1 {
		t.Error("disabled before the dead letter is durable")
	}
	p.cut.kill()
	p.stop()
	release()

	next := r.start("a", nil)
	eventually(t, "commit", func() bool { return r.committed(event.EventsSuffix, 0) == 1 })
	next.end(t)
	rows := r.rowsOf()
	if len(rows) != 1 || rows[0].Outcome != attempt.Parked || len(r.copies()) != 1 || len(r.recv.all()) != 1 {
		t.Errorf("rows %+v, %d copies, %d posts", rows, len(r.copies()), len(r.recv.all()))
	}
}

// TestADisableThatFailsHoldsNothingForLong refuses every write to the endpoints.
func TestADisableThatFailsHoldsNothingForLong(t *testing.T) {
	r := newRig(t, 1)
	if r.b.Fake() == nil {
		return // nothing can be refused there
	}
	r.endpoint("gone", names("message.*"))
	r.recv.answers(gone)
	release := r.forbid(endpoint.Suffix)
	p := r.start("a", nil)
	for i := range 3 {
		r.publish(fmt.Sprint("m-", i), nil)
	}
	eventually(t, "commit", func() bool { return r.committed(event.EventsSuffix, 0) == 3 })
	r.publish("m", nil)
	eventually(t, "commit", func() bool { return r.committed(event.EventsSuffix, 0) == 4 })
	release()
	p.end(t)
	if dead := len(r.read(tier.DeadSuffix)); dead != 4 || !r.stored()["gone"].Enabled {
		t.Errorf("%d dead letters", dead)
	}
}

// TestOnlyWhatAnsweredIsDisabled changes an endpoint while its answer of 410 is under way, as seen by
// the view and as seen by the writer alone.
func TestOnlyWhatAnsweredIsDisabled(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("gone", names("message.*"))
	let := make(chan struct{})
	r.recv.answers(func(post) int { <-let; return 410 })
	p := r.start("a", nil)
	r.publish("m", nil)
	r.recv.wait(t, 1)
	old := p.registry.Get("gone")
	r.endpoint("gone", func(e *endpoint.Endpoint) { names("message.*")(e); e.URL += "/new" })
	eventually(t, "the change", func() bool { return p.registry.Get("gone").Version != old.Version })
	close(let)
	eventually(t, "commit", func() bool { return r.committed(event.EventsSuffix, 0) == 1 })
	if v := p.disable(old); v != goneChanged {
		t.Errorf("an old version is %s", v)
	}
	if dead := len(r.read(tier.DeadSuffix)); dead != 1 || !r.stored()["gone"].Enabled {
		t.Errorf("%d dead letters, enabled %v", dead, r.stored()["gone"].Enabled)
	}
	p.end(t)
}

// TestNothingIsDisabledBeforeTheDeadLetter refuses dead letters.
func TestNothingIsDisabledBeforeTheDeadLetter(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("gone", names("message.*"))
	r.recv.answers(gone)
	release := r.forbid(tier.DeadSuffix)
	p := r.start("a", nil)
	r.publish("m", nil)
	if r.b.Fake() != nil {
		eventually(t, "refusals", func() bool { return metricValue(t, p, "produce_failures_total") >= 3 })
		if !r.stored()["gone"].Enabled {
			t.Error("disabled without a dead letter")
		}
	}
	release()
	eventually(t, "disable", func() bool { return !r.stored()["gone"].Enabled })
	p.end(t)
}
