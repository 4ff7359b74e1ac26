package dispatcher

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hookline/hookline/dispatcher/attempt"
)

// abort closes with a reset instead of an orderly end.
func abort(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// answerThen sends text after the request was read, then does what is left.
func answerThen(text string, then func(net.Conn)) func(net.Conn, *bufio.Reader) {
	return func(conn net.Conn, r *bufio.Reader) {
		if _, err := readWhole(r); err != nil {
			return
		}
		_, _ = io.WriteString(conn, text)
		if then != nil {
			then(conn)
		}
	}
}

// hold keeps the connection until the peer or the test ends it.
func hold(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// drip writes text again and again, one piece in a while, until the peer goes.
func drip(text string, every time.Duration) func(net.Conn) {
	return func(conn net.Conn) {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for range tick.C {
			if _, err := io.WriteString(conn, text); err != nil {
				return
			}
		}
	}
}

// flood writes text as fast as it is taken.
func flood(text string) func(net.Conn) {
	return func(conn net.Conn) {
		for {
			if _, err := io.WriteString(conn, text); err != nil {
				return
			}
		}
	}
}

func echo(conn net.Conn, r *bufio.Reader) {
	for range 20 {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		if _, err := io.WriteString(conn, line); err != nil {
			return
		}
	}
}

// anyClass is for cases whose point is what the error must not tell.
const anyClass = "any"

const okHead = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"

func TestHostileServers(t *testing.T) {
	const timeout = 400 * time.Millisecond
	cases := []struct {
		name    string
		handle  func(net.Conn, *bufio.Reader)
		status  int
		class   string // or the anomaly of a success
		waits   bool   // ends at the deadline, not before
		anomaly bool
	}{
		{name: "silence", handle: answerThen("", hold), class: attempt.TimeoutTTFB, waits: true},
		{name: "slow status line", handle: answerThen("HTTP/1.1 2", hold), class: attempt.TimeoutTotal, waits: true},
		{name: "slow headers", handle: answerThen("HTTP/1.1 200 OK\r\n", drip("X-A: b\r\n", 20*time.Millisecond)),
			class: attempt.TimeoutTotal, waits: true},
		{name: "nothing is read", handle: func(conn net.Conn, _ *bufio.Reader) { drip("", 20*time.Millisecond)(conn) },
			class: attempt.TimeoutTotal, waits: true},
		{name: "500 with an endless body", handle: answerThen("HTTP/1.1 500 no\r\nTransfer-Encoding: chunked\r\n\r\n",
			drip("1\r\nx\r\n", 20*time.Millisecond)), status: 500, class: attempt.HTTP5xx, waits: true},
		{name: "503 with a flood", handle: answerThen("HTTP/1.1 503 no\r\n\r\n", flood(strings.Repeat("x", 4096))),
			status: 503, class: attempt.HTTP503},
		{name: "200 with an endless body", handle: answerThen(okHead+"\r\n", drip("x", 20*time.Millisecond)),
			status: 200, class: attempt.TimeoutTotal, anomaly: true, waits: true},
		{name: "200 with a flood", handle: answerThen(okHead+"\r\n", flood(strings.Repeat("x", 4096))),
			status: 200, class: attempt.BodyTooLarge, anomaly: true},
		{name: "200 with 10 GB announced", handle: answerThen(okHead+"Content-Length: 10000000000\r\n\r\n", flood(strings.Repeat("x", 4096))),
			status: 200, class: attempt.BodyTooLarge, anomaly: true},
		{name: "200 cut in its body", handle: answerThen(okHead+"Content-Length: 100\r\n\r\nxx", func(c net.Conn) { _ = c.Close() }),
			status: 200, class: attempt.ConnectReset, anomaly: true},
		{name: "200 reset in its body", handle: answerThen(okHead+"Content-Length: 100\r\n\r\n", abort),
			status: 200, class: attempt.ConnectReset, anomaly: true},
		{name: "200 with broken chunks", handle: answerThen(okHead+"Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n", hold),
			status: 200, class: attempt.Protocol, anomaly: true},
		{name: "204 with a body", handle: answerThen("HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 500 no\r\n\r\n", hold), status: 204},
		{name: "closed at once", handle: func(c net.Conn, _ *bufio.Reader) { _ = c.Close() }, class: "reset"},
		{name: "reset at once", handle: func(c net.Conn, _ *bufio.Reader) { abort(c) }, class: "reset"},
		{name: "closed after the request", handle: answerThen("", nil), class: attempt.ConnectReset},
		{name: "reset after the request", handle: answerThen("", abort), class: attempt.ConnectReset},
		{name: "closed in the status line", handle: answerThen("HTTP/1.1 2", nil), class: attempt.Protocol},
		{name: "closed in the headers", handle: answerThen("HTTP/1.1 200 OK\r\nX-A: b\r\n", nil), class: attempt.ConnectReset},
		{name: "not HTTP", handle: answerThen("SSH-2.0-OpenSSH_9.9\r\n", hold), class: attempt.Protocol},
		{name: "binary", handle: answerThen("\x00\x01\x02\xff\r\n\r\n", hold), class: attempt.Protocol},
		{name: "echo of the request", handle: echo, class: anyClass},
		{name: "echo in a status line", handle: answerThen("HTTP/1.1 canary-path "+wirePath+"?"+wireQuery+" "+wireSecret+"\r\n\r\n", hold),
			class: attempt.Protocol},
		{name: "echo in a header", handle: answerThen("HTTP/1.1 200 OK\r\ncanary-path hooks\r\n\r\n", hold), class: attempt.Protocol},
		{name: "one long header", handle: answerThen(okHead+"X-A: "+strings.Repeat("x", 80<<10)+"\r\n\r\n", hold), class: attempt.Protocol},
		{name: "many headers", handle: answerThen(okHead+strings.Repeat("X-A: b\r\n", 10000)+"\r\n", hold), class: attempt.Protocol},
		{name: "endless headers", handle: answerThen(okHead, flood(strings.Repeat("X-A: b\r\n", 500))), class: attempt.Protocol},
		{name: "endless 103", handle: answerThen("", flood("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n")), class: attempt.Protocol},
		{name: "103 then 200", handle: answerThen("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"+okHead+"Content-Length: 0\r\n\r\n", hold), status: 200},
		{name: "100 then 200", handle: answerThen("HTTP/1.1 100 Continue\r\n\r\n"+okHead+"Content-Length: 0\r\n\r\n", hold), status: 200},
		{name: "101", handle: answerThen("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", hold),
			status: 101, class: attempt.Protocol},
		{name: "999", handle: answerThen("HTTP/1.1 999 no\r\nContent-Length: 0\r\n\r\n", hold), status: 999, class: attempt.Protocol},
		{name: "000", handle: answerThen("HTTP/1.1 000 no\r\nContent-Length: 0\r\n\r\n", hold), class: attempt.Protocol},
		{name: "bare line feeds", handle: answerThen("HTTP/1.1 200 OK\nContent-Length: 0\n\n", hold), status: 200},
		{name: "HTTP/1.0", handle: answerThen("HTTP/1.0 200 OK\r\n\r\nok", nil), status: 200},
		{name: "two lengths", handle: answerThen(okHead+"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", hold), class: attempt.Protocol},
	}
	d := newWireDeliverer(t, nil)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := wireRequest(wireEndpoint(newRawServer(t, c.handle)))
			req.Timeout = timeout
			if c.name == "nothing is read" {
				req.Body = bytes.Repeat([]byte("x"), 12<<20) // more than the sockets hold
				req.Timeout = 3 * timeout
			}
			if !c.waits {
				req.Timeout = 10 * time.Second
			}
			r := d.Send(context.Background(), req)
			checkTellsNothing(t, r)
			checkHostile(t, r, c.status, c.class, c.anomaly)
			if c.waits && r.Total < timeout {
				t.Errorf("ended after %v, before the deadline", r.Total)
			}
			if limit := 5 * time.Second; r.Total > limit {
				t.Errorf("took %v", r.Total)
			}
			if r.ResponseBytes > maxAnswerBody+drainBuffer {
				t.Errorf("read %d bytes", r.ResponseBytes)
			}
		})
	}
}

