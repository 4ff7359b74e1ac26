package dispatcher

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/endpoint"
)

// Keys and texts that must never be told.
const (
	wireSecret    = "whsec_AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
	wireOldSecret = "whsec_diwI/BehzF8A0kj4tQ8vL00X/yk0rDHmTerLP1uz8uw="
	wirePath      = "/hooks/canary-path"
	wireQuery     = "token=canary-query"
	wireHeader    = "canary-header"
)

var wireLoopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func newWireDeliverer(t testing.TB, change func(*SendConfig)) *Deliverer {
	t.Helper()
	cfg := SendConfig{InFlight: 16, EgressAllow: wireLoopback, EgressHTTP: true, UserAgent: "hookline/test"}
	if change != nil {
		change(&cfg)
	}
	d := NewDeliverer(cfg)
	t.Cleanup(d.Close)
	return d
}

// wireEndpoint is an endpoint at base (scheme, host and port).
func wireEndpoint(base string) *endpoint.Endpoint {
	e := endpoint.Default()
	e.ID, e.Tenant, e.URL = "ep", "dev", base+wirePath+"?"+wireQuery
	e.Headers = map[string]string{"X-Env": wireHeader}
	e.Keys = []endpoint.Key{{Secret: wireSecret}}
	return &e
}

func wireRequest(e *endpoint.Endpoint) *Request {
	return &Request{
		Endpoint: e, EventID: "evt_u01HZY8Q3M6", Attempt: 1, Seq: 1 << 40,
		ContentType: "application/json", Body: []byte(`{"zebra":9007199254740993,"alpha":1.0, "t":"\u00e9"}`),
		Timeout: 5 * time.Second,
	}
}

// wireRecorder keeps what a receiver got.
type wireRecorder struct {
	mu       sync.Mutex
	requests []*http.Request
	bodies   [][]byte
	answer   http.HandlerFunc
}

func (rec *wireRecorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	rec.mu.Lock()
	rec.requests, rec.bodies = append(rec.requests, r), append(rec.bodies, body)
	answer := rec.answer
	rec.mu.Unlock()
	if answer != nil {
		answer(w, r)
	}
}

func (rec *wireRecorder) count() int {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return len(rec.requests)
}

func newWireServer(t testing.TB, answer http.HandlerFunc) (*wireRecorder, string) {
	t.Helper()
	rec := &wireRecorder{answer: answer}
	srv := httptest.NewServer(rec)
	t.Cleanup(srv.Close)
	return rec, srv.URL
}

// newRawServer answers each connection by hand; handle gets the request already read.
func newRawServer(t testing.TB, handle func(conn net.Conn, r *bufio.Reader)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	done := make(chan struct{})
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				stop := make(chan struct{})
				go func() {
					select {
					case <-done:
					case <-stop:
					}
					_ = conn.Close()
				}()
				handle(conn, bufio.NewReader(conn))
				close(stop)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		close(done)
		conns.Wait()
	})
	return "http://" + l.Addr().String()
}

func readWhole(r *bufio.Reader) (*http.Request, error) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, req.Body)
	return req, err
}

// checkTellsNothing fails when a result shows what it must not, or is out of form.
func checkTellsNothing(t *testing.T, r Result) {
	t.Helper()
	text := fmt.Sprintf("%s %v %+v", r.ErrorText, r.Err, r.Err)
	for _, hidden := range []string{"canary", "hooks", "token", "whsec", wireSecret[6:]} {
		if strings.Contains(text, hidden) {
			t.Errorf("the error shows %q: %s", hidden, text)
		}
	}
	if len(r.ErrorText) > maxErrorText {
		t.Errorf("error text of %d bytes", len(r.ErrorText))
	}
	if r.Success() != (r.ErrorClass == "") || r.Success() != (r.ErrorText == "") {
		t.Errorf("status %d with class %q and text %q", r.Status, r.ErrorClass, r.ErrorText)
	}
	if r.ErrorClass != "" && (!attempt.KnownClass(r.ErrorClass) || !strings.HasPrefix(r.ErrorText, r.ErrorClass+": ")) {
		t.Errorf("class %q, text %q", r.ErrorClass, r.ErrorText)
	}
	if r.Anomaly != "" && (!attempt.KnownClass(r.Anomaly) || !r.Success()) {
		t.Errorf("anomaly %q with status %d", r.Anomaly, r.Status)
	}
	if (r.Err != nil) != (r.Status == 0) {
		t.Errorf("status %d with error %v", r.Status, r.Err)
	}
}

