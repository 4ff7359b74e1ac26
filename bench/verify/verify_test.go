package verify

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var base = time.Unix(1784452525, 0)

func at(ms int) time.Time { return base.Add(time.Duration(ms) * time.Millisecond) }

func TestVerdicts(t *testing.T) {
	c := New("/a", "/b")
	for i := range 4 {
		c.Accept(fmt.Sprintf("e%d", i), uint64(i), at(i))
	}
	c.Accept("e0", 0, at(99)) // idempotent repeat
	ok := func(id string, hash uint64, endpoint string, attempt int, seq uint64, ms int) {
		c.Receive(Received{ID: id, Endpoint: endpoint, MessageID: "m", Sequence: seq, Attempt: attempt, BodyHash: hash, At: at(ms), OK: true})
	}
	ok("e0", 0, "/a", 1, 10, 5)
	ok("e0", 0, "/b", 1, 10, 6)
	ok("e0", 0, "/b", 2, 10, 7) // duplicate
	c.Receive(Received{ID: "e1", Endpoint: "/a", MessageID: "m", Sequence: 11, Attempt: 1, BodyHash: 1})
	c.Receive(Received{ID: "e1", Endpoint: "/a", MessageID: "m", Sequence: 11, Attempt: 1, BodyHash: 1}) // repeated
	ok("e2", 2, "/a", 1, 12, 8)
	ok("e1", 1, "/a", 2, 11, 9)  // overtaken by e2
	c.Dead("e1", "/b")           // dead
	c.Dead("e0", "/a")           // delivered and dead
	ok("e2", 77, "/b", 1, 13, 8) // body and sequence changed
	ok("e3", 3, "/c", 1, 14, 9)  // misrouted; lost at both of its own
	ok("x", 0, "/a", 1, 15, 9)   // never accepted
	c.Dead("x", "/a")

	if got := c.Missing(); got != 2 {
		t.Fatalf("missing %d", got)
	}
	got := c.Report()
	if len(got.LostSamples) != 2 || !strings.HasPrefix(got.LostSamples[0], "e3 /") || got.DuplicateSamples[0] != "e0 /b" {
		t.Fatalf("samples %v %v", got.LostSamples, got.DuplicateSamples)
	}
	got.LostSamples, got.DuplicateSamples = nil, nil
	want := Report{
		Accepted: 4, Owed: 8, Delivered: 5, Dead: 1, Lost: 2, Duplicates: 1, RepeatedAttempts: 1, Extra: 1,
		BodyChanged: 1, SequenceChanged: 1, Overtaken: 1, Misrouted: 1, AlsoDead: 1,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
	if f := got.Faults(); len(f) != 4 {
		t.Fatalf("faults %v", f)
	}
}

func TestLatencyIsFromStartToFirstSuccess(t *testing.T) {
	c := New("/a")
	c.Accept("e", 0, at(100))
	c.Receive(Received{ID: "e", Endpoint: "/a", Attempt: 1, At: at(110)})
	c.Receive(Received{ID: "e", Endpoint: "/a", Attempt: 2, At: at(150), OK: true})
	c.Receive(Received{ID: "e", Endpoint: "/a", Attempt: 2, At: at(900), OK: true})
	n := 0
	c.EachDelivered(func(endpoint string, start, delivered time.Time) {
		n++
		if endpoint != "/a" || delivered.Sub(start) != 50*time.Millisecond {
			t.Fatalf("%s after %s", endpoint, delivered.Sub(start))
		}
	})
	if n != 1 {
		t.Fatalf("%d pairs", n)
	}
}

func TestCleanRunHasNoFaults(t *testing.T) {
	c := New("/a")
	for i := range 1000 {
		c.Accept(fmt.Sprint("e", i), 1, at(0))
	}
	for i := range 1000 {
		c.Receive(Received{ID: fmt.Sprint("e", i), Endpoint: "/a", MessageID: "m", Sequence: uint64(i + 1), Attempt: 1, BodyHash: 1, At: at(1), OK: true})
	}
	r := c.Report()
	if len(r.Faults()) != 0 || r.Delivered != 1000 || r.Duplicates+r.RepeatedAttempts+r.Overtaken+r.Extra != 0 {
		t.Fatalf("%+v", r)
	}
}