func checkHostile(t *testing.T, r Result, status int, class string, anomaly bool) {
	t.Helper()
	if r.Status != status {
		t.Errorf("status %d, want %d: %+v", r.Status, status, r)
	}
	got := r.ErrorClass
	if anomaly {
		got = r.Anomaly
	}
	if class == anyClass {
		return
	}
	if class == "reset" { // the moment decides whether the request was written by then
		if got != attempt.ConnectReset && got != attempt.WriteReset {
			t.Errorf("class %q: %+v", got, r)
		}
		return
	}
	if got != class {
		t.Errorf("class %q, want %q: %+v", got, class, r)
	}
}

func TestStalledBodyOfASuccessFreesItsSlotEarly(t *testing.T) {
	base := newRawServer(t, answerThen(okHead+"Content-Length: 5\r\n\r\nx", hold))
	d := newWireDeliverer(t, nil)
	req := wireRequest(wireEndpoint(base))
	req.Timeout = 15 * time.Second
	r := d.Send(context.Background(), req)
	if !r.Success() || r.Anomaly != attempt.TimeoutTotal || r.Total < drainGrace || r.Total > 5*time.Second {
		t.Errorf("result = %+v", r)
	}
}

func TestCompressedAnswersAreNotInflated(t *testing.T) {
	var bomb bytes.Buffer
	zw, err := gzip.NewWriterLevel(&bomb, gzip.DefaultCompression)
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for range 5 {
		if _, err := zw.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	rec, base := newWireServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb.Bytes())
	})
	d := newWireDeliverer(t, nil)
	r := d.Send(context.Background(), wireRequest(wireEndpoint(base)))
	if !r.Success() || r.Anomaly != "" || int(r.ResponseBytes) != bomb.Len() {
		t.Errorf("%d bytes on the wire, read %d: %+v", bomb.Len(), r.ResponseBytes, r)
	}
	if h := rec.requests[0].Header; h.Get("Accept-Encoding") != "" {
		t.Errorf("asks for %q", h.Get("Accept-Encoding"))
	}
}

