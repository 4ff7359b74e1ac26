package dispatcher

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"hash/maphash"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Limits of a connection and of an answer.
const (
	maxAnswerHeader = 32 << 10
	maxAnswerBody   = 64 << 10
	// idleTimeout is below the shortest idle timeout that is common at servers (5 s): a
	// request on a connection that the server is about to close costs an attempt.
	idleTimeout = 4 * time.Second
	// connectionLife bounds how long an address stays in use after DNS or the egress lists
	// have changed.
	connectionLife = 5 * time.Minute
	tlsTimeout     = 10 * time.Second
	// transportShards spreads hosts over transports: each renews its connections at another
	// time, and their locks are not shared.
	transportShards = 16
)

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// transports hands out the HTTP transport of a host. Connections live at most
// connectionLife: net/http cannot bound that, so a whole transport is replaced; its
// connections end when their request has ended, or by the idle timeout. Safe for concurrent
// use.
type transports struct {
	make   func() *http.Transport
	life   time.Duration
	seed   maphash.Seed
	shards [transportShards]atomic.Pointer[generation]
}

// generation is one transport and when it must be replaced.
type generation struct {
	transport *http.Transport
	until     time.Time
}

func newTransports(dial dialFunc, roots *x509.CertPool, idlePerHost int) *transports {
	t := &transports{life: connectionLife, seed: maphash.MakeSeed()}
	t.make = func() *http.Transport { return newTransport(listening(dial), roots, idlePerHost) }
	now := time.Now()
	for i := range t.shards {
		// The first generations end one after the other, and so do all later ones.
		share := t.life * time.Duration(i+1) / transportShards
		t.shards[i].Store(&generation{transport: t.make(), until: now.Add(share)})
	}
	return t
}

// newTransport is what one attempt is made with. One option per line, with its reason.
func newTransport(dial dialFunc, roots *x509.CertPool, idlePerHost int) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	return &http.Transport{
		Proxy:                  nil,         // the environment's proxy would hide the address from the guard
		DialContext:            dial,        // the egress guard
		Protocols:              protocols,   // a custom dialer alone would switch HTTP/2 off
		DisableCompression:     true,        // 50 KB on the wire would become 50 MB in memory
		MaxIdleConnsPerHost:    idlePerHost, // the default of 2 makes a new handshake for most requests
		MaxIdleConns:           0,           // bounded by the permits and the idle timeout
		IdleConnTimeout:        idleTimeout,
		TLSHandshakeTimeout:    tlsTimeout,      // for dials that outlive their request
		MaxResponseHeaderBytes: maxAnswerHeader, // the default is 10 MiB
		TLSClientConfig: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			RootCAs:            roots,
			ClientSessionCache: tls.NewLRUClientSessionCache(1024), // a resumed handshake costs a fraction
		},
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: 3 * time.Second, // one dead connection carries many requests: find out
			PingTimeout:     3 * time.Second,
		},
	}
}

// pick returns the transport for a host, and replaces it when its time is over.
func (t *transports) pick(host string, now time.Time) http.RoundTripper {
	shard := &t.shards[maphash.String(t.seed, host)%transportShards]
	current := shard.Load()
	if now.Before(current.until) {
		return current.transport
	}
	next := &generation{transport: t.make(), until: now.Add(t.life)}
	if !shard.CompareAndSwap(current, next) {
		return shard.Load().transport
	}
	current.transport.CloseIdleConnections()
	return next.transport
}

// close ends idle connections; those in use end with their request.
func (t *transports) close() {
	for i := range t.shards {
		t.shards[i].Load().transport.CloseIdleConnections()
	}
}
