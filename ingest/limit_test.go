package ingest

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

func retryAfterOf(t testing.TB, p *problem) time.Duration {
	t.Helper()
	if p.status != 429 || p.code != codeRateLimited || p.header != "Retry-After" {
		t.Fatalf("refusal is %+v", p)
	}
	n, err := strconv.Atoi(p.value)
	if err != nil || n < 1 {
		t.Fatalf("Retry-After is %q", p.value)
	}
	return time.Duration(n) * time.Second
}

// Retry-After is the truth: whoever comes back then gets in, and not a second earlier.
func TestRetryAfterIsTrue(t *testing.T) {
	for _, l := range []Limit{{PerSecond: 0.1}, {PerSecond: 0.5, Burst: 3}, {PerSecond: 1}, {PerSecond: 3.7, Burst: 2}, {PerSecond: 1000, Burst: 1}} {
		for _, debt := range []int{0, 1, 7, 1000} {
			b := newBucket(l)
			now := time.Now()
			for b.look(now) == nil {
				if p := b.take(now); p != nil {
					t.Fatalf("%+v: look and take differ", l)
				}
			}
			if p := b.charge(now, debt); p != nil {
				t.Fatalf("%+v: a batch that passed the door is refused: %+v", l, p)
			}
			p := b.take(now)
			if p == nil {
				t.Fatalf("%+v: taken from an empty bucket", l)
			}
			wait := retryAfterOf(t, p)
			if early := wait - time.Second; early > 0 && b.look(now.Add(early)) == nil {
				t.Errorf("%+v, debt %d: told to wait %s, open after %s", l, debt, wait, early)
			}
			if p := b.take(now.Add(wait)); p != nil {
				t.Errorf("%+v, debt %d: came back after %s and was told to wait %s", l, debt, wait, p.value)
			}
		}
	}
}

// Over any time, single events and batches together pass no more than burst + rate x time +
// the debt of one batch.
func TestBucketKeepsTheRate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		l := Limit{PerSecond: 1 + 500*rng.Float64(), Burst: 1 + rng.IntN(200)}
		b := newBucket(l)
		start := time.Now()
		now, passed, largest := start, 0, 0
		for range 500 {
			now = now.Add(time.Duration(rng.Int64N(int64(50 * time.Millisecond))))
			if b.take(now) != nil {
				continue
			}
			passed++
			if n := rng.IntN(1000); rng.IntN(4) == 0 && b.charge(now, n) == nil {
				passed += n
				largest = max(largest, n)
			}
		}
		if most := float64(l.Burst+largest) + l.PerSecond*now.Sub(start).Seconds() + 1; float64(passed) > most {
			t.Fatalf("%+v: %d events in %s, at most %.0f", l, passed, now.Sub(start), most)
		}
	}
}

func TestKeyOptions(t *testing.T) {
	def := Limit{PerSecond: 10, Burst: 20}
	for line, want := range map[string]Limit{
		"k": def, "k rate=5": {PerSecond: 5}, "k rate=5 burst=7": {5, 7}, "k  burst=7\trate=.5 ": {.5, 7}, "k burst=3": {10, 3}, "k rate=0": {},
	} {
		key, l, err := keyOptions(line, def)
		if err != nil || strings.TrimSpace(key) != "k" || l != want {
			t.Errorf("%q: %q %+v %v", line, key, l, err)
		}
	}
	for _, line := range []string{"k rate=x", "k rate=-1", "k rate=NaN", "k rate=+Inf", "k burst=-1", "k burst=1.5", "k rate=", "k burst=99999999999"} {
		if _, _, err := keyOptions(line, def); err == nil || strings.Contains(err.Error(), "k ") {
			t.Errorf("%q: %v", line, err)
		}
	}
	for _, line := range []string{"k x", "k rate=1 x", "k rate=1 rate=2"} {
		if key, _, err := keyOptions(line, def); err != nil || validKey(key) {
			t.Errorf("%q: key %q is good, %v", line, key, err)
		}
	}
	if b := newBucket(Limit{PerSecond: 2.5}); b.lim.Burst() != 3 {
		t.Errorf("burst of 2.5 events a second is %d", b.lim.Burst())
	}
}