func TestUnsolicitedBytesDoNotBecomeTheNextAnswer(t *testing.T) {
	var answered atomic.Bool
	base := newRawServer(t, func(conn net.Conn, r *bufio.Reader) {
		for {
			if _, err := readWhole(r); err != nil {
				return
			}
			extra := ""
			if !answered.Swap(true) {
				extra = okHead + "Content-Length: 0\r\n\r\n"
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 500 no\r\nContent-Length: 0\r\n\r\n"+extra)
		}
	})
	for range 200 { // net/http notices most of them by itself, but not all
		answered.Store(false)
		d := newWireDeliverer(t, nil)
		e := wireEndpoint(base)
		for range 3 {
			if r := d.Send(context.Background(), wireRequest(e)); r.Success() {
				t.Fatalf("a late extra answer counted as a delivery: %+v", r)
			}
		}
	}
}

func TestNamesThatDoNotResolve(t *testing.T) {
	cases := []struct {
		name    string
		resolve resolverFunc
		class   string
	}{
		{"does not exist", func(_ context.Context, host string) ([]netip.Addr, error) {
			return nil, &net.DNSError{Err: "no such host canary", Name: host, IsNotFound: true}
		}, attempt.DNSNotFound},
		{"no addresses", func(context.Context, string) ([]netip.Addr, error) { return nil, nil }, attempt.DNSNotFound},
		{"server failure", func(_ context.Context, host string) ([]netip.Addr, error) {
			return nil, &net.DNSError{Err: "server misbehaving canary", Name: host, IsTemporary: true}
		}, attempt.DNSTimeout},
		{"resolver times out", func(_ context.Context, host string) ([]netip.Addr, error) {
			return nil, &net.DNSError{Err: "i/o timeout", Name: host, IsTimeout: true}
		}, attempt.DNSTimeout},
		{"resolver hangs", func(ctx context.Context, _ string) ([]netip.Addr, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, attempt.DNSTimeout},
		{"other error", func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("canary") }, attempt.DNSTimeout},
	}
	for _, c := range cases {
		d := newWireDeliverer(t, func(cfg *SendConfig) { cfg.Resolver = c.resolve })
		req := wireRequest(wireEndpoint("http://app.example"))
		req.Timeout = 300 * time.Millisecond
		r := d.Send(context.Background(), req)
		checkTellsNothing(t, r)
		if r.ErrorClass != c.class || r.Ours() {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

func TestConnectionRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	base := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r := newWireDeliverer(t, nil).Send(context.Background(), wireRequest(wireEndpoint(base)))
	checkTellsNothing(t, r)
	if r.ErrorClass != attempt.ConnectRefused || !errors.Is(r.Err, syscall.ECONNREFUSED) {
		t.Errorf("result = %+v", r)
	}
}

func TestClassesOfDialErrors(t *testing.T) {
	op := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)}
	}
	connecting := func(ph *phases) { ph.mark(&ph.connectStart) }
	cases := []struct {
		err   error
		reach func(*phases)
		class string
	}{
		{op(syscall.ECONNREFUSED), connecting, attempt.ConnectRefused},
		{op(syscall.EHOSTUNREACH), connecting, attempt.ConnectRefused},
		{op(syscall.ENETUNREACH), connecting, attempt.ConnectRefused},
		{op(syscall.ECONNRESET), connecting, attempt.ConnectReset},
		{op(syscall.ETIMEDOUT), connecting, attempt.ConnectTimeout},
		{context.DeadlineExceeded, connecting, attempt.ConnectTimeout},
		{op(syscall.EMFILE), connecting, attempt.Internal},
		{op(syscall.EADDRNOTAVAIL), connecting, attempt.Internal},
		{io.EOF, func(ph *phases) { connecting(ph); ph.mark(&ph.tlsStart) }, attempt.TLSHandshake},
		{context.DeadlineExceeded, func(ph *phases) { connecting(ph); ph.mark(&ph.connectDone); ph.mark(&ph.tlsStart) }, attempt.TLSHandshake},
		{syscall.EPIPE, func(ph *phases) { ph.mark(&ph.gotConn) }, attempt.WriteReset},
		{errors.New("invalid header canary"), func(*phases) {}, attempt.Internal},
	}
	for _, c := range cases {
		ph := &phases{start: time.Now()}
		c.reach(ph)
		class, detail := classify(context.Background(), c.err, ph, "app.example")
		if class != c.class || strings.Contains(detail, "canary") {
			t.Errorf("%v: %s (%s), want %s", c.err, class, detail, c.class)
		}
	}
}
