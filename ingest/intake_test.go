package ingest

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/hookline/hookline/ingest/event"
)

// holdBody opens a connection, announces a body and sends none of it.
func (r *room) holdBody(key, framing string) net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	_, _ = fmt.Fprintf(conn, "POST /v1/events HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n%s\r\n\r\n", key, framing)
	return conn
}

func (r *room) reading() float64 { return r.metric("hookline_ingest_reading_bytes") }

// Announced bodies are bounded in all and per key; small ones of others still come through, a
// stranger holds nothing, and what is cut off is given back.
func TestSlowBodiesHoldBoundedMemory(t *testing.T) {
	r, _ := start(t, func(c *Config) {
		c.MaxBody, c.MaxBufferedBytes = 256<<10, 4*(256<<10+event.HeaderRoom)
		c.ReadTimeout = 700 * time.Millisecond
	})
	most := r.metric("hookline_ingest_reading_limit_bytes")
	for range 32 {
		r.holdBody("nobody", "Content-Length: 200000")
	}
	var last *answer
	for n := 1; last == nil; n++ {
		if n > 32 {
			t.Fatalf("32 bodies of 200 kB are being read, %v bytes", r.reading())
		}
		conn := r.holdBody("secret", "Content-Length: 200000")
		eventually(t, func() bool {
			_ = conn.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
			one := make([]byte, 4096)
			if k, _ := conn.Read(one); k > 0 {
				last = &answer{status: 0, body: one[:k]}
				return true
			}
			return r.reading() >= float64(n)*200_000
		})
	}
	if !strings.HasPrefix(string(last.body), "HTTP/1.1 503 ") || !strings.Contains(string(last.body), "Retry-After: ") {
		t.Errorf("one too many: %q", last.body)
	}
	if held := r.reading(); held > most/2+200_000 {
		t.Errorf("one key holds %v of %v bytes", held, most)
	}
	if a := r.post(padded(100_000), "Authorization", "", "authorization", "Bearer other"); a.status != 202 {
		t.Errorf("a large body of another key: %s", a)
	}
	if a := r.post(goodBody); a.status != 202 {
		t.Errorf("a small body of the same key: %s", a)
	}
	eventually(t, func() bool { return r.reading() == 0 }) // the read timeout
}

// Nothing stays counted, however a request with a large body ends.
func TestIntakeIsGivenBack(t *testing.T) {
	r, _ := start(t, func(c *Config) { c.ReadTimeout = 500 * time.Millisecond })
	body := padded(100_000)
	chunked := func(body string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body) }
	head := "POST /v1/events HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer secret\r\nContent-Type: application/json\r\n"
	for name, c := range map[string]struct {
		text   string
		status []int
	}{
		"good":                {request(body), []int{202}},
		"pipelined":           {request(body) + request(goodBody) + request(body), []int{202, 202, 202}},
		"chunked":             {head + "Transfer-Encoding: chunked\r\n\r\n" + chunked(body), []int{202}},
		"chunked, too large":  {head + "Transfer-Encoding: chunked\r\n\r\n" + chunked(padded(300_000)), []int{413}},
		"chunked, stranger":   {strings.Replace(head, "secret", "nobody", 1) + "Transfer-Encoding: chunked\r\n\r\n" + chunked(body), []int{401}},
		"chunked, broken":     {head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", []int{400}},
		"too large":           {request(padded(300_000)), []int{413}},
		"stranger":            {strings.Replace(request(body), "secret", "nobody", 1), []int{401}},
		"no path":             {strings.Replace(request(body), "/events", "/nothing", 1), []int{404}},
		"cut":                 {request(body)[:50_000], []int{408}},
		"not JSON":            {request(strings.Repeat("x", 100_000)), []int{400}},
		"expect":              {strings.Replace(request(body), "Content-Length", "Expect: 100-continue\r\nContent-Length", 1), []int{100, 202}},
		"expect, wrong type":  {strings.Replace(strings.Replace(request(body), "application/json", "text/plain", 1), "Content-Length", "Expect: 100-continue\r\nContent-Length", 1), []int{415}},
		"expect, and too big": {strings.Replace(request(padded(300_000)), "Content-Length", "Expect: 100-continue\r\nContent-Length", 1), []int{413}},
	} {
		for i, a := range r.raw(len(c.status), c.text) {
			if a.status != c.status[i] {
				t.Errorf("%s, answer %d: %s, want %d", name, i+1, a, c.status[i])
			}
		}
		eventually(t, func() bool { return r.reading() == 0 && r.server.intake.count.Load() == 0 })
	}
	conn := r.holdBody("secret", "Content-Length: 100000")
	eventually(t, func() bool { return r.reading() == 100_000 })
	_ = conn.Close()
	eventually(t, func() bool { return r.reading() == 0 })
}

