package ingest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/valyala/fasthttp"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event"
)

func seeds(addr string) []kgo.Opt { return []kgo.Opt{kgo.SeedBrokers(addr)} }

func TestRunRefusesATopicThatTakesLess(t *testing.T) {
	b := brokertest.Start(t)
	topic := event.EventsTopic(1)
	topic.Configs["max.message.bytes"] = "100000"
	b.CreateTopics(t, topic)
	for maxBody, ok := range map[int]bool{100_000 - event.HeaderRoom: true, 100_000 - event.HeaderRoom + 1: false} {
		s, err := New(testConfig(func(c *Config) { c.MaxBody = maxBody }), Deps{Kafka: b.Opts, Prefix: b.Prefix})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		ran := make(chan error, 1)
		go func() { ran <- s.Run(ctx) }()
		if ok {
			eventually(t, func() bool { return s.Ready() == nil })
			cancel()
		}
		if err := <-ran; ok != (err == nil) || !ok && !strings.Contains(err.Error(), "max.message.bytes 100000") {
			t.Errorf("max_body %d: Run returned %v", maxBody, err)
		}
		cancel()
	}
}

// A full batch must not be larger than the topic takes, or all of it would be refused.
func TestBatchesFitTheTopic(t *testing.T) {
	b := brokertest.Start(t)
	topic := event.EventsTopic(1)
	topic.Configs["max.message.bytes"] = "40000"
	b.CreateTopics(t, topic)
	r := launch(t, b.Opts, b.Prefix, func(c *Config) { c.MaxBody = 20_000 })
	r.ready()
	answers := make(chan answer, 32)
	for range cap(answers) {
		go func() { answers <- r.post(padded(19_000)) }()
	}
	for range cap(answers) {
		if a := <-answers; a.status != 202 {
			t.Error(a)
		}
	}
}

func TestRunWaitsForTheTopic(t *testing.T) {
	b := brokertest.Start(t)
	r := launch(t, b.Opts, b.Prefix)
	if a := r.post(goodBody); a.status != 503 || a.Code != "unavailable" {
		t.Error(a)
	}
	b.CreateTopics(t, event.EventsTopic(1))
	r.ready()
	if a := r.post(goodBody); a.status != 202 {
		t.Error(a)
	}
}

func TestBacklogShutsTheDoor(t *testing.T) {
	age := make(chan time.Duration, 1)
	s, err := New(testConfig(func(c *Config) { c.MaxBacklogAge = time.Minute }), Deps{Prefix: "x.", BacklogAge: func() time.Duration { return <-age }})
	if err != nil {
		t.Fatal(err)
	}
	s.producer.Store(newProducer(nil, "x.events", s.cfg, s.metrics, s.log))
	for d, want := range map[time.Duration]*problem{0: nil, time.Minute: nil, time.Minute + 1: errBacklog} {
		age <- d
		if _, p := s.admit(time.Now(), nil); p != want {
			t.Errorf("backlog of %s: %v", d, p)
		}
	}
}

