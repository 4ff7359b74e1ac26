package receiver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/valyala/fasthttp"

	"github.com/hookline/hookline/dispatcher/signature"
)

func start(t testing.TB, cfg Config) *Receiver {
	t.Helper()
	r, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return r
}

// delivery is one request as a dispatcher would send it.
type delivery struct {
	id      string
	attempt int
	seq     int
	body    string
	secret  string
	at      time.Time
}

func (d delivery) post(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(d.body)))
	if err != nil {
		return nil, err
	}
	if d.at.IsZero() {
		d.at = time.Now()
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(signature.HeaderID, d.id)
	req.Header.Set(signature.HeaderTimestamp, strconv.FormatInt(d.at.Unix(), 10))
	req.Header.Set("Webhook-Attempt", strconv.Itoa(d.attempt))
	req.Header.Set("Webhook-Sequence", strconv.Itoa(d.seq))
	if d.secret != "" {
		k, err := signature.ParseSecret(d.secret)
		if err != nil {
			return nil, err
		}
		req.Header.Set(signature.HeaderSignature, string(signature.AppendSign(nil, []signature.Key{k}, d.id, d.at.Unix(), []byte(d.body))))
	}
	res, err := http.DefaultClient.Do(req)
	if err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	return res, err
}

func status(t testing.TB, url string, d delivery) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	res, err := d.post(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode
}

func body(message string) string {
	return fmt.Sprintf(`{"event":"message.delivered","message_id":"%s","status":"delivered"}`, message)
}

func all(r *Receiver) []Request {
	var out []Request
	r.Each(func(q *Request) bool { out = append(out, *q); return true })
	return out
}

func TestEveryRequestIsOnRecord(t *testing.T) {
	r := start(t, Config{Paths: map[string]Path{"/a": {}}, KeepBodies: true})
	before := time.Now()
	for i := range 3 {
		d := delivery{id: "evt_1", attempt: i + 1, seq: 77, body: body("m1")}
		if got := status(t, r.URL()+"/a", d); got != 200 {
			t.Fatalf("status %d", got)
		}
	}
	got := all(r)
	if len(got) != 3 {
		t.Fatalf("%d on record", len(got))
	}
	for i, q := range got {
		if q.ID != "evt_1" || q.MessageID != "m1" || q.Path != "/a" || q.Attempt != i+1 || q.Sequence != 77 ||
			q.Status != 200 || !q.OK() || q.Signature != Unchecked || string(q.Body) != body("m1") ||
			q.BodyHash != xxhash.Sum64String(body("m1")) || q.At.Before(before) || q.Timestamp < before.Unix() {
			t.Fatalf("record %d: %+v", i, q)
		}
	}
	if s := r.Stats(); s.Requests != 3 || s.OK != 3 || s.BadSignature+s.BadHeaders+s.Strays != 0 {
		t.Fatalf("%+v", s)
	}
	if got := status(t, r.URL()+"/b", delivery{id: "evt_1"}); got != 404 || r.Stats().Strays != 1 {
		t.Fatalf("unknown path: %d %+v", got, r.Stats())
	}
	r.Forget()
	if len(all(r)) != 0 {
		t.Fatal("not forgotten")
	}
}

func TestDemoPaths(t *testing.T) {
	r := start(t, Config{Paths: DemoPaths()})
	failed := 0
	for n := range 200 {
		switch got := status(t, r.URL()+PathFlaky, delivery{id: fmt.Sprint("evt_", n), attempt: 1, body: body("m")}); got {
		case 503:
			failed++
		case 200:
		default:
			t.Fatalf("flaky answers %d", got)
		}
	}
	if failed < 30 || failed > 90 {
		t.Fatalf("flaky failed %d of 200", failed)
	}
	if got := status(t, r.URL()+PathDead, delivery{id: "evt_1"}); got != 500 {
		t.Fatalf("dead answers %d", got)
	}
	if got := status(t, r.URL()+PathHealthy, delivery{id: "evt_1"}); got != 200 {
		t.Fatalf("healthy answers %d", got)
	}
}

