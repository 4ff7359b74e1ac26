package endpoint

import (
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

const maxHostLen = 253

// internalSuffixes are last labels that never name a public host.
var internalSuffixes = []string{"localhost", "local", "internal", "svc", "onion", "home", "lan", "corp", "intranet"}

// hosts maps as browsers do (UTS 46, full-width digits become ASCII), but lets labels such
// as r3---sn through, which exist.
var hosts = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false),
	idna.StrictDomainName(true), idna.CheckHyphens(false))

// hostname returns the stored form of a host; local says that the operator opened it by
// address (an IP literal of the allow-list, or localhost where loopback is allowed).
func (p URLPolicy) hostname(host string) (clean string, local bool, err error) {
	if host == "" {
		return "", false, refuse(RefusedHost, "has no host")
	}
	if strings.ContainsAny(host, "%,") {
		return "", false, refuse(RefusedHost, "holds a zone, a percent sign or a comma")
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return p.literal(addr)
	}
	name, err := hosts.ToASCII(host)
	if err != nil || !utf8.ValidString(host) {
		return "", false, refuse(RefusedHost, "not a host name")
	}
	// What is stored is read again: a form that maps further would be another host then.
	if again, err := hosts.ToASCII(name); err != nil || again != name {
		return "", false, refuse(RefusedHost, "not a host name")
	}
	if addr, err := netip.ParseAddr(name); err == nil { // full-width digits, folded
		return p.literal(addr)
	}
	if name == "localhost" {
		if !p.allowed(netip.AddrFrom4([4]byte{127, 0, 0, 1})) && !p.allowed(netip.IPv6Loopback()) {
			return "", false, refuse(RefusedInternal, "localhost is not in the egress allow-list")
		}
		return name, true, nil
	}
	if err := p.checkName(name); err != nil {
		return "", false, err
	}
	return name, false, nil
}

func (p URLPolicy) literal(addr netip.Addr) (string, bool, error) {
	if addr.Zone() != "" {
		return "", false, refuse(RefusedHost, "holds a zone")
	}
	addr = addr.Unmap()
	if !p.allowed(addr) {
		return "", false, refuse(RefusedLiteral, "an IP address is accepted only inside the egress allow-list")
	}
	return addr.String(), true, nil
}

func (p URLPolicy) checkName(name string) error {
	if len(name) > maxHostLen {
		return refuse(RefusedHost, "host name longer than %d bytes", maxHostLen)
	}
	if strings.HasSuffix(name, ".") {
		return refuse(RefusedHost, "host name ends in a dot")
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return refuse(RefusedHost, "not a host name")
		}
	}
	last := labels[len(labels)-1]
	// Some resolvers read such names as addresses: 2130706433, 0x7f.1, 127.1.
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return refuse(RefusedHost, "host name ends in a number")
	}
	if p.private() {
		return nil
	}
	if len(labels) < 2 {
		return refuse(RefusedInternal, "host name has one label")
	}
	if slices.Contains(internalSuffixes, last) {
		return refuse(RefusedInternal, "host name under .%s", last)
	}
	return nil
}
