package dispatcher

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/hookline/hookline/dispatcher/endpoint"
)

// Dial limits. The transport detaches a dial from the request that caused it, so a dial has
// a limit of its own.
const (
	dialTimeout   = 15 * time.Second
	dialAtLeast   = 2 * time.Second        // for one address, while several are left
	fallbackDelay = 300 * time.Millisecond // before the other address family is tried too
)

// deniedV4 lists what is not the public IPv4 internet, and one public address that clouds
// answer on (168.63.129.16, the Azure host).
var deniedV4 = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
	"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
)

// publicV6 is the only IPv6 space that is handed out: all that embeds or translates IPv4
// outside it (::/96, 64:ff9b::/96, 64:ff9b:1::/48), unique local, link local and multicast
// addresses fall away at once.
var publicV6 = netip.MustParsePrefix("2000::/3")

// deniedV6 lists what is special inside publicV6: Teredo, ORCHID and benchmarking,
// documentation, 6to4, the AS112 anycast and documentation again.
var deniedV6 = prefixes("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		list[i] = netip.MustParsePrefix(t)
	}
	return list
}

// Blocked is the refusal of a destination. It is a verdict about an address, never about a
// URL: its text holds no path.
type Blocked struct {
	Addr   netip.Addr // invalid when the address could not be read
	Reason string
}

func (b *Blocked) Error() string {
	if !b.Addr.IsValid() {
		return "blocked: " + b.Reason
	}
	return "blocked " + b.Addr.String() + ": " + b.Reason
}

// Resolver is the part of *net.Resolver that the guard uses.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Guard dials, and refuses every address that deliveries must not reach. A name is judged by
// what it resolves to at each dial, since a check at registration is bypassed by an answer
// that changes; it is refused when any of its addresses is. Safe for concurrent use.
type Guard struct {
	allow    []netip.Prefix
	deny     []netip.Prefix
	ports    endpoint.URLPolicy
	resolver Resolver
	dialer   net.Dialer
}

// NewGuard makes a guard. allow opens private networks (any port), deny closes public ones
// and wins over allow. A nil resolver is the pure Go one: the resolver of the C library
// reads "127.1" and "0x7f000001" as loopback.
func NewGuard(allow, deny []netip.Prefix, resolver Resolver) *Guard {
	if resolver == nil {
		resolver = &net.Resolver{PreferGo: true}
	}
	g := &Guard{
		allow: slices.Clone(allow), deny: slices.Clone(deny),
		ports:    endpoint.URLPolicy{HTTP: true},
		resolver: resolver,
	}
	g.dialer = net.Dialer{Timeout: dialTimeout, Control: g.control, KeepAlive: 15 * time.Second}
	return g
}

// Check judges one address and port. The error is a *Blocked.
func (g *Guard) Check(ap netip.AddrPort) error {
	addr := ap.Addr()
	if addr.Zone() != "" {
		return &Blocked{Reason: "the address has a zone"}
	}
	addr = addr.Unmap()
	switch {
	case !addr.IsValid():
		return &Blocked{Reason: "not an address"}
	case contains(g.deny, addr):
		return &Blocked{Addr: addr, Reason: "denied by the operator"}
	case contains(g.allow, addr):
		return nil
	case addr.Is4() && contains(deniedV4, addr):
		return &Blocked{Addr: addr, Reason: "not a public address"}
	case addr.Is6() && (!publicV6.Contains(addr) || contains(deniedV6, addr) || isISATAP(addr)):
		return &Blocked{Addr: addr, Reason: "not a public address"}
	case !g.ports.PortAllowed(int(ap.Port())):
		return &Blocked{Addr: addr, Reason: "port " + strconv.Itoa(int(ap.Port())) + " is not for webhooks"}
	}
	return nil
}

func contains(list []netip.Prefix, addr netip.Addr) bool {
	for i := range list {
		if list[i].Contains(addr) {
			return true
		}
	}
	return false
}

// isISATAP reports an interface id that carries an IPv4 address (RFC 5214).
func isISATAP(addr netip.Addr) bool {
	b := addr.As16()
	id := binary.BigEndian.Uint32(b[8:12])
	return id == 0x00005efe || id == 0x02005efe
}

// control runs in each dial on the address that is about to be connected to, whatever the
// path that led there. What it cannot read it refuses.
func (g *Guard) control(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &Blocked{Reason: "not an address"}
	}
	return g.Check(ap)
}

// DialContext resolves, judges all addresses, and connects. It notes the times of a call in
// ctx. The network is always TCP.
func (g *Guard) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &Blocked{Reason: "not a host and port"}
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, &Blocked{Reason: "not a port"}
	}
	ph := phasesOf(ctx)
	addrs, err := g.resolve(ctx, ph, host)
	if err != nil {
		return nil, err
	}
	targets := make([]netip.AddrPort, len(addrs))
	for i, addr := range addrs {
		targets[i] = netip.AddrPortFrom(addr.Unmap(), uint16(port))
		if err := g.Check(netip.AddrPortFrom(addr, uint16(port))); err != nil {
			return nil, err
		}
	}
	ph.mark(&ph.connectStart)
	conn, err := g.race(ctx, targets)
	if err == nil {
		ph.mark(&ph.connectDone)
	}
	return conn, err
}

func (g *Guard) resolve(ctx context.Context, ph *phases, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	ph.mark(&ph.dnsStart)
	addrs, err := g.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err // a *net.DNSError; classify tells its text apart
	}
	ph.mark(&ph.dnsDone)
	if len(addrs) == 0 {
		return nil, &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	}
	return addrs, nil
}

// race connects to the first family in order, and from fallbackDelay on, or once that
// failed, to the other one beside it. The first connection wins.
func (g *Guard) race(ctx context.Context, targets []netip.AddrPort) (net.Conn, error) {
	first, second := byFamily(targets)
	if len(second) == 0 {
		return g.serial(ctx, first)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result) // unbuffered: what comes too late is closed by its sender
	run := func(list []netip.AddrPort) {
		conn, err := g.serial(ctx, list)
		select {
		case results <- result{conn, err}:
		case <-ctx.Done():
			if conn != nil {
				_ = conn.Close()
			}
		}
	}
	go run(first)
	timer := time.NewTimer(fallbackDelay)
	defer timer.Stop()
	running, started := 1, false
	var firstErr error
	for {
		select {
		case <-timer.C:
		case r := <-results:
			if r.err == nil {
				return r.conn, nil
			}
			running--
			if firstErr == nil {
				firstErr = r.err
			}
			if started && running == 0 {
				return nil, firstErr
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !started {
			started = true
			running++
			go run(second)
		}
	}
}

func byFamily(targets []netip.AddrPort) (first, second []netip.AddrPort) {
	for _, t := range targets {
		if t.Addr().Is4() == targets[0].Addr().Is4() {
			first = append(first, t)
		} else {
			second = append(second, t)
		}
	}
	return first, second
}

// serial tries one address after the other; each gets its share of the time that is left.
func (g *Guard) serial(ctx context.Context, targets []netip.AddrPort) (net.Conn, error) {
	var firstErr error
	for i, t := range targets {
		conn, err := g.dialOne(ctx, t, len(targets)-i)
		if err == nil {
			return conn, nil
		}
		if firstErr == nil {
			firstErr = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, firstErr
}

func (g *Guard) dialOne(ctx context.Context, t netip.AddrPort, left int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		share := max(time.Until(deadline)/time.Duration(left), dialAtLeast)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, share)
		defer cancel()
	}
	conn, err := g.dialer.DialContext(ctx, "tcp", t.String())
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", t, err)
	}
	return conn, nil
}
