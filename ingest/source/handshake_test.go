package source

import (
	"net/netip"
	"strings"
	"testing"
)

func TestSlackChallenge(t *testing.T) {
	t.Parallel()
	s := makeSource(t, "scheme: slack\nsecrets: [s]")
	for body, want := range map[string]string{
		`{"token":"Jhj5dZrVaK7ZwHHjRyZWjbDl","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P","type":"url_verification"}`: "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P",
		`{"challenge":"x","type":"event_callback","text":"url_verification"}`:                                                               "",
		`{"challenge":"x\n","type":"url_verification"}`:                                                                                     "",
		`{"challenge":1,"type":"url_verification"}`:                                                                                         "",
		`{"challenge":"a","challenge":"b","type":"url_verification"}`:                                                                       "",
		`{"challenge":"` + strings.Repeat("x", 1025) + `","type":"url_verification"}`:                                                       "",
		`url_verification`: "",
	} {
		if got, ok := s.SlackChallenge(post(body)); got != want && ok || ok != (want != "") {
			t.Errorf("%s: %q %t", body, got, ok)
		}
	}
	other := makeSource(t, "scheme: github\nsecrets: [s]")
	if _, ok := other.SlackChallenge(post(`{"challenge":"x","type":"url_verification"}`)); ok {
		t.Error("another scheme answers it")
	}
}

func TestGetChallenge(t *testing.T) {
	t.Parallel()
	open := makeSource(t, "scheme: github\nsecrets: [s]")
	guarded := makeSource(t, "scheme: github\nsecrets: [s]\nverify_token: tok")
	for query, want := range map[string][2]string{
		"challenge=abc":     {"abc", CodeBadSignature},
		"hub.challenge=abc": {"abc", CodeBadSignature},
		"hub.challenge=abc&challenge=x&hub.verify_token=a":            {"abc", CodeBadSignature},
		"hub.challenge=abc&hub.verify_token=tok":                      {"abc", "abc"},
		"hub.challenge=abc&hub.verify_token=tok&hub.verify_token=tok": {"abc", CodeBadSignature},
		"challenge=a&challenge=a":                                     {"invalid_field", "invalid_field"},
		"challenge=":                                                  {"invalid_field", "invalid_field"},
		"challenge=\n":                                                {"invalid_field", "invalid_field"},
		"":                                                            {"missing_field", "missing_field"},
	} {
		values := map[string][]string{}
		for pair := range strings.SplitSeq(query, "&") {
			if name, v, ok := strings.Cut(pair, "="); ok {
				values[name] = append(values[name], v)
			}
		}
		q := func(name string) (string, int) {
			if len(values[name]) == 0 {
				return "", 0
			}
			return values[name][0], len(values[name])
		}
		for i, s := range []*Source{open, guarded} {
			got, err := s.Challenge(q)
			if err != nil {
				got = codeOf(t, err)
			}
			if got != want[i] {
				t.Errorf("%q, guarded %d: %q, want %q", query, i, got, want[i])
			}
		}
	}
}

func TestAllows(t *testing.T) {
	t.Parallel()
	const list = "scheme: github\nsecrets: [s]\nallow_cidrs: [192.0.2.0/24, '2001:db8::/32']\n"
	direct, proxied := makeSource(t, list), makeSource(t, list+"trusted_proxies: [10.0.0.0/8]")
	if !makeSource(t, "scheme: github\nsecrets: [s]").Allows(netip.MustParseAddr("203.0.113.9"), nil) {
		t.Error("without a list somebody is refused")
	}
	for _, row := range []struct {
		peer, forwarded string
		direct, proxied bool
	}{
		{"192.0.2.7", "", true, true},
		{"::ffff:192.0.2.7", "", true, true},
		{"2001:db8::1", "", true, true},
		{"203.0.113.9", "", false, false},
		{"203.0.113.9", "192.0.2.7", false, false},
		{"10.0.0.1", "192.0.2.7", false, true},
		{"10.0.0.1", "192.0.2.7, 10.2.3.4", false, true},
		{"10.0.0.1", "192.0.2.7, 203.0.113.9", false, false},
		{"10.0.0.1", "nonsense, 192.0.2.7:1234", false, true},
		{"10.0.0.1", "192.0.2.7, nonsense", false, false},
		{"10.0.0.1", "[2001:db8::5]:80", false, true},
		{"10.0.0.1", "", false, false},
		{"192.0.2.7", "203.0.113.9", true, true},
	} {
		for i, s := range []*Source{direct, proxied} {
			if got := s.Allows(netip.MustParseAddr(row.peer), []string{row.forwarded}); got != [...]bool{row.direct, row.proxied}[i] {
				t.Errorf("%s for %q, proxied %d: %t", row.peer, row.forwarded, i, got)
			}
		}
	}
}
