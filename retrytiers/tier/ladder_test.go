package tier

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestDefaultLadderIsTheTableOfTheDesign(t *testing.T) {
	l := DefaultLadder()
	if _, err := NewLadder(l.Steps()); err != nil {
		t.Fatal(err)
	}
	want := map[string]int32{"retry.15s": 8, "retry.2m": 7, "retry.15m": 26, "retry.1h": 45}
	topics := l.Topics()
	if len(topics) != len(want) {
		t.Fatalf("%d topics, want %d", len(topics), len(want))
	}
	for _, topic := range topics {
		if topic.Partitions != want[topic.Suffix] {
			t.Errorf("%s has %d partitions, want %d", topic.Suffix, topic.Partitions, want[topic.Suffix])
		}
		if topic.Configs["message.timestamp.type"] != "LogAppendTime" {
			t.Errorf("%s matures by the clock of whoever appends", topic.Suffix)
		}
	}
	if l.Span() != time.Hour {
		t.Errorf("span is %s, want 1h", l.Span())
	}
}

func TestPlace(t *testing.T) {
	l := DefaultLadder()
	f := func(delay time.Duration, suffix string, partition int32) {
		t.Helper()
		gotSuffix, gotPartition := l.Place(delay, "m")
		if suffix == "retry.15s" {
			if gotSuffix != suffix || gotPartition < 0 || gotPartition >= 8 {
				t.Errorf("Place(%s) = %s/%d, want %s", delay, gotSuffix, gotPartition, suffix)
			}
			return
		}
		if gotSuffix != suffix || gotPartition != partition {
			t.Errorf("Place(%s) = %s/%d, want %s/%d", delay, gotSuffix, gotPartition, suffix, partition)
		}
	}
	f(-time.Second, "retry.15s", 0)
	f(0, "retry.15s", 0)
	f(15*time.Second-1, "retry.15s", 0)
	f(15*time.Second, "retry.2m", 0)
	f(30*time.Second-1, "retry.2m", 0)
	f(30*time.Second, "retry.2m", 1)
	f(2*time.Minute-1, "retry.2m", 6)
	f(2*time.Minute, "retry.15m", 0)
	f(15*time.Minute-1, "retry.15m", 25)
	f(15*time.Minute, "retry.1h", 0)
	f(time.Hour-1, "retry.1h", 44)
	f(time.Hour, "retry.1h", 44)
	f(24*time.Hour, "retry.1h", 44)
	f(1<<62, "retry.1h", 44)
}

// TestPlaceIsOneHop states what the mover relies on: a delay within the ladder goes to a slot
// whose floor it reaches and whose width covers the rest.
func TestPlaceIsOneHop(t *testing.T) {
	l := DefaultLadder()
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		delay := time.Duration(rnd.Int64N(int64(l.Span())))
		suffix, partition := l.Place(delay, "m")
		floor, ok := l.Floor(suffix, partition)
		width, _ := l.Width(suffix, partition)
		if !ok || floor > delay || delay-floor >= width {
			t.Fatalf("Place(%s) = %s/%d with floor %s and width %s", delay, suffix, partition, floor, width)
		}
	}
}

func TestShardsSpreadKeysAndKeepEachKey(t *testing.T) {
	l := DefaultLadder()
	var count [8]int
	for i := range 8000 {
		key := strings.Repeat("k", 1+i%7) + time.Duration(i).String()
		_, p := l.Place(time.Second, key)
		if _, again := l.Place(14*time.Second, key); again != p {
			t.Fatalf("key %q is in shards %d and %d", key, p, again)
		}
		count[p]++
	}
	for p, n := range count {
		if n < 800 || n > 1200 {
			t.Errorf("shard %d holds %d of 8000 keys", p, n)
		}
	}
}

func TestFloorRefusesWhatIsNoSlot(t *testing.T) {
	l := DefaultLadder()
	f := func(suffix string, partition int32) {
		t.Helper()
		if _, ok := l.Floor(suffix, partition); ok {
			t.Errorf("%s/%d has a floor", suffix, partition)
		}
		if _, ok := l.Width(suffix, partition); ok {
			t.Errorf("%s/%d has a width", suffix, partition)
		}
	}
	f("retry.15s", 8)
	f("retry.15s", -1)
	f("retry.3d", 0)
	f("due", 0)
}

