package endpoint

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// MaxURLLen bounds the URL of an endpoint.
const MaxURLLen = 2048

// RefusedURL says why a URL may not be an endpoint's. Its text never holds the URL: paths
// and queries of webhook URLs carry tokens.
type RefusedURL struct {
	Code   string // one of the Refused constants
	Reason string
}

// Codes of RefusedURL.
const (
	RefusedSyntax     = "syntax"
	RefusedLength     = "length"
	RefusedCharacters = "characters"
	RefusedScheme     = "scheme"
	RefusedUserinfo   = "userinfo"
	RefusedHost       = "host"
	RefusedInternal   = "internal_name"
	RefusedLiteral    = "ip_literal"
	RefusedPort       = "port"
)

func (e *RefusedURL) Error() string { return "refused url (" + e.Code + "): " + e.Reason }

func refuse(code, format string, args ...any) error {
	return &RefusedURL{Code: code, Reason: fmt.Sprintf(format, args...)}
}

// URLPolicy says which URLs an endpoint may have. It judges the text only; the addresses
// that a name resolves to are judged at each dial.
type URLPolicy struct {
	// HTTP lets endpoints use http://.
	HTTP bool
	// Allow lists private networks that deliveries may reach. An IP literal must lie in one
	// of them. A list with more than loopback in it marks a private installation: single
	// labels, internal suffixes and any port are then accepted, and the guard at dial decides.
	Allow []netip.Prefix
	// Ports are accepted beside 443, 80 (with HTTP) and the unreserved ones.
	Ports []int
}

// refusedPorts are services above 1023 that a signed POST must not be aimed at: zookeeper,
// etcd, mysql, postgres, redis, clickhouse, kafka, elasticsearch, memcached, mongodb.
var refusedPorts = []int{2181, 2379, 3306, 5432, 6379, 8123, 9000, 9092, 9093, 9094, 9200, 11211, 27017}

// Normalize checks raw and returns the form to store and to send to: outer blanks and the
// fragment are gone, the host is its lower-case A-label, a default port is left out, path
// and query stay byte for byte (non-ASCII percent-encoded). The error is a *RefusedURL.
func (p URLPolicy) Normalize(raw string) (string, error) {
	trimmed := strings.Trim(raw, " \t\r\n")
	if len(trimmed) > MaxURLLen {
		return "", refuse(RefusedLength, "longer than %d bytes", MaxURLLen)
	}
	for i := range len(trimmed) {
		if c := trimmed[i]; c <= ' ' || c == 0x7f || c == '\\' {
			return "", refuse(RefusedCharacters, "holds a blank, a control character or a backslash")
		}
	}
	u, err := url.Parse(trimmed)
	if err != nil || u.Opaque != "" {
		return "", refuse(RefusedSyntax, "not a URL of the form https://host/path") // err would quote it
	}
	switch {
	case u.Scheme == "http" && !p.HTTP:
		return "", refuse(RefusedScheme, "http is switched off; use https")
	case u.Scheme != "https" && u.Scheme != "http":
		return "", refuse(RefusedScheme, "want https")
	case u.User != nil:
		return "", refuse(RefusedUserinfo, "user and password do not belong in a URL; use a header")
	}
	if u.Host, err = p.normalizeHost(u); err != nil {
		return "", err
	}
	u.Fragment, u.RawFragment = "", ""
	u.RawQuery = encodeNonASCII(u.RawQuery)
	clean := u.String()
	if len(clean) > MaxURLLen {
		return "", refuse(RefusedLength, "longer than %d bytes once encoded", MaxURLLen)
	}
	return clean, nil
}

// normalizeHost returns host and port in the stored form.
func (p URLPolicy) normalizeHost(u *url.URL) (string, error) {
	host, local, err := p.hostname(u.Hostname())
	if err != nil {
		return "", err
	}
	port, err := p.port(u, local || p.private())
	if err != nil {
		return "", err
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port != "" {
		host += ":" + port
	}
	return host, nil
}

// port returns the port to write, empty for the default one. anyPort is for destinations
// that the operator has opened.
func (p URLPolicy) port(u *url.URL, anyPort bool) (string, error) {
	text := u.Port()
	if text == "" {
		if strings.HasSuffix(u.Host, ":") {
			return "", refuse(RefusedPort, "empty port")
		}
		return "", nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 65535 || text[0] == '0' {
		return "", refuse(RefusedPort, "not a port between 1 and 65535")
	}
	if !anyPort && !p.PortAllowed(n) {
		return "", refuse(RefusedPort, "port %d is not for webhooks", n)
	}
	if u.Scheme == "https" && n == 443 || u.Scheme == "http" && n == 80 {
		return "", nil
	}
	return text, nil
}

// PortAllowed reports whether a public destination may have this port.
func (p URLPolicy) PortAllowed(port int) bool {
	switch {
	case slices.Contains(p.Ports, port), port == 443, port == 80 && p.HTTP:
		return true
	default:
		return port >= 1024 && port <= 65535 && !slices.Contains(refusedPorts, port)
	}
}

// private reports whether Allow opens more than loopback.
func (p URLPolicy) private() bool {
	return slices.ContainsFunc(p.Allow, func(n netip.Prefix) bool { return !n.Addr().IsLoopback() })
}

func (p URLPolicy) allowed(addr netip.Addr) bool {
	addr = addr.Unmap()
	return slices.ContainsFunc(p.Allow, func(n netip.Prefix) bool { return n.Contains(addr) })
}

func encodeNonASCII(query string) string {
	var out []byte
	for i := range len(query) {
		if c := query[i]; c >= 0x80 {
			if out == nil {
				out = append(make([]byte, 0, 2*len(query)), query[:i]...)
			}
			out = fmt.Appendf(out, "%%%02X", c)
		} else if out != nil {
			out = append(out, c)
		}
	}
	if out == nil {
		return query
	}
	return string(out)
}