func TestDeliveryCarriesTheHeadersOfTheContract(t *testing.T) {
	rec, base := newWireServer(t, nil)
	d := newWireDeliverer(t, nil)
	e := wireEndpoint(base)
	req := wireRequest(e)
	req.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	before := time.Now().Unix()
	r := d.Send(context.Background(), req)
	if r.Status != 200 || r.ErrorClass != "" || r.HTTPVersion != "1.1" || r.RequestBytes != uint32(len(req.Body)) {
		t.Fatalf("result = %+v", r)
	}
	got := rec.requests[0]
	if got.Method != http.MethodPost || got.RequestURI != wirePath+"?"+wireQuery || "http://"+got.Host != base {
		t.Errorf("request line: %s %s, host %s", got.Method, got.RequestURI, got.Host)
	}
	if !bytes.Equal(rec.bodies[0], req.Body) {
		t.Errorf("body = %q", rec.bodies[0])
	}
	sent, err := strconv.ParseInt(got.Header.Get("Webhook-Timestamp"), 10, 64)
	if err != nil || sent < before || sent > time.Now().Unix() {
		t.Errorf("timestamp %d, %v", sent, err)
	}
	want := http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"hookline/test"}, "Webhook-Id": {req.EventID},
		"Webhook-Attempt": {"1"}, "Webhook-Sequence": {"1099511627776"}, "Traceparent": {req.Traceparent}, "X-Env": {wireHeader},
		"Content-Length":    {strconv.Itoa(len(req.Body))},
		"Webhook-Timestamp": got.Header["Webhook-Timestamp"], "Webhook-Signature": got.Header["Webhook-Signature"],
	}
	if !reflect.DeepEqual(got.Header, want) {
		t.Errorf("headers\n%v\nwant\n%v", got.Header, want)
	}
	verifyDelivery(t, rec, 0, wireSecret)
}

// verifyDelivery checks delivery i with the official library.
func verifyDelivery(t *testing.T, rec *wireRecorder, i int, secret string) {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.Verify(rec.bodies[i], rec.requests[i].Header); err != nil {
		t.Errorf("official library: %v", err)
	}
}

func TestOfficialLibraryVerifiesEveryKeyInGrace(t *testing.T) {
	rec, base := newWireServer(t, nil)
	d := newWireDeliverer(t, nil)
	e := wireEndpoint(base)
	now := time.Now()
	e.Rotate(wireOldSecret, 0, now.Add(-3*time.Hour))
	e.Rotate(wireSecret, time.Hour, now)
	third := "whsec_R5ph1TcKA1GtSYqPMk4PmtUL+vvkwETqScvjmB6MtXM="
	if r := d.Send(context.Background(), wireRequest(e)); !r.Success() {
		t.Fatalf("result = %+v", r)
	}
	verifyDelivery(t, rec, 0, wireSecret)
	verifyDelivery(t, rec, 0, wireOldSecret)
	other, err := standardwebhooks.NewWebhook(third)
	if err != nil {
		t.Fatal(err)
	}
	if other.Verify(rec.bodies[0], rec.requests[0].Header) == nil {
		t.Error("a third key verifies")
	}
	tokens := strings.Split(rec.requests[0].Header.Get("Webhook-Signature"), " ")
	if len(tokens) != 2 || len(rec.requests[0].Header["Webhook-Signature"]) != 1 {
		t.Fatalf("signature header = %q", tokens)
	}
	d.wall = func() time.Time { return now.Add(2 * time.Hour) }
	d.calls.New = func() any { return newCall(d.wall) }
	if r := d.Send(context.Background(), wireRequest(e)); !r.Success() {
		t.Fatalf("result = %+v", r)
	}
	if after := rec.requests[1].Header.Get("Webhook-Signature"); strings.Contains(after, " ") {
		t.Errorf("the old key signs after its grace: %q", after)
	}
}

