package dispatcher

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookline/hookline/dispatcher/attempt"
)

func TestGuardRefusesEveryAddressThatIsNotPublic(t *testing.T) {
	hostile := []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "100.127.255.255", "127.0.0.1", "127.8.8.8",
		"169.254.169.254", "169.254.170.2", "169.254.170.23", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.170", "192.0.0.192",
		"192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.168.0.1", "192.175.48.1", "198.18.0.1", "198.19.255.255",
		"198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16",
		"::", "::1", "::169.254.169.254", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0:7f00:1",
		"64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "100::1", "100:0:0:1::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fd00:ec2::23",
		"fd20:ce::254", "fe80::1", "fec0::1", "ff02::1", "2001::1", "2001:0:a9fe:a9fe::1", "2001:2::1", "2001:10::1", "2001:20::1",
		"2001:db8::1", "2002:a9fe:a9fe::1", "2620:4f:8000::1", "3fff::1", "4000::1", "2606:4700::5efe:7f00:1", "2606:4700::200:5efe:7f00:1",
	}
	public := []string{
		"1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.15.255.255", "172.32.0.1", "168.63.129.15",
		"192.0.1.1", "198.17.255.255", "223.255.255.255", "::ffff:8.8.8.8", "2606:4700::1111", "2a00:1450:4001::200e", "2001:200::1", "3ffe::1",
	}
	g := NewGuard(nil, nil, nil)
	for _, text := range hostile {
		var blocked *Blocked
		if err := g.Check(netip.AddrPortFrom(netip.MustParseAddr(text), 443)); !errors.As(err, &blocked) {
			t.Errorf("%s is let through: %v", text, err)
		}
		if err := g.control("tcp", netip.AddrPortFrom(netip.MustParseAddr(text), 443).String(), nil); err == nil {
			t.Errorf("%s is let through at dial", text)
		}
	}
	for _, text := range public {
		if err := g.Check(netip.AddrPortFrom(netip.MustParseAddr(text), 443)); err != nil {
			t.Errorf("%s is refused: %v", text, err)
		}
	}
	for _, bad := range []string{"", "localhost:443", "127.1:443", "8.8.8.8", "[fe80::1%eth0]:443", "[2606:4700::1111%1]:443", "8.8.8.8:99999"} {
		if g.control("tcp", bad, nil) == nil {
			t.Errorf("control lets %q through: it must fail closed", bad)
		}
	}
	if g.Check(netip.AddrPort{}) == nil {
		t.Error("no address is let through")
	}
}

func TestGuardPortsAndLists(t *testing.T) {
	g := NewGuard(prefixes("10.1.0.0/16", "8.8.0.0/16"), prefixes("8.8.4.0/24", "1.1.1.1/32"), nil)
	cases := map[string]bool{
		"9.9.9.9:443": true, "9.9.9.9:80": true, "9.9.9.9:8443": true, "9.9.9.9:22": false, "9.9.9.9:0": false, "9.9.9.9:9092": false,
		"9.9.9.9:6379": false, "10.1.2.3:6379": true, "10.2.0.1:443": false, "8.8.8.8:22": true, "8.8.4.4:443": false, "1.1.1.1:443": false,
	}
	for text, want := range cases {
		if err := g.Check(netip.MustParseAddrPort(text)); (err == nil) != want {
			t.Errorf("%s: %v, want allowed = %v", text, err, want)
		}
	}
}

// answers returns one list of addresses after the other.
func answers(lists ...[]string) resolverFunc {
	var n atomic.Int64
	return func(context.Context, string) ([]netip.Addr, error) {
		list := lists[min(int(n.Add(1))-1, len(lists)-1)]
		addrs := make([]netip.Addr, len(list))
		for i, text := range list {
			addrs[i] = netip.MustParseAddr(text)
		}
		return addrs, nil
	}
}