func TestSignatures(t *testing.T) {
	oldS, newS := signature.NewSecret(), signature.NewSecret()
	private, public := signature.NewPrivate()
	r := start(t, Config{Paths: map[string]Path{
		"/a":   {Secrets: []string{newS, oldS}},
		"/v1a": {Secrets: []string{public}},
	}})
	good := delivery{id: "evt_1", attempt: 1, seq: 1, body: body("m"), secret: oldS}
	status(t, r.URL()+"/a", good)
	status(t, r.URL()+"/v1a", delivery{id: "evt_1", attempt: 1, seq: 1, body: body("m"), secret: private})
	if s := r.Stats(); s.BadSignature != 0 || s.BadHeaders != 0 {
		t.Fatalf("good deliveries: %+v", s)
	}
	stale, unsigned, other := good, good, good
	stale.at = time.Now().Add(-10 * time.Minute)
	unsigned.secret = ""
	other.secret = signature.NewSecret()
	for i, d := range []delivery{stale, unsigned, other} {
		status(t, r.URL()+"/a", d)
		if s := r.Stats("/a"); s.BadSignature != int64(i+1) {
			t.Fatalf("bad delivery %d: %+v", i, s)
		}
	}
	noAttempt := good
	noAttempt.attempt = 0
	status(t, r.URL()+"/a", noAttempt)
	if s := r.Stats(); s.BadHeaders != 1 {
		t.Fatalf("%+v", s)
	}
	if err := r.SetSecrets("/a", newS); err != nil {
		t.Fatal(err)
	}
	status(t, r.URL()+"/a", good)
	if s := r.Stats(); s.BadSignature != 4 {
		t.Fatalf("a secret out of grace still verifies: %+v", s)
	}
	checks := map[Check]int{}
	for _, q := range all(r) {
		checks[q.Signature]++
	}
	if checks[Valid] != 3 || checks[Invalid] != 4 {
		t.Fatalf("%v", checks)
	}
}

func TestResetHangAndDelay(t *testing.T) {
	r := start(t, Config{Paths: map[string]Path{
		"/reset": {Behaviour: Reset()}, "/hang": {Behaviour: Hang()}, "/slow": {Behaviour: Slow(50 * time.Millisecond)},
	}})
	if _, err := (delivery{id: "evt_1"}).post(t.Context(), r.URL()+"/reset"); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("reset: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var timeout net.Error
	if _, err := (delivery{id: "evt_2"}).post(ctx, r.URL()+"/hang"); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatalf("hang: %v", err)
	}
	began := time.Now()
	if got := status(t, r.URL()+"/slow", delivery{id: "evt_3"}); got != 200 || time.Since(began) < 50*time.Millisecond {
		t.Fatalf("slow: %d after %s", got, time.Since(began))
	}
	for _, q := range all(r) {
		if q.Path != "/slow" && (q.Status != 0 || q.OK()) {
			t.Fatalf("unanswered request has a status: %+v", q)
		}
	}
}

