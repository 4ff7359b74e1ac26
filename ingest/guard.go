package ingest

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// guard is the listener in front of the HTTP server. It bounds the open connections, in all
// and of one address, and outlives a shortage of file descriptors: fasthttp takes any error
// of Accept as the end of the listener, and whoever can open connections could cause one.
type guard struct {
	net.Listener
	most, mostOfOne int  // connections; mostOfOne 0 = no bound
	silent          bool // a refusal is not said: it would be plain text to a TLS client
	log             *slog.Logger
	refused         map[string]prometheus.Counter // by reason
	closed          chan struct{}
	close           func() error
	muted           throttle
	lingering       chan struct{} // holds one per refused connection that is still open

	mu   sync.Mutex // guards the fields below
	open int
	of   map[netip.Prefix]int // open connections of an address
}

const (
	refusedTotal   = "total"
	refusedAddress = "address"
	refusedSystem  = "system" // Accept failed, as for want of descriptors
)

var refusalReasons = []string{refusedTotal, refusedAddress, refusedSystem}

// sendBuffer bounds what the kernel keeps for a client that asks and never reads: by itself it
// would let that grow to megabytes, until the memory of all connections is short.
const sendBuffer = 64 << 10

const (
	mostLingering  = 64
	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = 500 * time.Millisecond
)

func newGuard(ln net.Listener, cfg Config, silent bool, m *metrics, log *slog.Logger) *guard {
	g := &guard{
		Listener: ln, most: cfg.MaxConnections, mostOfOne: cfg.MaxConnectionsPerAddress, silent: silent, log: log, refused: m.refused,
		closed: make(chan struct{}), lingering: make(chan struct{}, mostLingering), of: map[netip.Prefix]int{},
	}
	g.close = sync.OnceValue(func() error {
		close(g.closed)
		return ln.Close()
	})
	return g
}

// Close closes the listener; connections stay.
func (g *guard) Close() error { return g.close() }

// Accept returns the next connection that is within the bounds.
func (g *guard) Accept() (net.Conn, error) {
	pause := acceptPauseMin
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			if !passing(err) {
				return nil, err
			}
			g.refused[refusedSystem].Inc()
			if n, ok := g.muted.pass(time.Now()); ok {
				g.log.Error("connections cannot be taken", "error", err, "like_it_since_last", n)
			}
			select {
			case <-g.closed:
				return nil, net.ErrClosed
			case <-time.After(pause):
			}
			pause = min(2*pause, acceptPauseMax)
			continue
		}
		pause = acceptPauseMin
		from := addressOf(conn)
		if p, reason := g.enter(from); p != nil {
			g.refused[reason].Inc()
			g.refuse(conn, p)
			continue
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(sendBuffer) // without it all works as well
		}
		return &guarded{Conn: conn, leave: sync.OnceFunc(func() { g.left(from) })}, nil
	}
}

// passing says whether a later Accept may succeed.
func passing(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EINTR, syscall.EPERM, syscall.EPROTO} {
		if errors.Is(err, e) {
			return true
		}
	}
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}

// addressOf is what counts as one address: of IPv6 the 64 bits that one customer gets.
func addressOf(conn net.Conn) netip.Prefix {
	tcp, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(ip, bits).Masked()
}

func (g *guard) enter(from netip.Prefix) (p *problem, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.mostOfOne > 0 && g.of[from] >= g.mostOfOne:
		return errConnectionsOfOne, refusedAddress
	case g.open >= g.most:
		return errConnections, refusedTotal
	}
	g.open++
	g.of[from]++
	return nil, ""
}

func (g *guard) left(from netip.Prefix) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open--
	if g.of[from]--; g.of[from] == 0 {
		delete(g.of, from)
	}
}

func (g *guard) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

// refuse says why and closes. A few are closed in time, so that the client sees the answer;
// under an attack there is no time for that.
func (g *guard) refuse(conn net.Conn, p *problem) {
	if g.silent {
		_ = conn.Close()
		return
	}
	_ = conn.SetDeadline(time.Now().Add(swallowTime)) // never blocks: nothing was written before
	_, _ = conn.Write(p.wire())
	select {
	case g.lingering <- struct{}{}:
	default:
		_ = conn.Close()
		return
	}
	go func() {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
		swallow(conn, -1)
		_ = conn.Close()
		<-g.lingering
	}()
}

// guarded is a connection that is counted until it is closed.
type guarded struct {
	net.Conn
	leave func()
}

func (c *guarded) Close() error {
	err := c.Conn.Close()
	c.leave()
	return err
}
