package ingest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/valyala/fasthttp"
)

// body512 is a body of 512 bytes.
func body512(n int) string {
	head := fmt.Sprintf(`{"event":"message.delivered","message_id":"01HZY8Q3M6-%08d","status":"delivered","occurred_at":"2026-07-19T09:15:25.123Z","text":"`, n)
	return head + strings.Repeat("lorem ipsum ", 40)[:512-len(head)-2] + `"}`
}

// hotPaths are requests on the paths that must be cheap, each without network and broker: the
// promise is called at once.
func hotPaths(t testing.TB) map[string]struct {
	events int
	serve  func()
} {
	t.Helper()
	s, err := New(testConfig(), Deps{Prefix: "x."})
	if err != nil {
		t.Fatal(err)
	}
	s.producer.Store(newProducer(fakeKafka{func(r *kgo.Record, promise func(*kgo.Record, error)) { promise(r, nil) }}, "events", s.cfg, s.metrics, s.log))
	request := func(path, contentType, body string, headers ...string) func() {
		var ctx fasthttp.RequestCtx
		ctx.Request.Header.SetMethod("POST")
		ctx.Request.SetRequestURI(path)
		ctx.Request.Header.SetHost("h")
		ctx.Request.Header.SetContentType(contentType)
		ctx.Request.Header.Set("Authorization", "Bearer secret")
		for i := 0; i < len(headers); i += 2 {
			ctx.Request.Header.Set(headers[i], headers[i+1])
		}
		return func() {
			ctx.Response.Reset()
			ctx.Request.SetBodyString(body) // a large one is taken from the request
			s.serve(&ctx)
			if ctx.Response.StatusCode() != fasthttp.StatusAccepted {
				t.Fatalf("%s", ctx.Response.Body())
			}
		}
	}
	lines := make([]string, 500)
	for i := range lines {
		lines[i] = body512(i)
	}
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	type path = struct {
		events int
		serve  func()
	}
	return map[string]path{
		"single": {1, request(PathEvents, "application/json", body512(0))},
		"keyed":  {1, request(PathEvents, "application/json; charset=utf-8", body512(0), "Idempotency-Key", "order-4711", "traceparent", trace)},
		"batch":  {len(lines), request(PathBatch, "application/x-ndjson", strings.Join(lines, "\n"))},
		"array":  {len(lines), request(PathBatch, "application/json", "["+strings.Join(lines, ",")+"]")},
		"keyed batch": {len(lines), request(PathBatch, "application/x-ndjson", strings.Join(lines, "\n"),
			"Idempotency-Key", "order-4711", "traceparent", trace)},
	}
}

// The budget of the handler: two allocations for a single event, its body with all that is
// written for it and its record; a batch shares them.
func TestHotPathsStayWithinTheirAllocations(t *testing.T) {
	for name, path := range hotPaths(t) {
		budget := 2.0
		if path.events > 1 {
			budget = 0.1
		}
		// The median of single runs: under -race the pools lose some of what they are given.
		runs := make([]float64, 51)
		for i := range runs {
			runs[i] = testing.AllocsPerRun(1, path.serve)
		}
		slices.Sort(runs)
		if got := runs[len(runs)/2] / float64(path.events); got > budget {
			t.Errorf("%s: %.3f allocations for an event, the budget is %g", name, got, budget)
		}
	}
}

// BenchmarkHandler is the handler without network and broker: headers, key, body, fields,
// record, waiter, answer.
func BenchmarkHandler(b *testing.B) {
	for name, path := range hotPaths(b) {
		b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				path.serve()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*path.events), "ns/event")
		})
	}
}

// BenchmarkPublish is one publish through the listener into the broker of the tests.
func BenchmarkPublish(b *testing.B) {
	r, _ := start(b)
	client := &fasthttp.HostClient{Addr: r.addr, MaxConns: 512}
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
		req.Header.SetMethod("POST")
		req.SetRequestURI("http://" + r.addr + PathEvents)
		req.Header.SetContentType("application/json")
		req.Header.Set("Authorization", "Bearer secret")
		req.SetBodyString(goodBody)
		for pb.Next() {
			if err := client.Do(req, resp); err != nil || resp.StatusCode() != 202 {
				b.Errorf("%v: %s", err, resp.Body())
				return
			}
		}
	})
}
