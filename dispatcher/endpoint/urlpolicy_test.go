package endpoint

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

var devPolicy = URLPolicy{HTTP: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}

func TestNormalizeKeepsPathAndQuery(t *testing.T) {
	cases := map[string]string{
		" https://App.Example/a//b/../c%2Fd?x=%41&y=a+b#frag \n": "https://app.example/a//b/../c%2Fd?x=%41&y=a+b",
		"https://app.example":                            "https://app.example",
		"https://app.example:443/":                       "https://app.example/",
		"https://app.example:8443/":                      "https://app.example:8443/",
		"HTTPS://b\u00fccher.example/caf\u00e9?q=\u00e9": "https://xn--bcher-kva.example/caf%C3%A9?q=%C3%A9",
		"https://app.example/x?":                         "https://app.example/x?",
	}
	for raw, want := range cases {
		got, err := URLPolicy{}.Normalize(raw)
		if err != nil || got != want {
			t.Errorf("Normalize(%q) = %q, %v; want %q", raw, got, err, want)
		}
		if again, err := (URLPolicy{}).Normalize(got); err != nil || again != got {
			t.Errorf("Normalize(%q) is not stable: %q, %v", got, again, err)
		}
	}
}

func TestRefusedURLsSayWhy(t *testing.T) {
	cases := []struct{ raw, code string }{
		{"http://app.example/", RefusedScheme},
		{"ftp://app.example/", RefusedScheme},
		{"//app.example/", RefusedScheme},
		{"app.example/x", RefusedScheme},
		{"", RefusedScheme},
		{"mailto:a@b.example", RefusedSyntax},
		{"https:app.example", RefusedSyntax},
		{"https://%zz/", RefusedSyntax},
		{"https://user:pw@app.example/", RefusedUserinfo},
		{"https://@app.example/", RefusedUserinfo},
		{"https://app.example/a b", RefusedCharacters},
		{"https://app.example/a\tb", RefusedCharacters},
		{"https://app.example/a\r\nX: y", RefusedCharacters},
		{"https://app.example/a\x00", RefusedCharacters},
		{"https://app.example\\@evil.example/", RefusedCharacters},
		{"https://app.example/" + strings.Repeat("a", MaxURLLen), RefusedLength},
		{"https://app.example/" + strings.Repeat("\u00e9", MaxURLLen/3), RefusedLength},
		{"https:///x", RefusedHost},
		{"https://a,b.example/", RefusedHost},
		{"https://app.example./", RefusedHost},
		{"https://a..example/", RefusedHost},
		{"https://-a.example/", RefusedHost},
		{"https://a_b.example/", RefusedHost},
		{"https://" + strings.Repeat("a", 64) + ".example/", RefusedHost},
		{"https://" + strings.Repeat("abcdefghi.", 26) + "example/", RefusedHost},
		{"https://2130706433/", RefusedHost},
		{"https://0x7f000001/", RefusedHost},
		{"https://0177.0.0.1/", RefusedHost},
		{"https://127.1/", RefusedHost},
		{"https://0x7f.1/", RefusedHost},
		{"https://1.2.3.0x4/", RefusedHost},
		{"https://127.0.0.1/", RefusedLiteral},
		{"https://\uff11\uff12\uff17.0.0.1/", RefusedLiteral},
		{"https://93.184.216.34/", RefusedLiteral},
		{"https://[::1]/", RefusedLiteral},
		{"https://[::ffff:169.254.169.254]/", RefusedLiteral},
		{"https://[fe80::1%25eth0]/", RefusedHost},
		{"https://localhost/", RefusedInternal},
		{"https://LOCALHOST/", RefusedInternal},
		{"https://receiver/", RefusedInternal},
		{"https://a.localhost/", RefusedInternal},
		{"https://metadata.google.internal/", RefusedInternal},
		{"https://kafka.ns.svc/", RefusedInternal},
		{"https://printer.local/", RefusedInternal},
		{"https://x.onion/", RefusedInternal},
		{"https://app.example:0/", RefusedPort},
		{"https://app.example:080/", RefusedPort},
		{"https://app.example:/", RefusedPort},
		{"https://app.example:99999/", RefusedPort},
		{"https://app.example:22/", RefusedPort},
		{"https://app.example:80/", RefusedPort},
		{"https://app.example:6379/", RefusedPort},
		{"https://app.example:9092/", RefusedPort},
	}
	for _, c := range cases {
		got, err := URLPolicy{}.Normalize(c.raw)
		var refused *RefusedURL
		if !errors.As(err, &refused) || refused.Code != c.code {
			t.Errorf("Normalize(%.80q) = %q, %v; want code %s", c.raw, got, err, c.code)
		}
		if err != nil && (strings.Contains(err.Error(), "pw@") || strings.Contains(err.Error(), "/a")) {
			t.Errorf("error tells the URL: %v", err)
		}
	}
}

func TestAllowListOpensLoopbackOnAnyPort(t *testing.T) {
	for _, raw := range []string{"http://127.0.0.1:9000/x", "http://127.8.8.8:22/", "http://[::1]:6379/", "http://localhost:9092/a?b=c", "http://app.example/"} {
		if got, err := devPolicy.Normalize(raw); err != nil || got != raw {
			t.Errorf("Normalize(%q) = %q, %v", raw, got, err)
		}
	}
	for _, raw := range []string{"http://10.0.0.1/", "http://93.184.216.34/", "http://receiver:9000/", "http://a.internal/", "http://app.example:22/"} {
		if _, err := devPolicy.Normalize(raw); err == nil {
			t.Errorf("Normalize(%q) accepted", raw)
		}
	}
	private := URLPolicy{HTTP: true, Allow: []netip.Prefix{netip.MustParsePrefix("172.16.0.0/12")}}
	for _, raw := range []string{"http://receiver:9000/x", "http://172.17.0.3:80/", "http://a.svc.internal/"} {
		if _, err := private.Normalize(raw); err != nil {
			t.Errorf("private installation: Normalize(%q): %v", raw, err)
		}
	}
	if _, err := private.Normalize("http://127.0.0.1/"); err == nil {
		t.Error("loopback accepted outside the list")
	}
}

// FuzzNormalize: what is accepted is stable, has no user, no fragment and no byte that
// could split a request line.
func FuzzNormalize(f *testing.F) {
	for _, s := range []string{"https://app.example/a?b#c", "http://[::1]:80/", "https://\uff11.example", "https://a:b@c.example", "https://x.example/%2f?\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := devPolicy.Normalize(raw)
		if err != nil {
			var refused *RefusedURL
			if !errors.As(err, &refused) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		for i := range len(got) {
			if got[i] <= ' ' || got[i] >= 0x7f {
				t.Fatalf("byte %#x in %q", got[i], got)
			}
		}
		again, err := devPolicy.Normalize(got)
		if err != nil || again != got {
			t.Fatalf("%q is not stable: %q, %v", got, again, err)
		}
	})
}
