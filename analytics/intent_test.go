package analytics

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestIntentText(t *testing.T) {
	n := intent{Topic: "AAECAwQFBgcICQoLDA0ODw", End: 1200, AtMs: 1764500000000, Generation: 2}
	const want = `{"v":1,"topic":"AAECAwQFBgcICQoLDA0ODw","end":1200,"at":1764500000000,"g":2}`
	if got := n.encode(); got != want {
		t.Fatalf("got %s", got)
	}
	got, err := decodeIntent(1199, want)
	n.Version = 1
	if err != nil || got != n {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := decodeIntent(7, ""); err != nil || got != (intent{}) {
		t.Fatalf("no metadata: %+v, %v", got, err)
	}
	for _, bad := range []string{
		`{"v":1,"topic":"x","end":1200}`, `{"v":2}`, `{}`, `{"v":1}{}`, `1`, `{"v":1,"g":-1}`, `{"v":1,"end":-5}`, "kgo-abc", `{"v":1,"x":"` + strings.Repeat("a", 4096) + `"}`,
	} {
		if got, err := decodeIntent(1200, bad); err == nil || got != (intent{}) {
			t.Errorf("%s: %+v, %v", bad, got, err)
		}
	}
}

// FuzzDecodeIntent: never panics; what it accepts announces a batch behind the offset or none, and
// is written and read again as the same, within the limit of a broker.
func FuzzDecodeIntent(f *testing.F) {
	f.Add(int64(0), intent{Topic: "AAECAwQFBgcICQoLDA0ODw", End: 5, AtMs: 9}.encode())
	f.Add(int64(7), `{"v":1}`)
	f.Add(int64(7), `{"v":1,"end":6}`)
	f.Fuzz(func(t *testing.T, at int64, s string) {
		n, err := decodeIntent(at, s)
		if err != nil || s == "" {
			return
		}
		if n.End != 0 && n.End <= at {
			t.Fatalf("accepted %+v at %d", n, at)
		}
		if len(n.Topic) > 64 {
			return
		}
		out := n.encode()
		again, err := decodeIntent(at, out)
		if err != nil || again != n || len(out) > maxMetadata {
			t.Fatalf("%+v, then %+v: %v", n, again, err)
		}
	})
}

func TestTokenNamesOneContent(t *testing.T) {
	seen := map[string]bool{}
	for _, topic := range []string{"hookline.attempts", "hookline.events", "other.attempts"} {
		for _, id := range []string{"a", "b"} {
			for p := range int32(12) {
				for _, r := range [][2]int64{{0, 1}, {0, 11}, {1, 11}, {11, 111}} {
					for g := range 3 {
						tok := token(topic, id, p, r[0], r[1], g)
						if seen[tok] {
							t.Fatalf("%s twice", tok)
						}
						seen[tok] = true
					}
				}
			}
		}
	}
	if got := token("hookline.attempts", "ID", 3, 5, 9, 0); got != "hookline.attempts/ID/3/5-9" {
		t.Fatal(got)
	}
}

func TestLocate(t *testing.T) {
	f := func(name string, committed int64, n intent, start, end int64, want position) {
		t.Helper()
		if n.End > 0 {
			n.AtMs, want.announcedMs = 5, 5
		}
		want.at = max(want.from, start)
		if got := locate(committed, n, "id", start, end); got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
	none, to := intent{Topic: "id"}, intent{Topic: "id", End: 50, Generation: 1}
	f("no commit", -1, intent{}, 3, 9, position{from: 3})
	f("plain", 40, none, 0, 90, position{from: 40})
	f("at the end", 90, none, 0, 90, position{from: 90})
	f("set by a tool", 40, intent{}, 0, 90, position{from: 40})
	f("trimmed", 40, none, 60, 90, position{from: 60, trimmed: true})
	f("recreated", 40, intent{Topic: "old"}, 0, 90, position{from: 0, recreated: true})
	f("past the end", 91, none, 0, 90, position{from: 90, generation: 1, lost: true})
	f("announced", 40, to, 0, 90, position{from: 40, generation: 1, replayEnd: 50, readEnd: 50})
	f("announced, begins to be trimmed", 40, to, 45, 90, position{from: 40, generation: 1, replayEnd: 50, readEnd: 50, trimmed: true})
	f("announced, its end lost", 40, to, 0, 45, position{from: 40, generation: 1, replayEnd: 50, readEnd: 45, lost: true})
	to.AtMs = 5
	if got, want := locate(40, to, "id", 60, 90), (position{from: 60, at: 60, generation: 1, announcedMs: 5, trimmed: true}); got != want {
		t.Errorf("announced, all trimmed: %+v", got)
	}
	if got, want := locate(40, to, "id", 0, 40), (position{from: 40, at: 40, generation: 2, announcedMs: 5, lost: true}); got != want {
		t.Errorf("announced, all lost: %+v", got)
	}
}

// Whatever was committed and whatever happened to the log, reading on begins inside it and an
// announced batch keeps its name.
func TestLocateStaysInTheLog(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		start := rng.Int64N(50)
		end := start + rng.Int64N(50)
		committed := rng.Int64N(120) - 1
		n := intent{Topic: "id", Generation: rng.IntN(3)}
		if rng.IntN(2) == 0 && committed >= 0 {
			n.End = committed + 1 + rng.Int64N(40)
		}
		p := locate(committed, n, "id", start, end)
		if p.replayEnd > 0 {
			if p.from != committed || p.replayEnd != n.End || p.generation != n.Generation || max(p.from, start) >= p.readEnd || p.readEnd > end {
				t.Fatalf("%d %+v [%d,%d): %+v", committed, n, start, end, p)
			}
			continue
		}
		if p.from < start || p.from > end && p.from != n.End || (committed >= 0 && p.lost != (committed > end || n.End > end)) {
			t.Fatalf("%d %+v [%d,%d): %+v", committed, n, start, end, p)
		}
	}
}