func TestConnectionsOutOfTheOrdinary(t *testing.T) {
	r, _ := start(t, func(c *Config) { c.MaxBody = 2000 })
	chunked := "Transfer-Encoding: chunked\r\n\r\n"
	head := "POST /v1/events HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer secret\r\nContent-Type: application/json\r\n"
	chunk := func(body string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body) }
	for name, c := range map[string]struct {
		text   string
		status []int
	}{
		"pipelined":             {request(goodBody) + request("{}") + request(goodBody), []int{202, 400, 202}},
		"chunked":               {head + chunked + chunk(goodBody), []int{202}},
		"chunked, too large":    {head + chunked + chunk(padded(50_000)), []int{413}},
		"length and chunked":    {head + "Content-Length: 5\r\n" + chunked + chunk(goodBody), []int{400}},
		"chunked and length":    {head + "Transfer-Encoding: chunked\r\ncontent-length: 5\r\n\r\n" + chunk(goodBody), []int{400}},
		"two lengths":           {head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", []int{400}},
		"no host":               {"POST /v1/events HTTP/1.1\r\n\r\n", []int{400}},
		"blank before colon":    {"POST /v1/events HTTP/1.1\r\nHost : h\r\n\r\n", []int{400}},
		"not HTTP":              {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", []int{400}},
		"headers too large":     {"GET /healthz HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 20_000) + "\r\n\r\n", []int{431}},
		"absolute form":         {strings.Replace(request(goodBody), "/v1", "http://elsewhere/v1", 1), []int{202}},
		"path goes up":          {strings.Replace(request(goodBody), "/v1", "/x/../v1", 1), []int{404}},
		"path goes up escaped":  {strings.Replace(request(goodBody), "/v1", "/x/%2e%2e/v1", 1), []int{404}},
		"two slashes":           {strings.Replace(request(goodBody), "/v1", "//v1", 1), []int{404}},
		"query":                 {strings.Replace(request(goodBody), "/events", "/events?a=/v1", 1), []int{202}},
		"stranger, too large":   {strings.Replace(request(padded(50_000)), "secret", "nobody", 1), []int{401}},
		"no path, too large":    {strings.Replace(request(padded(50_000)), "/events", "/nothing", 1), []int{404}},
		"HTTP/1.0":              {strings.Replace(request(goodBody), "HTTP/1.1", "HTTP/1.0", 1), []int{202}},
		"two content encodings": {request(goodBody, "Content-Encoding: gzip", "Content-Encoding: identity"), []int{415}},
		"multipart":             {strings.Replace(request(goodBody), "application/json", "multipart/form-data; boundary=x", 1), []int{415}},
		"no body":               {head + "\r\n", []int{400}},
	} {
		t.Run(name, func(t *testing.T) {
			for i, a := range r.raw(len(c.status), c.text) {
				if a.status != c.status[i] || a.status >= 400 && (a.Code == "" || a.Detail == "") {
					t.Errorf("answer %d: %s, want %d", i+1, a, c.status[i])
				}
			}
		})
	}
	if n := r.metric("hookline_ingest_panics_total"); n != 0 {
		t.Errorf("%v panics", n)
	}
}

// The client writes all of a body that is far too large before it reads: the answer must
// survive the close of the connection.
func TestTooLargeIsSeenByAClientThatKeepsSending(t *testing.T) {
	t.Parallel()
	r, _ := start(t)
	for range 20 {
		if a := r.post(strings.Repeat(" ", 3<<20)); a.status != 413 || a.Code != "too_large" {
			t.Fatal(a)
		}
	}
}

func TestExpectContinueIsDecidedByTheHeaders(t *testing.T) {
	r, _ := start(t)
	for name, c := range map[string]struct {
		headers, body string
		first, then   int
	}{
		"good":      {"Authorization: Bearer secret\r\nContent-Type: application/json\r\n", goodBody, 100, 202},
		"stranger":  {"Authorization: Bearer nobody\r\nContent-Type: application/json\r\n", goodBody, 401, 0},
		"type":      {"Authorization: Bearer secret\r\nContent-Type: text/plain\r\n", goodBody, 415, 0},
		"too large": {"Authorization: Bearer secret\r\nContent-Type: application/json\r\n", strings.Repeat("x", 300<<10), 413, 0},
	} {
		conn, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		br := bufio.NewReader(conn)
		_, _ = fmt.Fprintf(conn, "POST /v1/events HTTP/1.1\r\nHost: h\r\n%sContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", c.headers, len(c.body))
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if a := answerOf(t, resp); a.status != c.first || c.then == 0 && a.Code == "" {
			t.Errorf("%s: %s", name, a)
		}
		if c.then != 0 {
			_, _ = io.WriteString(conn, c.body)
			if resp, err = http.ReadResponse(br, nil); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if a := answerOf(t, resp); a.status != c.then {
				t.Errorf("%s: %s", name, a)
			}
		}
		_ = conn.Close()
	}
}

func TestSlowClientsAreCutOff(t *testing.T) {
	t.Parallel()
	r, _ := start(t, func(c *Config) { c.ReadTimeout, c.IdleTimeout = 300*time.Millisecond, 300*time.Millisecond })
	for name, c := range map[string]struct {
		text   string
		answer int // 0 = none
	}{
		"silent": {"", 0}, "header": {"POST /v1/events HTTP/1.1\r\nHost:", 408}, "body": {request(goodBody)[:len(request(goodBody))-5], 408},
		"bare line feeds": {"POST /v1/events HTTP/1.1\nHost: h\n", 408},
	} {
		conn, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		begin := time.Now()
		_, _ = io.WriteString(conn, c.text)
		got, err := io.ReadAll(conn)
		if took := time.Since(begin); err != nil || took > 10*time.Second {
			t.Errorf("%s: %v after %s", name, err, took)
		}
		if c.answer != 0 && !strings.HasPrefix(string(got), fmt.Sprintf("HTTP/1.1 %d ", c.answer)) {
			t.Errorf("%s: answer %q", name, got)
		}
		_ = conn.Close()
	}
	if a := r.post(goodBody); a.status != 202 {
		t.Error(a)
	}
}

func TestPanicIsAnsweredAndCounted(t *testing.T) {
	r, _ := start(t)
	// The route table is only read; a path of its own can be added before any request.
	r.server.routes = routeTable{"/panic": {"GET": {serve: func(*fasthttp.RequestCtx) { panic("planted") }}}}
	if a := r.do("GET", "/panic", ""); a.status != 500 || a.Code != "internal" {
		t.Error(a)
	}
	if n := r.metric("hookline_ingest_panics_total"); n != 1 {
		t.Errorf("%v panics counted", n)
	}
}

func TestLeavingServerSaysSoWhileItStillTakes(t *testing.T) {
	t.Parallel()
	r, _ := start(t, func(c *Config) { c.LeaveDelay = 2 * time.Second })
	stopped := make(chan error)
	go func() { stopped <- r.stop() }()
	eventually(t, func() bool { return r.do("GET", "/readyz", "").status == 503 })
	if a := r.post(goodBody); a.status != 202 {
		t.Error(a)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Run returned %v", err)
	}
}

func TestRunReturnsWhenTheAddressIsTaken(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	s, err := New(testConfig(func(c *Config) { c.Addr = ln.Addr().String() }), Deps{Kafka: seeds("127.0.0.1:1"), Prefix: "x."})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "listen") {
		t.Errorf("Run returned %v", err)
	}
}

func TestRunReturnsWhenTheListenerIsClosedUnderIt(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(testConfig(), Deps{Kafka: seeds("127.0.0.1:1"), Prefix: "x.", Listener: ln})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- s.Run(context.Background()) }()
	eventually(t, func() bool { return s.Addr() != "" })
	_ = ln.Close()
	if err := <-ran; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Run returned %v", err)
	}
}

func TestValidateReportsEveryFault(t *testing.T) {
	if err := testConfig().Validate(); err != nil {
		t.Errorf("defaults with keys: %v", err)
	}
	err := Config{Addr: "nowhere", MaxBacklogAge: -1}.Validate()
	for _, name := range []string{"addr:", "api_keys:", "max_body:", "max_connections:", "ack_timeout:", "stall_after:", "read_timeout:", "idle_timeout:", "write_timeout:", "drain_timeout:", "max_backlog_age:", "max_buffered_bytes:"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not reported: %v", name, err)
		}
	}
}
