package dispatcher

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// TestCallsAreNeverMixed sends over pooled calls from many goroutines, to receivers that
// behave well and badly, and checks each request for parts of another one.
func TestCallsAreNeverMixed(t *testing.T) {
	verifier, err := standardwebhooks.NewWebhook(wireSecret)
	if err != nil {
		t.Fatal(err)
	}
	var checked atomic.Int64
	answer := func(w http.ResponseWriter, r *http.Request) {
		n := r.Header.Get("Webhook-Attempt")
		if strings.HasSuffix(n, "3") { // answers before it has read
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the sender gave up
		}
		want := fmt.Sprintf("%s %s %s %s", r.Header.Get("Webhook-Id"), n, r.Header.Get("Webhook-Sequence"), r.Header.Get("X-Env"))
		if got, _, _ := strings.Cut(string(body), "|"); got != want {
			t.Errorf("headers say %q, the body says %q", want, got)
		}
		if err := verifier.Verify(body, r.Header); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		checked.Add(1)
		switch {
		case strings.HasSuffix(n, "5"):
			panic(http.ErrAbortHandler)
		case strings.HasSuffix(n, "7"):
			<-r.Context().Done() // until the sender's deadline
		default:
			_, _ = io.WriteString(w, "ok")
		}
	}
	srv := httptest.NewServer(http.HandlerFunc(answer))
	defer srv.Close()
	d := newWireDeliverer(t, nil)
	var senders sync.WaitGroup
	for g := range 16 {
		senders.Go(func() {
			e := wireEndpoint(srv.URL)
			e.ID, e.Headers = fmt.Sprintf("ep%d", g), map[string]string{"X-Env": fmt.Sprintf("env%d", g)}
			for n := 1; n <= 40; n++ {
				req := wireRequest(e)
				req.EventID, req.Attempt, req.Seq = fmt.Sprintf("evt_%d_%d", g, n), n, uint64(g*1000+n)
				head := fmt.Sprintf("%s %d %d env%d|", req.EventID, n, req.Seq, g)
				req.Body = []byte(head + strings.Repeat("x", n*500))
				if n%10 == 7 {
					req.Timeout = 20 * time.Millisecond
				}
				checkTellsNothing(t, d.Send(context.Background(), req))
			}
		})
	}
	senders.Wait()
	if checked.Load() < 16*25 {
		t.Errorf("only %d deliveries were checked", checked.Load())
	}
}

// stubTransport answers without a network and behaves as an idle kept connection does.
type stubTransport struct{ status int }

func (s stubTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(r.Context())
	trace.GotConn(httptrace.GotConnInfo{Reused: true, WasIdle: true})
	defer trace.WroteRequest(httptrace.WroteRequestInfo{})
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	if err := r.Body.Close(); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: s.status, ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody, Request: r}, nil
}

func TestSendAllocatesLittle(t *testing.T) {
	d := newWireDeliverer(t, nil)
	d.pick = func(string, time.Time) http.RoundTripper { return stubTransport{200} }
	req := wireRequest(wireEndpoint("http://app.example"))
	ctx := context.Background()
	// Under the race detector sync.Pool forgets at random, which costs a call now and then.
	if n := testing.AllocsPerRun(500, func() { d.Send(ctx, req) }); n > 40 {
		t.Errorf("Send allocates %v times", n)
	}
}

func BenchmarkSend(b *testing.B) {
	for _, size := range []int{256, 4096} {
		b.Run(fmt.Sprintf("stub/%dB", size), func(b *testing.B) {
			d := newWireDeliverer(b, nil)
			d.pick = func(string, time.Time) http.RoundTripper { return stubTransport{200} }
			req := wireRequest(wireEndpoint("http://app.example"))
			req.Body = []byte(strings.Repeat("x", size))
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				if r := d.Send(ctx, req); !r.Success() {
					b.Fatalf("result = %+v", r)
				}
			}
		})
	}
	b.Run("loopback/256B", func(b *testing.B) {
		srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		defer srv.Close()
		d := newWireDeliverer(b, func(c *SendConfig) { c.InFlight = 256 })
		e := wireEndpoint(srv.URL)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			req := wireRequest(e)
			req.Body = []byte(strings.Repeat("x", 256))
			for pb.Next() {
				if r := d.Send(context.Background(), req); !r.Success() {
					b.Errorf("result = %+v", r)
				}
			}
		})
	})
}

func BenchmarkDecide(b *testing.B) {
	e := wireEndpoint("http://app.example")
	b.ReportAllocs()
	for b.Loop() {
		Decide(PolicyOf(e), State{Attempt: 3, First: outcomeNow}, Result{Status: 503}, outcomeNow, 0.5)
	}
}