// A body that is small on the wire counts with what it inflates to, for as long as its request
// lasts: else a few connections could fill the memory with what is almost nothing to send.
func TestInflatedBodiesHoldBoundedMemory(t *testing.T) {
	t.Parallel()
	r, fake := startFake(t, func(c *Config) {
		c.APIKeys, c.MaxBufferedBytes = c.APIKeys[:1], 5<<20
		c.StallAfter, c.AckTimeout = maxStall, 10*time.Second
	})
	_, release := hold(t, fake)
	wide := string(gz(t, []byte(goodBody+strings.Repeat(" ", 3<<20)+"\n")))
	post := func() answer {
		return r.do("POST", PathBatch, wide, "Content-Type", "", "Content-Type", "application/x-ndjson", "Content-Encoding", "gzip")
	}
	first := make(chan answer, 1)
	go func() { first <- post() }()
	eventually(t, func() bool { return r.reading() > 3<<20 })
	if a := post(); a.status != 503 || a.Code != codeUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("no room for another: %s", a)
	}
	if a := r.post(string(gz(t, []byte("x"+goodBody))), "Content-Encoding", "gzip"); a.status != 400 {
		t.Errorf("a small one: %s", a)
	}
	release()
	if a := <-first; a.status != 202 {
		t.Errorf("the first: %s", a)
	}
	eventually(t, func() bool { return r.reading() == 0 && r.server.intake.count.Load() == 0 })
}

// The limit of a key is told from the headers of a large body, which is then not read.
func TestRateLimitOfALargeBody(t *testing.T) {
	r, _ := start(t, func(c *Config) { c.APIKeys = []string{"dev:secret rate=0.01"} })
	if a := r.post(goodBody); a.status != http.StatusAccepted {
		t.Fatal(a)
	}
	for _, text := range []string{
		request(padded(200_000)),
		strings.Replace(strings.Replace(request(""), "Content-Length: 0\r\n", "Transfer-Encoding: chunked\r\n", 1), "\r\n\r\n", "\r\n\r\n8000\r\n"+padded(0x8000)+"\r\n0\r\n\r\n", 1),
	} {
		if a := r.raw(1, text)[0]; a.status != 429 || a.Code != codeRateLimited || a.header.Get("Retry-After") == "" {
			t.Error(a)
		}
	}
}

// fasthttp does not tell of every connection that ends; what it kept quiet about is forgotten
// when the room is needed.
func TestIntakeForgetsWhatCannotBe(t *testing.T) {
	i := newIntake(testConfig(func(c *Config) { c.MaxBufferedBytes = 1000 }))
	now := time.Now()
	headers := make([]fasthttp.RequestHeader, 3)
	if !i.enter(&headers[0], 800, reading{since: now}) {
		t.Fatal("no room in an empty intake")
	}
	if i.enter(&headers[1], 800, reading{since: now.Add(time.Second)}) {
		t.Error("more than the limit")
	}
	if i.leave(&headers[1]).p != errIntake {
		t.Error("the reason is lost")
	}
	if !i.enter(&headers[0], 900, reading{since: now}) || i.held() != 900 {
		t.Errorf("headers that are used again count twice: %d", i.held())
	}
	if !i.enter(&headers[2], 800, reading{since: now.Add(i.life + 2*time.Second)}) || i.held() != 800 {
		t.Errorf("an old request is not forgotten: %d", i.held())
	}
}
