package source

import (
	"net/netip"
	"slices"
	"strings"
)

func within(list []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// clientOf is the address that a request comes from. Each proxy appends the address that it
// saw, so the list is read from its end for as long as trusted proxies wrote it: what stands
// before that, anyone may have sent. The zero Addr, which no prefix holds, is a list that
// cannot be read.
func clientOf(peer netip.Addr, forwarded []string, trusted []netip.Prefix) netip.Addr {
	addr := peer.Unmap().WithZone("")
	hops := strings.Split(strings.Join(forwarded, ","), ",")
	for i := len(hops) - 1; i >= 0 && within(trusted, addr); i-- {
		hop := strings.TrimSpace(hops[i])
		if hop == "" {
			break
		}
		next, err := netip.ParseAddr(hop)
		if err != nil {
			withPort, err := netip.ParseAddrPort(hop)
			if err != nil {
				return netip.Addr{}
			}
			next = withPort.Addr()
		}
		addr = next.Unmap().WithZone("")
	}
	return addr
}