// listenRaw accepts connections on an address and counts them.
func listenRaw(t *testing.T, address string) (port string, accepted *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	accepted = new(atomic.Int64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port, accepted
}

func TestRebindingIsRefusedAtDial(t *testing.T) {
	// 127.0.0.2 stands for the public address: only it is allowed.
	port, internal := listenRaw(t, "127.0.0.1:0")
	_, public := listenRaw(t, "127.0.0.2:"+port)
	d := newWireDeliverer(t, func(c *SendConfig) {
		c.EgressAllow = prefixes("127.0.0.2/32")
		c.Resolver = answers([]string{"127.0.0.2"}, []string{"127.0.0.1"}, []string{"127.0.0.2", "127.0.0.1"}, []string{"::ffff:127.0.0.1"})
	})
	e := wireEndpoint("http://rebind.example:" + port)
	if r := d.Send(context.Background(), wireRequest(e)); r.ErrorClass == attempt.BlockedSSRF || public.Load() != 1 {
		t.Fatalf("the first answer is public: %+v, %d connections", r, public.Load())
	}
	for _, what := range []string{"another address", "one bad address among good ones", "a mapped address"} {
		r := d.Send(context.Background(), wireRequest(e))
		checkTellsNothing(t, r)
		var blocked *Blocked
		if r.ErrorClass != attempt.BlockedSSRF || errors.As(r.Err, &blocked) || !strings.Contains(r.ErrorText, "127.0.0.1") {
			t.Errorf("%s: %+v", what, r)
		}
	}
	if internal.Load() != 0 || public.Load() != 1 {
		t.Errorf("%d connections to the internal address, %d to the public one", internal.Load(), public.Load())
	}
}

func TestLiteralInternalAddressesAreRefused(t *testing.T) {
	port, internal := listenRaw(t, "127.0.0.1:0")
	d := newWireDeliverer(t, func(c *SendConfig) { c.EgressAllow = nil })
	for _, host := range []string{"127.0.0.1", "[::ffff:127.0.0.1]", "[::1]", "169.254.169.254", "0.0.0.0", "[::]"} {
		r := d.Send(context.Background(), wireRequest(wireEndpoint("http://"+host+":"+port)))
		checkTellsNothing(t, r)
		if r.ErrorClass != attempt.BlockedSSRF {
			t.Errorf("%s: %+v", host, r)
		}
	}
	if internal.Load() != 0 {
		t.Errorf("%d connections", internal.Load())
	}
}

func TestEnvironmentProxyIsIgnored(t *testing.T) {
	port, proxied := listenRaw(t, "127.0.0.1:0")
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:"+port)
	}
	rec, base := newWireServer(t, nil)
	d := newWireDeliverer(t, func(c *SendConfig) { c.Resolver = answers([]string{"127.0.0.1"}) })
	_, target, _ := strings.Cut(strings.TrimPrefix(base, "http://"), ":")
	if r := d.Send(context.Background(), wireRequest(wireEndpoint("http://app.example:"+target))); !r.Success() {
		t.Errorf("result = %+v", r)
	}
	if proxied.Load() != 0 || rec.count() != 1 {
		t.Errorf("%d requests went to the proxy", proxied.Load())
	}
}

func TestDialFallsBackToTheOtherAddressFamily(t *testing.T) {
	rec, base := newWireServer(t, nil)
	_, port, _ := strings.Cut(strings.TrimPrefix(base, "http://"), ":")
	for _, list := range [][]string{{"::1", "127.0.0.1"}, {"127.0.0.9", "127.0.0.1"}, {"::1", "127.0.0.9", "127.0.0.1"}} {
		d := newWireDeliverer(t, func(c *SendConfig) { c.Resolver = answers(list) })
		r := d.Send(context.Background(), wireRequest(wireEndpoint("http://app.example:"+port)))
		if !r.Success() || r.DNS == 0 || r.Connect == 0 || r.Reused || r.Total >= 2*time.Second {
			t.Errorf("%v: %+v", list, r)
		}
	}
	if rec.count() != 3 {
		t.Errorf("%d deliveries", rec.count())
	}
	none := newWireDeliverer(t, func(c *SendConfig) { c.Resolver = answers([]string{"::1", "127.0.0.9"}) })
	r := none.Send(context.Background(), wireRequest(wireEndpoint("http://app.example:"+port)))
	checkTellsNothing(t, r)
	if r.ErrorClass != attempt.ConnectRefused {
		t.Errorf("nobody listens: %+v", r)
	}
}
