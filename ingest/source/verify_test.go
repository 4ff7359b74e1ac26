package source

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// signer makes the headers of a signed request without any code of the package.
type signer struct {
	settings string
	sign     func(secret, body string, at int64) []string
}

func sum(newHash func() hash.Hash, secret, text string) []byte {
	mac := hmac.New(newHash, []byte(secret))
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

func signers(t testing.TB) map[string]signer {
	const mapping = "\nevent_type: const:a\nmessage_id: const:m\nevent_id: header:X-Id\nhmac: "
	return map[string]signer{
		"standard-webhooks": {"scheme: standard-webhooks", func(secret, body string, at int64) []string {
			w, err := standardwebhooks.NewWebhook(secret)
			if err != nil {
				t.Fatal(err)
			}
			token, err := w.Sign("msg_1", time.Unix(at, 0), []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			return []string{"webhook-id", "msg_1", "webhook-timestamp", fmt.Sprint(at), "webhook-signature", token}
		}},
		"github": {"scheme: github", func(secret, body string, _ int64) []string {
			return []string{"X-Hub-Signature-256", "sha256=" + hex.EncodeToString(sum(sha256.New, secret, body))}
		}},
		"stripe": {"scheme: stripe", func(secret, body string, at int64) []string {
			return []string{"Stripe-Signature", fmt.Sprintf("t=%d, v1=%x", at, sum(sha256.New, secret, fmt.Sprintf("%d.%s", at, body)))}
		}},
		"slack": {"scheme: slack", func(secret, body string, at int64) []string {
			return []string{"X-Slack-Request-Timestamp", fmt.Sprint(at), "X-Slack-Signature", fmt.Sprintf("v0=%x", sum(sha256.New, secret, fmt.Sprintf("v0:%d:%s", at, body)))}
		}},
		"shopify": {"scheme: shopify", func(secret, body string, _ int64) []string {
			return []string{"X-Shopify-Hmac-SHA256", base64.StdEncoding.EncodeToString(sum(sha256.New, secret, body))}
		}},
		"hmac of the contract": {"scheme: hmac" + mapping + `{header: X-Signature, prefix: "sha256=", encoding: hex, algorithm: sha256, signed: "{timestamp}.{body}", timestamp: header:X-Time}`,
			func(secret, body string, at int64) []string {
				return []string{"X-Time", fmt.Sprint(at), "X-Signature", "sha256=" + hex.EncodeToString(sum(sha256.New, secret, fmt.Sprintf("%d.%s", at, body)))}
			}},
		"hmac sha1 base64": {"scheme: hmac" + mapping + `{header: X-Sig, encoding: base64, algorithm: sha1}`, func(secret, body string, _ int64) []string {
			return []string{"X-Sig", base64.StdEncoding.EncodeToString(sum(sha1.New, secret, body))}
		}},
		"hmac sha512, upper case, milliseconds": {"scheme: hmac" + mapping + `{header: X-Sig, algorithm: sha512, signed: "{method}{{}|{header:X-Time}|{body}", timestamp: header:x-time}`,
			func(secret, body string, at int64) []string {
				at = at * 1000
				return []string{"X-Time", fmt.Sprint(at), "X-Sig", strings.ToUpper(hex.EncodeToString(sum(sha512.New, secret, fmt.Sprintf("POST{}|%d|%s", at, body))))}
			}},
		"hmac base64url, key in hex, RFC 3339": {"scheme: hmac" + mapping + `{header: X-Sig, prefix: "HMAC-SHA256 ", encoding: base64url, secret_encoding: hex, signed: "https://h.example/v1{timestamp}{body}", timestamp: header:X-Time}`,
			func(secret, body string, at int64) []string {
				raw, err := hex.DecodeString(secret)
				if err != nil {
					t.Fatal(err)
				}
				stamp := time.Unix(at, 0).UTC().Format(time.RFC3339)
				return []string{"X-Time", stamp, "X-Sig", "HMAC-SHA256 " + base64.RawURLEncoding.EncodeToString(sum(sha256.New, string(raw), "https://h.example/v1"+stamp+body))}
			}},
	}
}

// secretOf returns a secret that every scheme takes.
func secretOf(r *rand.Rand, scheme string) string {
	raw := make([]byte, 32)
	for i := range raw {
		raw[i] = byte(r.Uint32())
	}
	if scheme == "standard-webhooks" {
		return "whsec_" + base64.StdEncoding.EncodeToString(raw)
	}
	return hex.EncodeToString(raw)
}

// TestVerifyTakesExactlyWhatASignerMade: what an independent signer made is taken, and no
// request that differs in one bit of body, time or signature is.
func TestVerifyTakesExactlyWhatASignerMade(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 7))
	for name, sg := range signers(t) {
		for range 40 {
			old, current, other := secretOf(r, name), secretOf(r, name), secretOf(r, name)
			s := makeSource(t, sg.settings+"\nsecrets: ["+old+", "+current+"]")
			body := fmt.Sprintf(`{"n":%d,"pad":%q}`, r.Uint64(), strings.Repeat("x", r.IntN(300)))
			at := int64(1_700_000_000 + r.IntN(100_000_000))
			now := time.Unix(at, 0)
			for _, secret := range []string{old, current} {
				if got := verify(t, s, post(body, sg.sign(secret, body, at)...), now); got != "" {
					t.Fatalf("%s: a signed request is %q", name, got)
				}
			}
			if got := verify(t, s, post(body, sg.sign(other, body, at)...), now); got != CodeBadSignature {
				t.Fatalf("%s: signed with another secret: %q", name, got)
			}
			headers := sg.sign(current, body, at)
			text := body
			if part := r.IntN(len(headers)/2 + 1); part == 0 {
				text = flip(r, body)
			} else {
				i := 2*part - 1
				// A bit of the header's syntax may be one that does not matter, such as the
				// blank behind a comma; only values are changed.
				before, value := cutSyntax(headers[i])
				headers[i] = before + flip(r, value)
			}
			if got := verify(t, s, post(text, headers...), now); got == "" {
				t.Fatalf("%s: taken after a changed bit: %q %q", name, text, headers)
			}
		}
	}
}

