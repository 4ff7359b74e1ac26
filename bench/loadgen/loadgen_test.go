package loadgen

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
)

// ingest is a server that accepts and remembers.
type ingest struct {
	*httptest.Server

	mu     sync.Mutex
	bodies map[string][]byte // by the id that was answered
	keys   map[string]bool
	answer func(n int, w http.ResponseWriter) bool // false = accept
}

func newIngest(t *testing.T) *ingest {
	t.Helper()
	in := &ingest{bodies: map[string][]byte{}, keys: map[string]bool{}}
	in.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Authorization") != "Bearer k" || r.Header.Get("Content-Type") != "application/json" {
			http.Error(w, "bad", http.StatusBadRequest)
			return
		}
		in.mu.Lock()
		id := fmt.Sprintf("evt_%d", len(in.bodies))
		if in.answer != nil && in.answer(len(in.bodies), w) {
			in.bodies[id] = nil
			in.mu.Unlock()
			return
		}
		in.bodies[id] = body
		in.keys[r.Header.Get("Idempotency-Key")] = true
		in.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
		_, _ = fmt.Fprintf(w, `{"id":%q,"message_id":"m","partition":3,"offset":42}`, id)
	}))
	t.Cleanup(in.Close)
	return in
}

func config(in *ingest) Config {
	cfg := DefaultConfig()
	cfg.URL, cfg.APIKey, cfg.Connections = in.URL+"/v1/events", "k", 4
	return cfg
}

func run(t *testing.T, cfg Config) *Result {
	t.Helper()
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r := g.Run(ctx)
	if int64(r.Accepted) != g.Accepted() {
		t.Fatalf("accepted %d, counted %d", r.Accepted, g.Accepted())
	}
	return r
}

func TestEveryAcceptedIdIsKept(t *testing.T) {
	in := newIngest(t)
	cfg := config(in)
	cfg.Count, cfg.Duration, cfg.Keyed, cfg.Messages, cfg.Size = 500, 0, true, 7, 300
	r := run(t, cfg)
	if r.Accepted != 500 || r.Sent != 500 || r.ByStatus[202] != 500 || len(r.Errors) != 0 || r.Latency.TotalCount() != 500 {
		t.Fatalf("%+v", r)
	}
	seen := map[string]bool{}
	numbers := map[uint64]bool{}
	messages := map[string]bool{}
	r.Each(func(a Accepted) bool {
		body := in.bodies[a.ID]
		if len(body) != 300 || xxhash.Sum64(body) != a.BodyHash {
			t.Fatalf("%s: body of %d bytes does not have the hash that was kept", a.ID, len(body))
		}
		var fields struct {
			Event     string    `json:"event"`
			MessageID string    `json:"message_id"`
			At        time.Time `json:"occurred_at"`
			N         uint64    `json:"n"`
		}
		if err := json.Unmarshal(body, &fields); err != nil || fields.Event != cfg.EventType || fields.N != a.N || fields.At.IsZero() {
			t.Fatalf("%s: %v in %s", a.ID, err, body)
		}
		if a.Done.Before(a.Start) || seen[a.ID] {
			t.Fatalf("%+v", a)
		}
		seen[a.ID], numbers[a.N], messages[fields.MessageID] = true, true, true
		return true
	})
	if len(seen) != 500 || len(numbers) != 500 || len(messages) != 7 || len(in.keys) != 500 {
		t.Fatalf("%d ids, %d numbers, %d messages, %d keys", len(seen), len(numbers), len(messages), len(in.keys))
	}
}

func TestRefusedAndUnknownAreToldApart(t *testing.T) {
	in := newIngest(t)
	in.answer = func(n int, w http.ResponseWriter) bool {
		switch n % 5 {
		case 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 1:
			w.WriteHeader(http.StatusGatewayTimeout)
		case 2:
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			_ = conn.Close()
		case 3:
			w.WriteHeader(http.StatusAccepted) // without a body
		default:
			return false
		}
		return true
	}
	cfg := config(in)
	cfg.Count, cfg.Duration, cfg.Connections = 50, 0, 1
	r := run(t, cfg)
	if r.Accepted != 10 || r.Refused() != 10 || r.Unknown() != 30 || r.Errors["no_id"] != 10 || r.Errors["closed"] != 10 {
		t.Fatalf("accepted %d refused %d unknown %d errors %v", r.Accepted, r.Refused(), r.Unknown(), r.Errors)
	}
}

func TestOpenLoopChargesForTheQueue(t *testing.T) {
	in := newIngest(t)
	const stall = 300 * time.Millisecond
	in.answer = func(n int, _ http.ResponseWriter) bool {
		if n == 50 { // under the lock: every connection waits
			<-time.After(stall)
		}
		return false
	}
	cfg := config(in)
	cfg.Rate, cfg.Duration = 500, 600*time.Millisecond
	r := run(t, cfg)
	if r.Accepted != 300 {
		t.Fatalf("%d accepted: the schedule is 500/s for 0.6 s, stall or not", r.Accepted)
	}
	// About 150 events became due during the stall; a closed loop would have seen four.
	late := int64(0)
	for _, bar := range r.Latency.Distribution() {
		if bar.From > 20_000 {
			late += bar.Count
		}
	}
	if late < 100 {
		t.Fatalf("only %d of 300 were late", late)
	}
}

func TestServerThatIsAway(t *testing.T) {
	in := newIngest(t)
	cfg := config(in)
	in.Close()
	cfg.Duration = 100 * time.Millisecond
	r := run(t, cfg)
	if r.Accepted != 0 || r.Errors["refused"] == 0 || r.Sent > 100 {
		t.Fatalf("sent %d, errors %v", r.Sent, r.Errors)
	}
}

func TestValidateNamesEveryMistake(t *testing.T) {
	err := Config{URL: "https://x"}.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range []string{"url", "event type", "connections", "duration or count"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not named in %v", part, err)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("New accepts what Validate refuses")
	}
}

func TestBodySizes(t *testing.T) {
	for _, size := range []int{0, 100, 200, 1024} {
		cfg := DefaultConfig()
		cfg.Size = size
		b := NewBodies(cfg).Append(nil, 1<<40, time.Now())
		if !json.Valid(b) || len(b) > max(size, MinSize) || size > MinSize && len(b) != size {
			t.Errorf("size %d: %d bytes: %s", size, len(b), b)
		}
	}
}

func BenchmarkBody(b *testing.B) {
	bodies := NewBodies(DefaultConfig())
	dst := make([]byte, 0, 512)
	now := time.Now()
	b.ReportAllocs()
	for i := range b.N {
		dst = bodies.Append(dst[:0], uint64(i), now)
	}
}

// FuzzCutID: never panics, returns a part of the body without a quote.
func FuzzCutID(f *testing.F) {
	f.Add([]byte(`{"id":"evt_1"}`))
	f.Add([]byte(`{"id":"`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if id := string(cutID(b)); strings.Contains(id, `"`) || !strings.Contains(string(b), id) {
			t.Fatalf("%q from %q", id, b)
		}
	})
}