func TestCloseCutsWhatHangs(t *testing.T) {
	r := start(t, Config{Paths: map[string]Path{"/hang": {Behaviour: Hang()}, "/slow": {Behaviour: Slow(time.Hour)}}})
	var wg sync.WaitGroup
	for _, p := range []string{"/hang", "/slow"} {
		wg.Go(func() { _, _ = delivery{id: "evt_1"}.post(t.Context(), r.URL()+p) })
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := r.Wait(ctx, func(s Stats) bool { return s.Requests == 2 }); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if err := r.Close(); err != nil {
		t.Fatalf("second close: %v", err)
	}
}

func TestRateLimitedFallsOver(t *testing.T) {
	s := newScript(RateLimited(10, "1", time.Second))
	now := time.Unix(1000, 0)
	if s.pick("e", 0, now).Status != 0 {
		t.Fatal("refused below the rate")
	}
	if a := s.pick("e", 0, now); a.Status != 429 || a.RetryAfter != "1" {
		t.Fatalf("above the rate: %+v", a)
	}
	if s.pick("e", 0, now.Add(900*time.Millisecond)).Status != 429 {
		t.Fatal("recovered too early")
	}
	if s.pick("e", 0, now.Add(1100*time.Millisecond)).Status != 0 {
		t.Fatal("did not recover")
	}
}

func TestFailShareRepeats(t *testing.T) {
	s := newScript(FailShare(0.25, 500))
	failed := 0
	for i := range 10_000 {
		id := "evt_" + strconv.Itoa(i)
		a := s.pick(id, 1, time.Time{})
		if a != s.pick(id, 1, time.Time{}) {
			t.Fatal("the same request is treated in two ways")
		}
		if a.Status == 500 {
			failed++
		}
	}
	if failed < 2300 || failed > 2700 {
		t.Fatalf("%d of 10000 failed, want a quarter", failed)
	}
}

// TestOrderPerMessage posts from many connections and checks that a message's records are
// in the order in which its requests were made.
func TestOrderPerMessage(t *testing.T) {
	r := start(t, Config{Paths: map[string]Path{"/a": {}}})
	const messages, each = 8, 40
	var wg sync.WaitGroup
	for m := range messages {
		wg.Go(func() {
			for i := range each {
				d := delivery{id: fmt.Sprintf("evt_%d_%d", m, i), attempt: 1, seq: i, body: body("m" + strconv.Itoa(m))}
				if _, err := d.post(t.Context(), r.URL()+"/a"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	next := map[string]uint64{}
	for _, q := range all(r) {
		if q.Sequence != next[q.MessageID] {
			t.Fatalf("%s: sequence %d, want %d", q.MessageID, q.Sequence, next[q.MessageID])
		}
		next[q.MessageID]++
	}
	if len(next) != messages {
		t.Fatalf("%d messages", len(next))
	}
}

func TestStartRefuses(t *testing.T) {
	for name, cfg := range map[string]Config{
		"public address": {Addr: "0.0.0.0:0"},
		"no port":        {Addr: "127.0.0.1"},
		"bad path":       {Paths: map[string]Path{"a": {}}},
		"bad secret":     {Paths: map[string]Path{"/a": {Secrets: []string{"secret"}}}},
	} {
		if r, err := Start(cfg); err == nil {
			_ = r.Close()
			t.Errorf("%s: accepted", name)
		}
	}
	r := start(t, Config{})
	if r.SetBehaviour("/x", Healthy()) == nil || r.SetSecrets("/x") == nil {
		t.Error("changed an unknown path")
	}
}

// FuzzMessageID: never panics, returns a part of the body without a quote.
func FuzzMessageID(f *testing.F) {
	f.Add([]byte(body("m")))
	f.Add([]byte(`{"message_id":"`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if id := MessageID(b); bytes.IndexByte(id, '"') >= 0 || !bytes.Contains(b, id) {
			t.Fatalf("%q from %q", id, b)
		}
	})
}

// BenchmarkReceive is the cost of one checked request over loopback, both sides.
func BenchmarkReceive(b *testing.B) {
	secret := signature.NewSecret()
	r := start(b, Config{Paths: map[string]Path{"/a": {Secrets: []string{secret}}}})
	k, err := signature.ParseSecret(secret)
	if err != nil {
		b.Fatal(err)
	}
	client := &fasthttp.HostClient{Addr: r.ln.Addr().String(), MaxConns: 64}
	ts := time.Now().Unix()
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
		req.Header.SetMethod("POST")
		req.SetRequestURI(r.URL() + "/a")
		req.Header.SetContentType("application/json")
		req.Header.Set(signature.HeaderID, "evt_u01K0H3Z8QXJ3F4T5V6W7X8Y9ZA")
		req.Header.Set(signature.HeaderTimestamp, strconv.FormatInt(ts, 10))
		req.Header.Set("Webhook-Attempt", "1")
		req.Header.Set("Webhook-Sequence", "1")
		text := []byte(body("m1"))
		req.Header.SetBytesV(signature.HeaderSignature, signature.AppendSign(nil, []signature.Key{k}, "evt_u01K0H3Z8QXJ3F4T5V6W7X8Y9ZA", ts, text))
		req.SetBody(text)
		for pb.Next() {
			if err := client.Do(req, res); err != nil || res.StatusCode() != 200 {
				b.Errorf("status %d: %v", res.StatusCode(), err)
				return
			}
		}
	})
	if s := r.Stats(); s.BadSignature+s.BadHeaders > 0 {
		b.Fatalf("%+v", s)
	}
}

func TestCloseDoesNotWaitForAnUnusedConnection(t *testing.T) {
	r, err := Start(Config{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", r.ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := waitUntil(t, func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.conns) == 1 }); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := r.Close(); err != nil || time.Since(began) > 4*time.Second {
		t.Fatalf("%v after %s", err, time.Since(began))
	}
}

func waitUntil(t *testing.T, cond func() bool) error {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			return errors.New("did not happen in 10 s")
		}
	}
	return nil
}