func cutSyntax(v string) (before, value string) {
	i := strings.LastIndexAny(strings.TrimRight(v, "="), "=, ")
	return v[:i+1], v[i+1:]
}

func flip(r *rand.Rand, s string) string {
	b := []byte(s)
	b[r.IntN(len(b))] ^= 1 << r.IntN(8)
	return string(b)
}

func TestSharedVectors(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/signature-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []struct {
			Name, Secret, Signature string
			ID                      string `json:"webhook_id"`
			At                      int64  `json:"webhook_timestamp"`
			Body                    []byte `json:"body_base64"`
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) == 0 {
		t.Fatal("no vectors")
	}
	for _, v := range file.Vectors {
		s := makeSource(t, "scheme: standard-webhooks\nsecrets: ["+v.Secret+"]")
		r := post(string(v.Body), "webhook-id", v.ID, "webhook-timestamp", strconv.FormatInt(v.At, 10), "webhook-signature", v.Signature)
		if got := verify(t, s, r, time.Unix(v.At, 0)); got != "" {
			t.Errorf("%s: %s", v.Name, got)
		}
	}
}

func TestHeadersThatCouldBeReadInTwoWays(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	for name, sg := range signers(t) {
		secret := secretOf(rand.New(rand.NewPCG(1, 1)), name)
		s := makeSource(t, sg.settings+"\nsecrets: ["+secret+"]")
		headers := sg.sign(secret, "{}", now.Unix())
		for i := 0; i < len(headers); i += 2 {
			twice := append(append([]string{}, headers...), headers[i], headers[i+1])
			if got := verify(t, s, post("{}", twice...), now); got != CodeBadSignature {
				t.Errorf("%s with two %s: %q", name, headers[i], got)
			}
			without := append(append([]string{}, headers[:i]...), headers[i+2:]...)
			if got := verify(t, s, post("{}", without...), now); got != CodeBadSignature {
				t.Errorf("%s without %s: %q", name, headers[i], got)
			}
		}
	}
	secret := "whsec_AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
	s := makeSource(t, "scheme: standard-webhooks\nsecrets: ["+secret+"]")
	const v9 = "v1,i5pObMUPhQoMQ5SMNSdl4DaoQc1Th1sqqGBvSgHOXsA="
	if got := verify(t, s, post("x", "webhook-id", "a.1", "webhook-timestamp", "2", "webhook-signature", v9), time.Unix(2, 0)); got != CodeBadSignature {
		t.Errorf("an id with a full stop: %q", got)
	}
	stripe := makeSource(t, "scheme: stripe\nsecrets: [s]")
	good := fmt.Sprintf("v1=%x", sum(sha256.New, "s", "1700000000.{}"))
	for header, want := range map[string]string{
		"t=1700000000," + good:                  "",
		good + ",t=1700000000":                  "",
		"t=1700000000,v1=00,v1=," + good:        "",
		"t=1,t=1700000000," + good:              CodeBadSignature,
		"t=1700000000,t=1700000000," + good:     CodeBadSignature,
		"t=1700000000":                          CodeBadSignature,
		good:                                    CodeBadSignature,
		"":                                      CodeBadSignature,
		"t=1700000000,v0" + good[2:]:            CodeBadSignature,
		"t=1700000000," + strings.ToUpper(good): CodeBadSignature,
		"t=,v1=" + fmt.Sprintf("%x", sum(sha256.New, "s", ".{}")):                           CodeBadSignature,
		"t=+1700000000,v1=" + fmt.Sprintf("%x", sum(sha256.New, "s", "+1700000000.{}")):     CodeStaleTimestamp,
		"t=1700000000.0,v1=" + fmt.Sprintf("%x", sum(sha256.New, "s", "1700000000.0.{}")):   CodeStaleTimestamp,
		"t=1700000000000,v1=" + fmt.Sprintf("%x", sum(sha256.New, "s", "1700000000000.{}")): CodeStaleTimestamp,
	} {
		if got := verify(t, stripe, post("{}", "Stripe-Signature", header), now); got != want {
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
}

func TestTimeOfTheBodyIsReadAfterTheSignature(t *testing.T) {
	t.Parallel()
	s := makeSource(t, "scheme: hmac\nsecrets: [s]\nevent_type: const:a\nmessage_id: const:m\nevent_id: json:id\nhmac: {header: X-Sig, timestamp: json:meta.at}")
	now := time.Unix(1_700_000_000, 0)
	for body, want := range map[string]string{
		`{"meta":{"at":1700000000}}`:             "",
		`{"meta":{"at":"2023-11-14T22:13:20Z"}}`: "",
		`{"meta":{"at":1600000000}}`:             CodeStaleTimestamp,
		`{"meta":{"at":1,"at":1700000000}}`:      CodeStaleTimestamp,
		`{"meta":{}}`:                            CodeStaleTimestamp,
		`no json`:                                CodeStaleTimestamp,
	} {
		sig := hex.EncodeToString(sum(sha256.New, "s", body))
		if got := verify(t, s, post(body, "X-Sig", sig), now); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
		if got := verify(t, s, post(body+" ", "X-Sig", sig), now); got != CodeBadSignature {
			t.Errorf("%s changed: %q", body, got)
		}
	}
}

func TestSecretsAreThoseOfTheMoment(t *testing.T) {
	t.Parallel()
	spec := parseOne(t, "scheme: github\nsecrets: [a]")
	now := []string{"a"}
	s, err := New(spec, func() []string { return now }, nil)
	if err != nil {
		t.Fatal(err)
	}
	try := func(secret string) string {
		return verify(t, s, post("{}", "X-Hub-Signature-256", "sha256="+hex.EncodeToString(sum(sha256.New, secret, "{}"))), time.Now())
	}
	if try("a") != "" || try("b") == "" {
		t.Error("a does not count, or b does")
	}
	now = []string{"a", "b"}
	if try("a") != "" || try("b") != "" {
		t.Error("both should count")
	}
	now = []string{"b"}
	if try("a") == "" || try("b") != "" {
		t.Error("a counts, or b does not")
	}
	if now = nil; try("") == "" || try("b") == "" {
		t.Error("something counts without a secret")
	}
}

// FuzzHeaders: no header makes a parser fail otherwise than with a refusal, and none that
// was not signed is taken.
func FuzzHeaders(f *testing.F) {
	for _, v := range []string{"t=1,v1=00,v1=11,v0=2", "v1,AA== v1a,BB== v2,x", "v0=00", "sha256=ff", "ts=1;h1=0", ",,;; ==", "t=,v1=", "v1,", " v1,a"} {
		f.Add(v, "1700000000", "id")
	}
	var sources []*Source
	for _, settings := range []string{"scheme: standard-webhooks\nsecrets: [AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=, whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=]",
		"scheme: github\nsecrets: [s]", "scheme: stripe\nsecrets: [s]", "scheme: slack\nsecrets: [s]", "scheme: shopify\nsecrets: [s]",
		"scheme: hmac\nsecrets: [s]\nevent_type: const:a\nmessage_id: const:m\nevent_id: header:x\nhmac: {header: X-Sig, prefix: 'h1=', timestamp: param:ts, signed: '{timestamp}{body}'}"} {
		sources = append(sources, makeSource(f, settings))
	}
	f.Fuzz(func(t *testing.T, signature, at, id string) {
		h := http.Header{}
		for _, name := range []string{"webhook-signature", "X-Hub-Signature-256", "Stripe-Signature", "X-Slack-Signature", "X-Shopify-Hmac-Sha256", "X-Sig"} {
			h.Set(name, signature)
		}
		h.Set("webhook-id", id)
		h.Set("webhook-timestamp", at)
		h.Set("X-Slack-Request-Timestamp", at)
		r := &Request{Method: "POST", Body: []byte("{}"), Header: func(name string) (string, int) { return h.Get(name), len(h.Values(name)) }}
		for _, s := range sources {
			if got := verify(t, s, r, time.Unix(1_700_000_000, 0)); got == "" {
				t.Fatalf("%s takes %q", s.spec.Scheme, signature)
			}
		}
		if at, tokens, ok := stripeItems(signature); ok && (at == "" || len(tokens) == 0 || len(tokens) > maxTokens) {
			t.Fatalf("%q is %q %q", signature, at, tokens)
		}
		for _, token := range hmacTokens(signature, "v1=") {
			if !strings.Contains(signature, "v1="+token) {
				t.Fatalf("%q is not in %q", token, signature)
			}
		}
	})
}

// FuzzTemplate: what is read signs the body, and filling it in keeps every literal byte.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"{body}", "{timestamp}.{body}", "v0:{timestamp}:{body}", "{{{body}}", "{header:X-A}{method}{body}", "{", "{}", "{body"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		tpl, err := parseTemplate(s)
		if err != nil {
			return
		}
		r := post("BODY", "X-A", "a")
		r.Header = func(string) (string, int) { return "H", 1 }
		parts, err := tpl.parts(r, "TIME")
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(parts, ""); !strings.Contains(got, "BODY") {
			t.Fatalf("%q signs %q", s, got)
		}
	})
}

func FuzzSelector(f *testing.F) {
	for _, s := range []string{"header:X-A", "json:a.b.0", `json:a\.b?`, "const:x", "form:a?", "json:", ":", "param:x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sel, err := ParseSelector(s)
		if err != nil {
			return
		}
		again, err := ParseSelector(sel.String())
		if err != nil && !strings.HasSuffix(sel.String(), "?") || err == nil && again.String() != sel.String() && !again.Optional {
			t.Fatalf("%q is written as %q: %v", s, sel.String(), err)
		}
		_ = sel.timely()
	})
}