func TestSignatureIsMadeAfterTheConnection(t *testing.T) {
	rec, base := newWireServer(t, nil)
	var clock atomic.Int64
	clock.Store(time.Now().Unix())
	slow := resolverFunc(func(ctx context.Context, host string) ([]netip.Addr, error) {
		clock.Add(240) // the connection takes its time
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	})
	d := newWireDeliverer(t, func(c *SendConfig) { c.Resolver = slow })
	d.wall = func() time.Time { return time.Unix(clock.Load(), 0) }
	_, port, _ := strings.Cut(strings.TrimPrefix(base, "http://"), ":")
	e := wireEndpoint("http://app.example:" + port)
	for n := 1; n <= 2; n++ {
		req := wireRequest(e)
		req.Attempt = n
		if r := d.Send(context.Background(), req); !r.Success() {
			t.Fatalf("result = %+v", r)
		}
		clock.Add(5)
	}
	first, second := rec.requests[0].Header, rec.requests[1].Header
	if got, want := first.Get("Webhook-Timestamp"), strconv.FormatInt(clock.Load()-10, 10); got != want {
		t.Errorf("timestamp %s, want %s: the time after the dial", got, want)
	}
	if first.Get("Webhook-Id") != second.Get("Webhook-Id") || first.Get("Webhook-Timestamp") == second.Get("Webhook-Timestamp") ||
		first.Get("Webhook-Signature") == second.Get("Webhook-Signature") || second.Get("Webhook-Attempt") != "2" {
		t.Errorf("attempts do not differ as they should:\n%v\n%v", first, second)
	}
}

func TestHeadersOfARecordCannotSplitRequests(t *testing.T) {
	rec, base := newWireServer(t, nil)
	d := newWireDeliverer(t, nil)
	e := wireEndpoint(base)
	// Such an endpoint is refused at registration; a record may be written by other hands.
	e.Headers = map[string]string{
		"X-Good": "1", "X-Bad": "a\r\nX-Evil: 1", "X Bad": "1", "Idempotency-Key": "k", "Webhook-Id": "other", "Host": "evil",
		"Content-Length": "1", "Transfer-Encoding": "chunked",
	}
	req := wireRequest(e)
	req.ContentType, req.Traceparent = "text/plain\r\nX-Evil: 1", "00\r\nX-Evil: 1"
	if r := d.Send(context.Background(), req); !r.Success() {
		t.Fatalf("result = %+v", r)
	}
	h := rec.requests[0].Header
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	want := []string{"Content-Length", "Content-Type", "User-Agent", "Webhook-Attempt", "Webhook-Id", "Webhook-Sequence",
		"Webhook-Signature", "Webhook-Timestamp", "X-Good"}
	if !slices.Equal(names, want) || h.Get("Content-Type") != unreadableType || h.Get("Webhook-Id") != req.EventID {
		t.Errorf("headers = %v", h)
	}
}

func TestEvery2xxIsADelivery(t *testing.T) {
	var status atomic.Int64
	rec, base := newWireServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) })
	d := newWireDeliverer(t, nil)
	e := wireEndpoint(base)
	for i, s := range []int{200, 201, 202, 203, 204, 205, 206, 226, 299} {
		status.Store(int64(s))
		r := d.Send(context.Background(), wireRequest(e))
		checkTellsNothing(t, r)
		if !r.Success() || r.Status != s || r.Anomaly != "" || rec.count() != i+1 {
			t.Errorf("%d: %+v after %d requests", s, r, rec.count())
		}
	}
}

func TestRedirectsAreFailuresAndNeverFollowed(t *testing.T) {
	elsewhere, target := newWireServer(t, nil)
	var status atomic.Int64
	rec, base := newWireServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", target+"/stolen")
		w.WriteHeader(int(status.Load()))
	})
	d := newWireDeliverer(t, nil)
	e := wireEndpoint(base)
	for i, s := range []int{300, 301, 302, 303, 304, 305, 307, 308} {
		status.Store(int64(s))
		r := d.Send(context.Background(), wireRequest(e))
		checkTellsNothing(t, r)
		if r.Status != s || r.ErrorClass != attempt.HTTP3xx || rec.count() != i+1 {
			t.Errorf("%d: %+v after %d requests", s, r, rec.count())
		}
	}
	if elsewhere.count() != 0 {
		t.Errorf("the redirect was followed %d times", elsewhere.count())
	}
}

