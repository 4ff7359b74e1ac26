package dispatcher

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/dispatcher/sequence"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

// TestARevokedLaneIsCommittedOnce lets no timer commit: what was delivered is committed by
// the clean stop alone, and the next owner repeats nothing.
func TestARevokedLaneIsCommittedOnce(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("e", nil)
	const n = 5
	p := r.start("a", func(c *Config) { c.CommitInterval = time.Hour })
	for i := range n {
		r.publish(fmt.Sprint("m-", i), nil)
	}
	eventually(t, "all rows", func() bool { return len(r.rowsOf()) == n })
	if at := r.committed(event.EventsSuffix, 0); at != 0 {
		t.Fatalf("committed %d before the stop", at)
	}
	p.end(t)
	if at := r.committed(event.EventsSuffix, 0); at != n {
		t.Errorf("the stop committed %d, want %d", at, n)
	}
	next := r.start("b", nil)
	r.publish("m-last", nil)
	r.recv.wait(t, n+1)
	next.end(t)
	if posts := len(r.recv.all()); posts != n+1 {
		t.Errorf("%d posts, want %d", posts, n+1)
	}
}

// TestOpenSlotsOfTheProcessAreBoundedByBytes allows one byte: one record at a time.
func TestOpenSlotsOfTheProcessAreBoundedByBytes(t *testing.T) {
	r := newRig(t, 2)
	r.endpoint("e", nil)
	answer := make(chan struct{})
	r.recv.answers(func(post) int { <-answer; return http.StatusOK })
	p := r.start("a", func(c *Config) { c.ProcessBytes = 1 })
	const n = 6
	for i := range n {
		r.publish(fmt.Sprint("m-", i), nil)
	}
	for i := 1; i <= n; i++ {
		// Each lane may have looked before the other's record counted.
		r.recv.wait(t, i)
		stays(t, "few open", func() bool { return len(r.recv.all()) <= i+1 })
		answer <- struct{}{}
	}
	eventually(t, "all committed", func() bool {
		return max(0, r.committed(event.EventsSuffix, 0))+max(0, r.committed(event.EventsSuffix, 1)) == n
	})
	if open := p.openBytes.Load(); open != 0 {
		t.Errorf("%d bytes are counted as open and nothing is", open)
	}
	p.end(t)
}

// TestTheQueueOfOneEndpointIsBoundedAndNothingInItIsForgotten sends more than a hanging
// endpoint may queue: what finds no room parks, the rest is delivered or parks, all of it.
func TestTheQueueOfOneEndpointIsBoundedAndNothingInItIsForgotten(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("e", func(e *endpoint.Endpoint) {
		e.MaxInFlight, e.Timeout = 1, endpoint.Duration(15*time.Second)
	})
	hang := make(chan struct{})
	r.recv.answers(func(post) int { <-hang; return http.StatusOK })
	const n = 150
	for i := range n {
		r.publish(fmt.Sprint("m-", i), nil)
	}
	p := r.start("a", nil)
	r.recv.wait(t, 1)
	eventually(t, "parks", func() bool { return metricValue(t, p, "parks_total") >= n-1-max(64, queuePerPlace) })
	close(hang)
	eventually(t, "all committed", func() bool { return r.committed(event.EventsSuffix, 0) == n })
	outcomes := map[string]int{}
	for _, row := range r.rowsOf() {
		outcomes[row.Outcome.String()]++
	}
	if outcomes["delivered"]+outcomes["parked"] != n || outcomes["parked"] != len(r.copies()) || outcomes["delivered"] != len(r.recv.all()) {
		t.Errorf("rows %v, %d copies, %d posts", outcomes, len(r.copies()), len(r.recv.all()))
	}
	p.end(t)
}

// TestALaterTopicHasHigherSequences puts the base of an earlier topic, made "tomorrow", into
// control: a topic that is seen now must still go on above it.
func TestALaterTopicHasHigherSequences(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("e", nil)
	earlier := uint64(time.Since(sequence.Epoch)/time.Second+86_400) << sequence.Shift
	value, err := json.Marshal(sequence.Record{Base: earlier})
	if err != nil {
		t.Fatal(err)
	}
	r.produce(
		&kgo.Record{Topic: r.topic(tier.ControlSuffix), Key: []byte(sequence.Key([16]byte{1})), Value: value},
		&kgo.Record{Topic: r.topic(tier.ControlSuffix), Key: []byte(tier.LadderKey), Value: []byte(`[]`)},
	)
	p := r.start("a", nil)
	r.publish("m", nil)
	first := r.recv.wait(t, 1)[0].sequence
	p.end(t)
	p = r.start("b", nil) // another process computes the same
	r.publish("m", nil)
	second := r.recv.wait(t, 2)[1].sequence
	p.end(t)
	a, errA := strconv.ParseUint(first, 10, 64)
	b, errB := strconv.ParseUint(second, 10, 64)
	if errA != nil || errB != nil || a < earlier+1<<sequence.Shift || b != a+1 || b >= 1<<53 {
		t.Errorf("sequences %s and %s behind an earlier base of %d", first, second, earlier)
	}
}

// TestADeletionIsNotBelievedOnAnOldView removes the endpoint of a delivery that waits for its
// permit and hides that it was made again: the delivery must wait, not die.
func TestADeletionIsNotBelievedOnAnOldView(t *testing.T) {
	r := newRig(t, 1)
	r.endpoint("slow", nil)
	r.endpoint("e", func(e *endpoint.Endpoint) { e.Events = []string{"late.*"} })
	hang := make(chan struct{})
	r.recv.answers(func(p post) int {
		if p.path == "slow" {
			<-hang
		}
		return http.StatusOK
	})
	p := r.start("a", func(c *Config) { c.InFlight = 1 })
	r.publish("m-1", nil)
	r.recv.wait(t, 1)
	r.publish("m-2", func(ev *event.Event) { ev.Type = "late.x" }) // owed to both, waits for the permit
	lane0 := p.partition(0)
	eventually(t, "two that wait", func() bool {
		lane0.mu.Lock()
		defer lane0.mu.Unlock()
		return lane0.fresh.waiting == 2
	})
	r.produce(&kgo.Record{Topic: r.topic(endpoint.Suffix), Key: []byte("e")})
	eventually(t, "the removal", func() bool { _, ok := p.registry.Snapshot().Get("e"); return !ok })
	release := r.blind()
	r.endpoint("e", func(e *endpoint.Endpoint) { e.Events = []string{"late.*"} })
	if r.b.Fake() != nil {
		eventually(t, "an old proof", func() bool { return !p.viewProven() })
		close(hang)
		eventually(t, "all rows", func() bool { return len(r.rowsOf()) == 3 })
		if dead := r.read(tier.DeadSuffix); len(dead) != 0 {
			t.Errorf("dead letter %+v of an endpoint that exists", tier.DecodeDead(dead[0]))
		}
	} else {
		close(hang)
	}
	release()
	p.end(t)
}
