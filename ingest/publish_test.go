package ingest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/valyala/fasthttp"

	"github.com/hookline/hookline/ingest/event"
)

func TestPublishIsInTheLogByteForByte(t *testing.T) {
	r, b := start(t)
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, body := range []string{
		goodBody,
		" {\"zebra\":9007199254740993,\"alpha\":1.0,\"x\":1,\"x\":2,\r\n\t\"message_id\" : \"m-1\",\"event\":\"a\"} \n",
		`{"event":"a.b","message_id":"\"q\\\u0041","text":"<&> \ud83d\ude00 \u0000 \/","n":-0.0e-7}`,
		"{\"event\":\"a\",\"message_id\":\"emoji\",\"t\":\"\xf0\x9f\x98\x80 \xe2\x80\xa8\"}",
		padded(256 << 10),
	} {
		before := time.Now().UnixMilli()
		a := r.post(body, "traceparent", trace)
		if a.status != 202 || a.header.Get("Content-Type") != "application/json" {
			t.Fatalf("%.80q: %s", body, a)
		}
		rec := fetch(t, b, a.Partition, a.Offset)
		if string(rec.Value) != body {
			t.Errorf("value\n%.200q\nwant\n%.200q", rec.Value, body)
		}
		e, err := event.Decode(rec)
		if err != nil {
			t.Fatal(err)
		}
		fields, err := event.ParseBody([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if e.ID != a.ID || !event.IsRandomID(a.ID) || e.MessageID != a.MessageID || e.MessageID != fields.MessageID || e.Type != fields.Event {
			t.Errorf("event %+v, answer %s", e, a)
		}
		if e.Tenant != "dev" || e.Source != "/hookline/dev" || e.Origin != "" || e.Schema != "1" || e.Sequence != -1 || e.ContentType != "application/json" || e.Traceparent != trace {
			t.Errorf("event %+v", e)
		}
		if now := time.Now().UnixMilli(); e.AcceptedMs < before || e.AcceptedMs > now {
			t.Errorf("accepted at %d, not in %d to %d", e.AcceptedMs, before, now)
		}
		if want := event.Partition(e.MessageID, 4); want != a.Partition {
			t.Errorf("partition %d, want %d", a.Partition, want)
		}
	}
}

func TestHeadersAreCarried(t *testing.T) {
	r, b := start(t)
	a := r.do("POST", PathEvents, `{"event":"a","message_id":"m","occurred_at":"2026-07-19T11:15:25.5+02:00","sequence":0,"schema_version":"3"}`,
		"Authorization", "", "Authorization", "bearer  other", "Content-Type", "", "Content-Type", "application/json; Charset=UTF-8", "traceparent", "nonsense")
	if a.status != 202 {
		t.Fatal(a)
	}
	e, err := event.Decode(fetch(t, b, a.Partition, a.Offset))
	if err != nil {
		t.Fatal(err)
	}
	if e.Tenant != "acme" || e.Source != "/hookline/acme" || e.Sequence != 0 || e.Schema != "3" || e.Traceparent != "" ||
		e.ContentType != "application/json; Charset=UTF-8" || !e.OccurredAt.Equal(time.Date(2026, 7, 19, 9, 15, 25, 5e8, time.UTC)) {
		t.Errorf("event %+v", e)
	}
}

func TestEqualIdempotencyKeysGiveEqualIDs(t *testing.T) {
	r, _ := start(t)
	first := r.post(goodBody, "Idempotency-Key", "k 1~")
	again := r.post(goodBody, "Idempotency-Key", "k 1~")
	if first.status != 202 || again.status != 202 || first.ID != again.ID || first.Partition != again.Partition || event.IsRandomID(first.ID) {
		t.Errorf("%s\n%s", first, again)
	}
	if want := event.DeriveID("dev", "message.delivered", "01HZY8Q3M6", "k 1~"); first.ID != want {
		t.Errorf("id %s, want %s", first.ID, want)
	}
	for name, other := range map[string]answer{
		"key":    r.post(goodBody, "Idempotency-Key", "k 2~"),
		"type":   r.post(strings.Replace(goodBody, "delivered", "read", 1), "Idempotency-Key", "k 1~"),
		"tenant": r.post(goodBody, "Idempotency-Key", "k 1~", "Authorization", "", "Authorization", "Bearer other"),
		"none":   r.post(goodBody),
	} {
		if other.status != 202 || other.ID == first.ID {
			t.Errorf("another %s: %s", name, other)
		}
	}
}

// padded is a good body of n bytes.
func padded(n int) string {
	const head, tail = `{"event":"a","message_id":"m","t":"`, `"}`
	return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
}

func TestErrorTable(t *testing.T) {
	r, _ := start(t, func(c *Config) { c.MaxBody = 1000 })
	type row struct {
		name          string
		a             answer
		status        int
		code          string
		field, detail string
	}
	rows := []row{
		{"empty", r.post(""), 400, "empty_body", "", "empty"},
		{"blank", r.post(" \n"), 400, "empty_body", "", "empty"},
		{"not json", r.post("x"), 400, "invalid_json", "", "not a JSON object"},
		{"trailing", r.post(goodBody + "{}"), 400, "invalid_json", "", "follows"},
		{"utf-8", r.post("{\"event\":\"a\",\"message_id\":\"m\",\"t\":\"\xff\"}"), 400, "invalid_json", "", "UTF-8"},
		{"bom", r.post("\xef\xbb\xbf" + goodBody), 400, "invalid_json", "", "byte order mark"},
		{"deep", r.post(`{"event":"a","message_id":"m","t":` + strings.Repeat("[", 400) + strings.Repeat("]", 400) + `}`), 400, "invalid_json", "", "deeper"},
		{"no event", r.post(`{"message_id":"m"}`), 400, "missing_field", "event", "missing"},
		{"no message id", r.post(`{"event":"a"}`), 400, "missing_field", "message_id", "missing"},
		{"bad event", r.post(`{"event":"a b","message_id":"m"}`), 400, "invalid_field", "event", "dot-separated"},
		{"twice", r.post(`{"event":"a","message_id":"m","EVENT":"b"}`), 400, "invalid_field", "event", "twice"},
		{"bad time", r.post(`{"event":"a","message_id":"m","occurred_at":"now"}`), 400, "invalid_field", "occurred_at", "RFC 3339"},
		{"bad sequence", r.post(`{"event":"a","message_id":"m","sequence":-1}`), 400, "invalid_field", "sequence", "whole number"},
		{"key twice", r.post(goodBody, "Idempotency-Key", "a", "Idempotency-Key", "a"), 400, "invalid_field", "Idempotency-Key", "once"},
		{"key long", r.post(goodBody, "Idempotency-Key", strings.Repeat("k", 256)), 400, "invalid_field", "Idempotency-Key", "255"},
		{"key not ascii", r.post(goodBody, "Idempotency-Key", "k\u00e9"), 400, "invalid_field", "Idempotency-Key", "ASCII"},
		{"not gzip", r.post(goodBody, "Content-Encoding", "gzip"), 400, "invalid_encoding", "Content-Encoding", "gzip"},
		{"not zstd", r.post(goodBody, "Content-Encoding", "zstd"), 400, "invalid_encoding", "Content-Encoding", "zstd"},
		{"no key", r.post(goodBody, "Authorization", ""), 401, "unauthenticated", "", "Bearer"},
		{"wrong key", r.post(goodBody, "Authorization", "", "Authorization", "Bearer secreu"), 401, "unauthenticated", "", "Bearer"},
		{"basic", r.post(goodBody, "Authorization", "", "Authorization", "Basic secret"), 401, "unauthenticated", "", "Bearer"},
		{"not ascii key", r.post(goodBody, "Authorization", "", "Authorization", "Bearer secr\u00e9t"), 401, "unauthenticated", "", "Bearer"},
		{"two keys", r.post(goodBody, "Authorization", "Bearer other"), 401, "unauthenticated", "", "once"},
		{"path", r.do("POST", "/v1/event", goodBody), 404, "not_found", "", "exactly"},
		{"slash", r.do("POST", "/v1/events/", goodBody), 404, "not_found", "", "exactly"},
		{"escaped path", r.do("POST", "/v1/%65vents", goodBody), 404, "not_found", "", "exactly"},
		{"root", r.do("GET", "/", ""), 404, "not_found", "", "exactly"},
		{"get", r.do("GET", PathEvents, ""), 405, "method_not_allowed", "", "POST"},
		{"unknown method", r.do("BREW", PathEvents, ""), 405, "method_not_allowed", "", "POST"},
		{"post health", r.do("POST", "/healthz", ""), 405, "method_not_allowed", "", "GET, HEAD"},
		{"over", r.post(padded(1001)), 413, "too_large", "", "1000 bytes"},
		{"far over", r.post(padded(900_000)), 413, "too_large", "", "1000 bytes"},
		{"form", r.post(goodBody, "Content-Type", "", "Content-Type", "application/x-www-form-urlencoded"), 415, "unsupported_media_type", "Content-Type", "application/json"},
		{"no type", r.post(goodBody, "Content-Type", ""), 415, "unsupported_media_type", "Content-Type", "application/json"},
		{"latin", r.post(goodBody, "Content-Type", "", "Content-Type", "application/json; charset=iso-8859-1"), 415, "unsupported_media_type", "Content-Type", "UTF-8"},
		{"br", r.post(goodBody, "Content-Encoding", "br"), 415, "unsupported_media_type", "Content-Encoding", "gzip"},
		{"two encodings", r.post(goodBody, "Content-Encoding", "gzip, gzip"), 415, "unsupported_media_type", "Content-Encoding", "gzip"},
	}
	for _, row := range rows {
		a := row.a
		if a.status != row.status || a.Code != row.code || a.Field != row.field || !strings.Contains(a.Detail, row.detail) {
			t.Errorf("%s: %s", row.name, a)
		}
		if a.header.Get("Content-Type") != "application/problem+json" || a.Status != a.status || a.Type != "about:blank" || a.Title != http.StatusText(a.status) {
			t.Errorf("%s is not a problem: %s", row.name, a)
		}
		if name := map[int]string{401: "WWW-Authenticate", 405: "Allow"}[a.status]; name != "" && a.header.Get(name) == "" {
			t.Errorf("%s: no %s", row.name, name)
		}
		documented(t, PathEvents, a)
	}
	if a := r.do("GET", PathEvents, ""); a.header.Get("Allow") != "POST" {
		t.Errorf("Allow is %q", a.header.Get("Allow"))
	}
	if a := r.post(padded(1000)); a.status != 202 {
		t.Errorf("a body of exactly the limit: %s", a)
	}
	if got := r.metric("hookline_ingest_requests_total", "code", "unauthenticated"); got != 5 {
		t.Errorf("%v requests counted as unauthenticated", got)
	}
}

func TestHealthAndMetrics(t *testing.T) {
	r, _ := start(t)
	r.post(goodBody)
	for path, part := range map[string]string{"/healthz": "ok", "/readyz": "ready", "/metrics": `hookline_ingest_requests_total{code="accepted"} 1`, "/openapi.json": `"openapi": "3.1.0"`} {
		if a := r.do("GET", path, "", "Authorization", ""); a.status != 200 || !bytes.Contains(a.body, []byte(part)) {
			t.Errorf("%s: %s", path, a)
		}
		if a := r.do("HEAD", path, "", "Authorization", ""); a.status != 200 || len(a.body) != 0 {
			t.Errorf("HEAD %s: %s", path, a)
		}
	}
}

func TestKeyGivenAsHash(t *testing.T) {
	sum := sha256.Sum256([]byte("hashed"))
	r, _ := start(t, func(c *Config) { c.APIKeys = []string{"dev:sha256=" + strings.ToUpper(hex.EncodeToString(sum[:]))} })
	if a := r.post(goodBody, "Authorization", "", "Authorization", "Bearer hashed"); a.status != 202 {
		t.Error(a)
	}
	if a := r.post(goodBody, "Authorization", "", "Authorization", "Bearer sha256="+hex.EncodeToString(sum[:])); a.status != 401 {
		t.Errorf("the hash itself is a key: %s", a)
	}
}

// Anybody may ask for the metrics, so asking must not cost what gathering costs.
func TestMetricsAreGatheredOnceASecond(t *testing.T) {
	t.Parallel()
	var gathered atomic.Int32
	reg := prometheus.NewRegistry()
	s, err := New(testConfig(), Deps{Metrics: reg, Gatherer: prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		gathered.Add(1)
		return reg.Gather()
	})})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			ctx := &fasthttp.RequestCtx{}
			ctx.Request.SetRequestURI("/metrics")
			if s.serve(ctx); ctx.Response.StatusCode() != 200 || !bytes.Contains(ctx.Response.Body(), []byte("hookline_ingest_requests_total")) {
				t.Errorf("%d %s", ctx.Response.StatusCode(), ctx.Response.Body())
			}
		})
	}
	wg.Wait()
	if n, most := gathered.Load(), int32(1+time.Since(begin)/scrapeEvery); n > most {
		t.Errorf("gathered %d times for 50 requests, want at most %d", n, most)
	}
}
