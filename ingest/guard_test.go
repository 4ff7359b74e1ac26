package ingest

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event"
)

// dialed opens a connection that a served request proves to be taken.
func (r *room) dialed() net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn
}

func ask(t *testing.T, conn net.Conn) answer {
	t.Helper()
	go func() { _, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n") }()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return answerOf(t, resp)
}

func TestGuardBoundsConnections(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		status int
		code   string
		reason string
	}{
		"in all":      {func(c *Config) { c.MaxConnections = 3 }, 503, codeUnavailable, refusedTotal},
		"per address": {func(c *Config) { c.MaxConnectionsPerAddress = 3 }, 429, codeRateLimited, refusedAddress},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := start(t, c.change)
			var open []net.Conn
			for range 3 {
				conn := r.dialed()
				if a := ask(t, conn); a.status != 200 {
					t.Fatal(a)
				}
				open = append(open, conn)
			}
			for range 5 {
				if a := ask(t, r.dialed()); a.status != c.status || a.Code != c.code || a.header.Get("Retry-After") == "" {
					t.Errorf("one too many: %s", a)
				}
			}
			if n := r.metric("hookline_ingest_refused_connections_total", "reason", c.reason); n != 5 {
				t.Errorf("%v refusals counted", n)
			}
			if n := r.metric("hookline_ingest_open_connections"); n != 3 {
				t.Errorf("%v connections open", n)
			}
			_ = open[0].Close()
			eventually(t, func() bool { return r.metric("hookline_ingest_open_connections") == 2 })
			if a := ask(t, r.dialed()); a.status != 200 {
				t.Errorf("after one has closed: %s", a)
			}
		})
	}
}

func TestAddressOfAConnection(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:1": "192.0.2.1/32", "[::ffff:192.0.2.1]:1": "192.0.2.1/32", "[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1:2::/64", "[fe80::1%eth0]:1": "fe80::/64",
	} {
		addr := net.TCPAddrFromAddrPort(netipAddrPort(t, remote))
		if got := addressOf(remoteConn{addr: addr}).String(); got != want {
			t.Errorf("%s counts as %s, want %s", remote, got, want)
		}
	}
}

type remoteConn struct {
	net.Conn
	addr net.Addr
}

func (c remoteConn) RemoteAddr() net.Addr { return c.addr }

// poor is a listener whose process has run out of something now and then.
type poor struct {
	net.Listener
	fail atomic.Pointer[error]
}

func (p *poor) Accept() (net.Conn, error) {
	if err := p.fail.Load(); err != nil {
		return nil, *err
	}
	return p.Listener.Accept()
}

// A shortage of file descriptors, which clients can bring about, passes; it does not end the server.
func TestGuardOutlivesAShortage(t *testing.T) {
	b := brokertest.Start(t)
	b.CreateTopics(t, event.EventsTopic(1))
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED, syscall.ENOBUFS} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		short := error(&net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", errno)})
		p := &poor{Listener: ln}
		p.fail.Store(&short)
		r := launchWith(t, testConfig(), Deps{Kafka: b.Opts, Prefix: b.Prefix, Listener: p})
		r.ready()
		eventually(t, func() bool {
			return r.metric("hookline_ingest_refused_connections_total", "reason", refusedSystem) >= 3
		})
		p.fail.Store(nil)
		if a := r.post(goodBody); a.status != 202 {
			t.Errorf("%v: %s", errno, a)
		}
		p.fail.Store(&short)
		r.http.CloseIdleConnections()
		if err := r.stop(); err != nil { // not held up by the shortage
			t.Errorf("%v: Run returned %v", errno, err)
		}
	}
}

// Over TLS: a client that says nothing, or nonsense, loses its place in time and is counted.
func TestHandshakesThatComeToNothing(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t)
	b.CreateTopics(t, event.EventsTopic(1))
	site := httptest.NewUnstartedServer(nil)
	site.StartTLS() // only for its certificate
	site.Close()
	r := launchWith(t, testConfig(func(c *Config) { c.ReadTimeout = 400 * time.Millisecond }), Deps{Kafka: b.Opts, Prefix: b.Prefix,
		TLS: &tls.Config{Certificates: site.TLS.Certificates, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}})
	r.ready()
	for i, text := range []string{"", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", "\x16\x03\x01\x02\x00\x01", "\x00\x01\x02\x03garbage garbage"} {
		conn := r.dialed()
		began := time.Now()
		_, _ = io.WriteString(conn, text)
		got, err := io.ReadAll(conn)
		if took := time.Since(began); err != nil && !errors.Is(err, syscall.ECONNRESET) || took > 5*time.Second {
			t.Errorf("%q: %q, %v after %s", text, got, err, took)
		}
		eventually(t, func() bool { return r.metric("hookline_ingest_failed_handshakes_total") == float64(i+1) })
	}
	eventually(t, func() bool { return r.metric("hookline_ingest_open_connections") == 0 })
	conn, err := tls.Dial("tcp", r.addr, &tls.Config{InsecureSkipVerify: true}) // a certificate for the test
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // only read
	if a := ask(t, conn); a.status != 200 {
		t.Error(a)
	}
}

func netipAddrPort(t *testing.T, text string) netip.AddrPort {
	t.Helper()
	a, err := netip.ParseAddrPort(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