// A reload keeps the tokens of a key whose limit is the same, and starts anew with another.
func TestReloadFillsNoBucket(t *testing.T) {
	s, err := New(testConfig(func(c *Config) { c.APIKeys = []string{"dev:a rate=0.001", "dev:b rate=0.001", "dev:c rate=0.001"} }), Deps{Prefix: "x."})
	if err != nil {
		t.Fatal(err)
	}
	take := func(key string) *problem { return s.keys.Load().find([]byte("Bearer " + key)).bucket.take(time.Now()) }
	for _, key := range []string{"a", "b", "c"} {
		if p := take(key); p != nil {
			t.Fatal(p)
		}
	}
	if err := s.SetKeys([]string{"dev:d", "dev:c rate=0.001 burst=2", "acme:a rate=0.001", "dev:b"}); err != nil {
		t.Fatal(err)
	}
	if take("a") == nil || take("b") != nil || take("c") != nil || take("d") != nil {
		t.Error("a reload filled the bucket of an old limit, or kept one of another")
	}
}

func TestRateLimitOverHTTP(t *testing.T) {
	r, _ := start(t, func(c *Config) { c.APIKeys = []string{"dev:secret rate=1 burst=3", "acme:other"} })
	var passed int
	var refused answer
	began := time.Now()
	for range 20 {
		switch a := r.post(goodBody); a.status {
		case 202:
			passed++
		case 429:
			refused = a
		default:
			t.Fatal(a)
		}
		if a := r.post(goodBody, "Authorization", "", "authorization", "Bearer other"); a.status != 202 {
			t.Fatalf("another key: %s", a)
		}
	}
	if most := 3 + int(math.Ceil(time.Since(began).Seconds())); passed < 3 || passed > most {
		t.Errorf("%d events passed, want 3 to %d", passed, most)
	}
	if refused.Code != codeRateLimited || refused.header.Get("Retry-After") != "1" {
		t.Errorf("refusal: %s, Retry-After %q", refused, refused.header.Get("Retry-After"))
	}
	documented(t, PathEvents, refused)
	if n := r.metric("hookline_ingest_requests_total", "code", codeRateLimited); int(n) != 20-passed {
		t.Errorf("%v refusals counted", n)
	}
}

// A client that holds its body back is told before it sends it.
func TestRateLimitIsToldBeforeTheBody(t *testing.T) {
	r, _ := start(t, func(c *Config) { c.APIKeys = []string{"dev:secret rate=0.01"} })
	head := strings.Replace(request(goodBody, "Expect: 100-continue"), goodBody, "", 1)
	for i, want := range []int{202, 429} {
		body := ""
		if want == 202 {
			body = goodBody
		}
		answers := r.raw(1+(202/want), head+body)
		if a := answers[len(answers)-1]; a.status != want {
			t.Errorf("request %d: %s", i, a)
		}
	}
}

// The door of a key without a limit costs nothing, of one with a limit next to nothing.
func BenchmarkBucket(b *testing.B) {
	for name, l := range map[string]Limit{"none": {}, "limit": {PerSecond: 1e9, Burst: 1 << 30}, "refuse": {PerSecond: 1e-9, Burst: 1}} {
		b.Run(name, func(b *testing.B) {
			bucket := newBucket(l)
			now := time.Now()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					bucket.take(now)
				}
			})
		})
	}
}

// Each event of a batch counts, and a batch that is larger than the burst still gets through.
func TestBatchPaysForItsEvents(t *testing.T) {
	r, _ := start(t, func(c *Config) { c.APIKeys = []string{"dev:secret rate=1 burst=5"} })
	lines := strings.Repeat(goodBody+"\n", 8)
	batch := func() answer {
		return r.do("POST", PathBatch, lines, "Content-Type", "", "content-type", "application/x-ndjson")
	}
	if a := batch(); a.status != 202 {
		t.Fatal(a)
	}
	a := batch()
	if a.status != 429 || a.Code != codeRateLimited {
		t.Fatal(a)
	}
	if wait := a.header.Get("Retry-After"); wait != "3" && wait != "4" {
		t.Errorf("a debt of 3 events at 1/s: Retry-After %s", wait)
	}
	if a := r.post(goodBody); a.status != 429 {
		t.Errorf("a single event with the debt of a batch: %s", a)
	}
}