func TestRetryAfterOfAFailureReachesTheResult(t *testing.T) {
	_, base := newWireServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Retry-After"] = []string{"30", "120", "soon"}
		w.WriteHeader(http.StatusTooManyRequests)
	})
	d := newWireDeliverer(t, nil)
	r := d.Send(context.Background(), wireRequest(wireEndpoint(base)))
	if r.RetryAfter != 2*time.Minute || r.ErrorClass != attempt.HTTP429 {
		t.Errorf("result = %+v", r)
	}
}

func TestEndpointThatCannotBeUsedSendsNothing(t *testing.T) {
	rec, base := newWireServer(t, nil)
	d := newWireDeliverer(t, nil)
	past := time.Now().Add(-time.Minute)
	for name, change := range map[string]func(*endpoint.Endpoint){
		"fault":      func(e *endpoint.Endpoint) { e.Fault = endpoint.ErrUnknownSealKey },
		"no key":     func(e *endpoint.Endpoint) { e.Keys = nil },
		"bad key":    func(e *endpoint.Endpoint) { e.Keys = []endpoint.Key{{Secret: "whsec_x"}} },
		"ended keys": func(e *endpoint.Endpoint) { e.Keys[0].NotAfter = past },
		"bad url":    func(e *endpoint.Endpoint) { e.URL = "http://%zz/canary-path" },
		"no url":     func(e *endpoint.Endpoint) { e.URL = "" },
	} {
		e := wireEndpoint(base)
		change(e)
		r := d.Send(context.Background(), wireRequest(e))
		checkTellsNothing(t, r)
		if r.ErrorClass != attempt.Internal || !r.Ours() {
			t.Errorf("%s: %+v", name, r)
		}
	}
	off := newWireDeliverer(t, func(c *SendConfig) { c.EgressHTTP = false })
	if r := off.Send(context.Background(), wireRequest(wireEndpoint(base))); r.ErrorClass != attempt.BlockedSSRF {
		t.Errorf("http switched off: %+v", r)
	}
	if rec.count() != 0 {
		t.Errorf("%d requests were sent", rec.count())
	}
}

func TestNewVersionOfAnEndpointIsUsedAtOnce(t *testing.T) {
	rec, base := newWireServer(t, nil)
	d := newWireDeliverer(t, nil)
	old := wireEndpoint(base)
	next := old.Clone()
	next.Headers, next.Version = map[string]string{"X-Env": "two"}, 7
	for _, e := range []*endpoint.Endpoint{old, &next, old, &next} {
		if r := d.Send(context.Background(), wireRequest(e)); !r.Success() {
			t.Fatalf("result = %+v", r)
		}
	}
	for i, want := range []string{wireHeader, "two", wireHeader, "two"} {
		if got := rec.requests[i].Header.Get("X-Env"); got != want {
			t.Errorf("delivery %d has %q, want %q", i, got, want)
		}
	}
	if d.targets.by["ep"].version != &next {
		t.Error("an older version took the place of a newer one")
	}
}

func TestOurStopIsNotTheEndpointsFault(t *testing.T) {
	got := make(chan struct{})
	base := newRawServer(t, func(_ net.Conn, r *bufio.Reader) {
		if _, err := readWhole(r); err == nil {
			close(got)
		}
		_, _ = r.ReadByte()
	})
	d := newWireDeliverer(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-got
		cancel()
	}()
	r := d.Send(ctx, wireRequest(wireEndpoint(base)))
	checkTellsNothing(t, r)
	if r.ErrorClass != attempt.Cancelled || !r.Ours() || r.Total >= 5*time.Second {
		t.Errorf("result = %+v", r)
	}
}

type resolverFunc func(ctx context.Context, host string) ([]netip.Addr, error)

func (f resolverFunc) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	return f(ctx, host)
}