func TestNewLadderRefuses(t *testing.T) {
	ok := Step{Suffix: "retry.a", Width: time.Second, Slots: 2, Shards: 1}
	next := Step{Suffix: "retry.b", Floor: 2 * time.Second, Width: time.Second, Slots: 1, Shards: 1}
	if _, err := NewLadder([]Step{ok, next}); err != nil {
		t.Fatal(err)
	}
	f := func(name string, change func(a, b *Step)) {
		t.Helper()
		a, b := ok, next
		change(&a, &b)
		if _, err := NewLadder([]Step{a, b}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	f("a first floor above 0", func(a, _ *Step) { a.Floor = time.Second })
	f("a gap", func(_, b *Step) { b.Floor += time.Second })
	f("an overlap", func(_, b *Step) { b.Floor -= time.Second })
	f("no width", func(a, _ *Step) { a.Width = 0 })
	f("a width in microseconds", func(a, _ *Step) { a.Width += time.Microsecond })
	f("no slots", func(a, _ *Step) { a.Slots = 0 })
	f("no shards", func(_, b *Step) { b.Shards = 0 })
	f("too many partitions", func(_, b *Step) { b.Shards = maxPartitions + 1 })
	f("an overflow of slots", func(_, b *Step) { b.Slots, b.Shards = 1<<30, 1<<30 })
	f("two equal suffixes", func(_, b *Step) { b.Suffix = "retry.a" })
	f("a suffix of another topic", func(a, _ *Step) { a.Suffix = "due" })
	f("a suffix without a word", func(a, _ *Step) { a.Suffix = "retry." })
	f("more than a year", func(_, b *Step) { b.Width = 400 * 24 * time.Hour })
	if _, err := NewLadder(nil); err == nil {
		t.Error("an empty ladder is accepted")
	}
}

func TestLadderJSON(t *testing.T) {
	l := DefaultLadder()
	b, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	const start = `{"steps":[{"suffix":"retry.15s","floor":"0s","width":"15s","slots":1,"shards":8},`
	if !strings.HasPrefix(string(b), start) {
		t.Errorf("ladder in control begins %.100s, want %s", b, start)
	}
	var back Ladder
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if !back.Equal(l) {
		t.Errorf("round trip gave %v", back)
	}
	for _, bad := range []string{
		`{}`,
		`{"steps":[{"suffix":"retry.a","floor":"0s","width":"1s","slots":1,"shards":1,"speed":9}]}`,
		`{"steps":[{"suffix":"retry.a","floor":"0","width":"1","slots":1,"shards":1}]}`,
		`{"steps":[{"suffix":"retry.a","floor":"5s","width":"1s","slots":1,"shards":1}]}`,
	} {
		if err := json.Unmarshal([]byte(bad), &back); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	if !back.Equal(l) {
		t.Error("a refused ladder has changed the value")
	}
}

func FuzzLadderJSON(f *testing.F) {
	b, err := json.Marshal(DefaultLadder())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"steps":[]}`))
	// Invariant: what is accepted has a slot for every delay, and reads back equal.
	f.Fuzz(func(t *testing.T, b []byte) {
		var l Ladder
		if json.Unmarshal(b, &l) != nil || len(l.steps) == 0 {
			return // "null" is accepted by encoding/json without a call
		}
		for _, delay := range []time.Duration{0, l.Span() / 2, l.Span() - 1, l.Span(), 1 << 62} {
			if _, ok := l.Floor(l.Place(delay, "m")); !ok {
				t.Fatalf("delay %s has no slot in %v", delay, l)
			}
		}
		again, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		var back Ladder
		if err := json.Unmarshal(again, &back); err != nil || !back.Equal(l) {
			t.Fatalf("%v read back as %v: %v", l, back, err)
		}
	})
}
