package dispatcher

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookline/hookline/dispatcher/attempt"
)

// wireCA signs certificates for tests.
type wireCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newWireCA(t *testing.T) *wireCA {
	t.Helper()
	ca := &wireCA{}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test root"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, key := ca.sign(t, template, template, nil)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	ca.cert, ca.key, ca.pool = cert, key, x509.NewCertPool()
	ca.pool.AddCert(cert)
	return ca
}

func (ca *wireCA) sign(t *testing.T, template, parent *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

// leaf is a certificate for host that is valid until notAfter.
func (ca *wireCA) leaf(t *testing.T, host string, notBefore, notAfter time.Time) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: notBefore, NotAfter: notAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, key := ca.sign(t, template, ca.cert, ca.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (ca *wireCA) good(t *testing.T, host string) tls.Certificate {
	return ca.leaf(t, host, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
}

// newTLSServer answers on loopback under the given TLS settings; it returns the port.
func newTLSServer(t *testing.T, cfg *tls.Config, http2 bool, answer http.HandlerFunc) (*wireRecorder, string) {
	t.Helper()
	rec := &wireRecorder{answer: answer}
	srv := httptest.NewUnstartedServer(rec)
	srv.TLS, srv.EnableHTTP2 = cfg, http2
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // refused handshakes are the point of these tests
	srv.StartTLS()
	t.Cleanup(srv.Close)
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return rec, port
}

func TestTLSFaultsByClass(t *testing.T) {
	ca, other := newWireCA(t), newWireCA(t)
	past, future := time.Now().Add(-2*time.Hour), time.Now().Add(2*time.Hour)
	cases := []struct {
		name, host, class string
		cfg               *tls.Config
	}{
		{"good", "app.example", "", &tls.Config{Certificates: []tls.Certificate{ca.good(t, "app.example")}}},
		{"wildcard", "b.a.example", "", &tls.Config{Certificates: []tls.Certificate{ca.good(t, "*.a.example")}}},
		{"wildcard of two labels", "x.b.a.example", attempt.TLSName, &tls.Config{Certificates: []tls.Certificate{ca.good(t, "*.a.example")}}},
		{"expired", "app.example", attempt.TLSExpired,
			&tls.Config{Certificates: []tls.Certificate{ca.leaf(t, "app.example", past, past.Add(time.Hour))}}},
		{"not yet valid", "app.example", attempt.TLSExpired,
			&tls.Config{Certificates: []tls.Certificate{ca.leaf(t, "app.example", future, future.Add(time.Hour))}}},
		{"wrong host", "app.example", attempt.TLSName, &tls.Config{Certificates: []tls.Certificate{ca.good(t, "other.example")}}},
		{"unknown authority", "app.example", attempt.TLSHandshake, &tls.Config{Certificates: []tls.Certificate{other.good(t, "app.example")}}},
		{"self-signed", "app.example", attempt.TLSHandshake, &tls.Config{Certificates: []tls.Certificate{selfSignedCert(t, "app.example")}}},
		{"TLS 1.1 only", "app.example", attempt.TLSHandshake, &tls.Config{
			Certificates: []tls.Certificate{ca.good(t, "app.example")}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}},
		{"wants a client certificate", "app.example", attempt.TLSHandshake, &tls.Config{
			Certificates: []tls.Certificate{ca.good(t, "app.example")}, ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12}},
	}
	for _, c := range cases {
		rec, port := newTLSServer(t, c.cfg, false, nil)
		d := newWireDeliverer(t, func(cfg *SendConfig) {
			cfg.Roots, cfg.EgressHTTP, cfg.Resolver = ca.pool, false, answers([]string{"127.0.0.1"})
		})
		r := d.Send(context.Background(), wireRequest(wireEndpoint("https://"+c.host+":"+port)))
		checkTellsNothing(t, r)
		if r.ErrorClass != c.class || r.Success() != (c.class == "") || (rec.count() == 1) != (c.class == "") {
			t.Errorf("%s: %+v", c.name, r)
		}
		if c.class == "" && (r.TLS == 0 || r.Connect == 0 || r.DNS == 0 || r.TTFB == 0 || r.Total < r.TLS+r.Connect+r.TTFB) {
			t.Errorf("%s: phases %+v", c.name, r)
		}
	}
}

func selfSignedCert(t *testing.T, host string) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(3), DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, key := (&wireCA{}).sign(t, template, template, nil)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestTLSHandshakeIsUnderTheDeadline(t *testing.T) {
	stalled := newRawServer(t, func(conn net.Conn, _ *bufio.Reader) { hold(conn) })
	plain := newRawServer(t, answerThen("HTTP/1.1 400 Bad Request canary\r\n\r\n", nil))
	for _, c := range []struct{ base, what string }{{stalled, "stalled handshake"}, {plain, "no TLS"}} {
		d := newWireDeliverer(t, nil)
		req := wireRequest(wireEndpoint(strings.Replace(c.base, "http:", "https:", 1)))
		req.Timeout = 400 * time.Millisecond
		r := d.Send(context.Background(), req)
		checkTellsNothing(t, r)
		if r.ErrorClass != attempt.TLSHandshake || r.Total > 5*time.Second {
			t.Errorf("%s: %+v", c.what, r)
		}
	}
}

func TestHTTP2Delivery(t *testing.T) {
	ca := newWireCA(t)
	rec, port := newTLSServer(t, &tls.Config{Certificates: []tls.Certificate{ca.good(t, "app.example")}}, true,
		func(w http.ResponseWriter, r *http.Request) {
			switch r.Header.Get("Webhook-Attempt") {
			case "2":
				w.Header().Set("X-Bomb", strings.Repeat("x", 2*maxAnswerHeader))
			case "3":
				_, _ = w.Write(make([]byte, 4*maxAnswerBody))
			case "4":
				panic(http.ErrAbortHandler)
			case "5":
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
	d := newWireDeliverer(t, func(cfg *SendConfig) { cfg.Roots, cfg.Resolver = ca.pool, answers([]string{"127.0.0.1"}) })
	e := wireEndpoint("https://app.example:" + port)
	for n, want := range map[int]struct {
		status         int
		class, anomaly string
	}{1: {200, "", ""}, 2: {0, attempt.Protocol, ""}, 3: {200, "", attempt.BodyTooLarge}, 4: {0, attempt.ConnectReset, ""}, 5: {503, attempt.HTTP503, ""}} {
		req := wireRequest(e)
		req.Attempt = n
		r := d.Send(context.Background(), req)
		checkTellsNothing(t, r)
		if r.Status != want.status || r.ErrorClass != want.class || r.Anomaly != want.anomaly {
			t.Errorf("attempt %d: %+v, want %+v", n, r, want)
		}
		if r.Status != 0 && r.HTTPVersion != "2" {
			t.Errorf("attempt %d over HTTP/%s", n, r.HTTPVersion)
		}
	}
	verifyDelivery(t, rec, 0, wireSecret)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if r := d.Send(context.Background(), wireRequest(e)); !r.Success() || r.HTTPVersion != "2" {
				t.Errorf("result = %+v", r)
			}
		})
	}
	all.Wait()
	if r := d.Send(context.Background(), wireRequest(e)); !r.Success() || !r.Reused || r.Connect != 0 {
		t.Errorf("result = %+v", r)
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	var mu sync.Mutex
	peers := map[string]bool{}
	_, base := newWireServer(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		peers[r.RemoteAddr] = true
		mu.Unlock()
		if r.Header.Get("Webhook-Attempt") == "2" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(w, "thank you")
	})
	d := newWireDeliverer(t, nil)
	e := wireEndpoint(base)
	for n := 1; n <= 20; n++ {
		req := wireRequest(e)
		req.Attempt = n
		r := d.Send(context.Background(), req)
		if r.Reused != (n > 1) || r.ResponseBytes != 9 || (n > 1 && r.Connect != 0) {
			t.Errorf("attempt %d: %+v", n, r)
		}
	}
	if len(peers) != 1 {
		t.Errorf("%d connections for 20 deliveries one after the other", len(peers))
	}
}

func TestConnectionClosedByTheServerCostsNoAttempt(t *testing.T) {
	base := newRawServer(t, func(conn net.Conn, r *bufio.Reader) {
		if _, err := readWhole(r); err != nil {
			return
		}
		_, _ = io.WriteString(conn, okHead+"Content-Length: 0\r\n\r\n") // keep-alive, and then not kept
		_ = conn.Close()
	})
	noticed := make(chan struct{}, 8)
	d := newWireDeliverer(t, nil)
	guarded := NewGuard(wireLoopback, nil, nil).DialContext
	d.transports = newTransports(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := guarded(ctx, network, address)
		return &noticedConn{Conn: conn, closed: noticed}, err
	}, nil, 4)
	d.pick = d.transports.pick
	e := wireEndpoint(base)
	for range 5 {
		if r := d.Send(context.Background(), wireRequest(e)); !r.Success() {
			t.Fatalf("result = %+v", r)
		}
		<-noticed
	}
	if idleTimeout >= 5*time.Second {
		t.Error("connections may lie idle for longer than servers keep them")
	}
}

// noticedConn tells when the transport gives it up.
type noticedConn struct {
	net.Conn
	closed chan struct{}
}

func (c *noticedConn) Close() error {
	c.closed <- struct{}{}
	return c.Conn.Close()
}

func TestTransportsAreRenewedOneAfterTheOther(t *testing.T) {
	dial := NewGuard(nil, nil, nil).DialContext
	ts := newTransports(dial, nil, 4)
	now := time.Now()
	ends := map[int64]bool{}
	for i := range ts.shards {
		g := ts.shards[i].Load()
		ends[g.until.UnixMilli()] = true
		if left := g.until.Sub(now); left <= 0 || left > connectionLife {
			t.Errorf("shard %d lives for %v", i, left)
		}
	}
	if len(ends) < transportShards {
		t.Errorf("shards end at %d instants", len(ends))
	}
	first := ts.pick("app.example", now)
	if ts.pick("app.example", now) != first {
		t.Error("a host must keep its transport")
	}
	second := ts.pick("app.example", now.Add(connectionLife+time.Second))
	if second == first || ts.pick("app.example", now.Add(connectionLife+time.Minute)) != second {
		t.Error("a transport must be replaced after its life, once")
	}
	ts.close()
}

func TestRenewedTransportMakesNewConnections(t *testing.T) {
	_, base := newWireServer(t, nil)
	d := newWireDeliverer(t, nil)
	e := wireEndpoint(base)
	var later time.Duration
	d.pick = func(host string, now time.Time) http.RoundTripper { return d.transports.pick(host, now.Add(later)) }
	for i, wantReused := range []bool{false, true, false, true} {
		if i == 2 {
			later = connectionLife + time.Second
		}
		if r := d.Send(context.Background(), wireRequest(e)); !r.Success() || r.Reused != wantReused {
			t.Errorf("delivery %d: %+v", i, r)
		}
	}
}
