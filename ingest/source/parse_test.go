package source

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

func TestTheExampleOfTheContract(t *testing.T) {
	t.Parallel()
	spec := parseOne(t, `scheme: stripe
secrets: ["env:STRIPE_EU"]
tolerance: 5m
event_type: json:type
message_id: json:data.object.id
event_id: json:id
require: [{path: data.object.id, type: string, max_len: 255}]
allow_cidrs: []
success: {status: 200, body: ""}`)
	if spec.Tolerance != 5*time.Minute || spec.Success.Status != 200 || len(spec.Require) != 1 || len(spec.AllowCIDRs) != 0 || spec.Secrets[0] != "env:STRIPE_EU" {
		t.Errorf("%+v", spec)
	}
	spec = parseOne(t, `scheme: hmac
secrets: [s]
event_type: json:type
message_id: json:id
derive_id: [json:type, json:data.object.id, json:created]
allow_cidrs: [10.0.0.0/8, "2001:db8::/32", 192.0.2.1]
hmac: {header: X-Signature, prefix: "sha256=", encoding: hex, algorithm: sha256, signed: "{timestamp}.{body}", timestamp: header:X-Time}`)
	if len(spec.AllowCIDRs) != 3 || spec.AllowCIDRs[2] != netip.MustParsePrefix("192.0.2.1/32") || len(spec.Warnings()) != 0 {
		t.Errorf("%+v %v", spec, spec.Warnings())
	}
}

func TestListsInsideBraces(t *testing.T) {
	t.Parallel()
	var v any
	if err := yaml.Unmarshal([]byte(`x: {tenant: dev, scheme: stripe, secrets: [env:A, file:/b:c], event_type: [const:stripe, json:type, json:sub?], derive_id: [json:type, json:created], allow_cidrs: [2001:db8::/32]}`), &v); err != nil {
		t.Fatal(err)
	}
	specs, err := Parse(v)
	if err != nil {
		t.Fatal(err)
	}
	if s := specs[0]; !slices.Equal(s.Secrets, []string{"env:A", "file:/b:c"}) || len(s.EventType) != 3 || !s.EventType[2].Optional || s.DeriveID[1].String() != "json:created" || len(s.AllowCIDRs) != 1 {
		t.Errorf("%+v", s)
	}
}

func TestEveryFaultIsToldWithItsPath(t *testing.T) {
	t.Parallel()
	const text = `
bad name: {}
a:
  tenant: "x y"
  scheme: githup
  secrets: []
  tolerance: 0s
  success: {status: 404, body: 1, more: 1}
  allow_cidrs: [10.0.0.1/8, nope, "::ffff:10.0.0.0/104"]
  require: [{path: a..b}, {path: a, type: text}, {path: a, type: number, max_len: 3}, 5]
  hook: 1
b:
  tenant: dev
  scheme: hmac
  secrets: [s]
  event_type: [const:a b, cookie:x]
  message_id: json:a..b
  event_id: const:x
  derive_id: [json:x]
  hmac: {header: "a b", encoding: hax, algorithm: md5, signed: "{timestamp}", timestamp: cookie:x}
c: {tenant: dev, scheme: hmac, secrets: [s]}
d: {tenant: dev, scheme: stripe, secrets: [s], hmac: {header: x}, success: {status: 204, body: x}}
e: {tenant: dev, scheme: hmac, secrets: [s], event_type: "const:a", message_id: "const:m", derive_id: [], hmac: {header: x, signed: "{body}", timestamp: "header:x"}}
f: {tenant: dev, scheme: hmac, secrets: [s], event_type: "const:a", message_id: "const:m", event_id: "json:id", hmac: {header: x, signed: "{timestamp}{body}"}}
g: {tenant: dev, scheme: hmac, secrets: [s], event_type: "const:a", message_id: "const:m", event_id: "json:id", hmac: {header: x, signed: "{timestamp}{body}", timestamp: "json:at"}}
h: text
`
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	_, err := Parse(v)
	var got []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		path, _, _ := strings.Cut(line, ": ")
		got = append(got, path)
	}
	for _, want := range []string{"bad name", "a.tenant", "a.scheme", "a.secrets", "a.tolerance", "a.success.status", "a.success.more", "a.allow_cidrs[0]", "a.allow_cidrs[1]", "a.allow_cidrs[2]",
		"a.require[0].path", "a.require[1].type", "a.require[2].max_len", "a.require[3]", "a.hook",
		"b.event_type", "b.event_type[1]", "b.message_id", "b.event_id", "b.derive_id", "b.hmac.header", "b.hmac.encoding", "b.hmac.algorithm", "b.hmac.signed", "b.hmac.timestamp",
		"c.hmac", "c.event_type", "c.message_id", "c.event_id", "d.hmac", "d.success.body", "e.derive_id", "e.hmac.timestamp", "f.hmac.timestamp", "g.hmac.timestamp", "h"} {
		if !slices.Contains(got, want) {
			t.Errorf("nothing is said of %s", want)
		}
	}
	var setting *SettingError
	if !errors.As(err, &setting) {
		t.Errorf("error is a %T", err)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	const base = "scheme: hmac\nsecrets: [s]\nevent_type: const:a\nmessage_id: const:m\nhmac: {header: X, signed: '{timestamp}{body}', timestamp: header:T}\nderive_id: "
	for derive, want := range map[string]int{
		"[json:type, json:data.id]": 1, "[json:type, json:created]": 0, "[json:created_at]": 0, "[json:a.createdAt]": 0, "[json:state, json:at]": 0,
		"[header:X-Request-Timestamp]": 0, "[json:event.ts]": 0, "[json:format]": 1, "[json:updates]": 1, "[json:eventDate]": 0, "[json:status]": 1,
	} {
		spec := parseOne(t, base+derive)
		if got := spec.Warnings(); len(got) != want {
			t.Errorf("%s: %v", derive, got)
		}
	}
	spec := parseOne(t, "scheme: hmac\nsecrets: [s]\nevent_type: const:a\nmessage_id: const:m\nevent_id: json:id\nhmac: {header: X, algorithm: sha1}\ntrusted_proxies: [10.0.0.0/8]")
	if got := spec.Warnings(); len(got) != 3 {
		t.Errorf("%v", got)
	}
}

func TestSecretsThatDoNotFit(t *testing.T) {
	t.Parallel()
	standard := Spec{Scheme: SchemeStandardWebhooks}
	for _, bad := range []string{"", "whsec_", "whsec_%%%", "whsk_AAAA", "whpk_AAAA", "not base64!"} {
		err := standard.CheckSecret(bad)
		if err == nil || len(bad) > 6 && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	hexed := Spec{Scheme: SchemeHMAC, HMAC: HMAC{SecretEncoding: "hex"}}
	if hexed.CheckSecret("xyz") == nil || hexed.CheckSecret("00ff") != nil {
		t.Error("hex is not checked")
	}
	if (&Spec{Scheme: SchemeGitHub}).CheckSecret("") == nil {
		t.Error("an empty secret is taken")
	}
}
