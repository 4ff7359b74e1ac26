package signature

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

type vector struct {
	Name       string `json:"name"`
	Secret     string `json:"secret"`
	Whsk       string `json:"whsk"`
	Whpk       string `json:"whpk"`
	ID         string `json:"webhook_id"`
	Timestamp  int64  `json:"webhook_timestamp"`
	BodyBase64 string `json:"body_base64"`
	Signature  string `json:"signature"`
}

func (v vector) body(t testing.TB) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(v.BodyBase64)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type vectorFile struct {
	Vectors        []vector `json:"vectors"`
	RotationHeader struct {
		Value string `json:"value"`
	} `json:"rotation_header"`
	Ed25519 vector `json:"ed25519"`
}

func loadVectors(t testing.TB) vectorFile {
	t.Helper()
	raw, err := os.ReadFile("testdata/signature-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var f vectorFile
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	const s32 = "whsec_AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
	f.Vectors = append(f.Vectors,
		vector{Name: "empty body", Secret: s32, ID: "evt_T6", Timestamp: 1784452525, Signature: "v1,nJDdkHuWDnm2UNsewp84TLHdg5D6FPAbdcITO/4XUf8="},
		vector{Name: "invalid UTF-8", Secret: s32, ID: "evt_T7", Timestamp: 1784452525, BodyBase64: "eyJ0Ijoi//4ifQ==", Signature: "v1,w4V7dAA176Tj6XRgJR6tPI7tegi3eVWdTnSsKqqsW3U="},
		vector{Name: "ambiguity, id with a stop", Secret: s32, ID: "a.1", Timestamp: 2, BodyBase64: "eA==", Signature: "v1,i5pObMUPhQoMQ5SMNSdl4DaoQc1Th1sqqGBvSgHOXsA="},
		vector{Name: "ambiguity, stop in the body", Secret: s32, ID: "a", Timestamp: 1, BodyBase64: "Mi54", Signature: "v1,i5pObMUPhQoMQ5SMNSdl4DaoQc1Th1sqqGBvSgHOXsA="},
	)
	return f
}

func mustParse(t testing.TB, s string) Key {
	t.Helper()
	k, err := ParseSecret(s)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func signed(id string, ts int64, sig string, body []byte) Signed {
	return Signed{ID: id, Timestamp: strconv.FormatInt(ts, 10), Signature: sig, Body: body}
}

func TestVectors(t *testing.T) {
	for _, v := range loadVectors(t).Vectors {
		t.Run(v.Name, func(t *testing.T) {
			k := mustParse(t, v.Secret)
			for range 2 { // a reused hash must start afresh
				if got := string(AppendSign(nil, []Key{k}, v.ID, v.Timestamp, v.body(t))); got != v.Signature {
					t.Fatalf("got %s, want %s", got, v.Signature)
				}
			}
			if err := Verify([]Key{k}, signed(v.ID, v.Timestamp, v.Signature, v.body(t)), time.Unix(v.Timestamp, 0), Tolerance); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestRotationHeader(t *testing.T) {
	f := loadVectors(t)
	byName := map[string]vector{}
	for _, v := range f.Vectors {
		byName[v.Name] = v
	}
	oldV, newV := byName["rotation, old key"], byName["rotation, new key"]
	oldKey, newKey := mustParse(t, oldV.Secret), mustParse(t, newV.Secret)
	got := string(AppendSign([]byte("kept "), []Key{newKey, oldKey}, oldV.ID, oldV.Timestamp, oldV.body(t)))
	if got != "kept "+f.RotationHeader.Value {
		t.Fatalf("got %q", got)
	}
	for _, k := range []Key{oldKey, newKey} {
		if err := Verify([]Key{k}, signed(oldV.ID, oldV.Timestamp, f.RotationHeader.Value, oldV.body(t)), time.Time{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	third := mustParse(t, NewSecret())
	if err := Verify([]Key{third}, signed(oldV.ID, oldV.Timestamp, f.RotationHeader.Value, oldV.body(t)), time.Time{}, 0); !errors.Is(err, ErrSignature) {
		t.Fatalf("a third key: %v", err)
	}
}

func TestEd25519Vector(t *testing.T) {
	v := loadVectors(t).Ed25519
	k := mustParse(t, v.Whsk)
	if got := string(AppendSign(nil, []Key{k}, v.ID, v.Timestamp, v.body(t))); got != v.Signature {
		t.Fatalf("got %s, want %s", got, v.Signature)
	}
	if k.Public() != v.Whpk {
		t.Fatalf("public half %s, want %s", k.Public(), v.Whpk)
	}
	pub, err := ParsePublic(v.Whpk)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []Key{k, pub} {
		if err := Verify([]Key{key}, signed(v.ID, v.Timestamp, v.Signature, v.body(t)), time.Time{}, 0); err != nil {
			t.Fatal(err)
		}
		if err := Verify([]Key{key}, signed(v.ID, v.Timestamp+1, v.Signature, v.body(t)), time.Time{}, 0); !errors.Is(err, ErrSignature) {
			t.Fatalf("another timestamp: %v", err)
		}
	}
	private, public := NewPrivate()
	if mustParse(t, private).Public() != public {
		t.Fatal("NewPrivate returns two halves that do not belong together")
	}
}

// TestOfficialLibraryAccepts lets the library that customers use judge our header.
func TestOfficialLibraryAccepts(t *testing.T) {
	secrets := []string{NewSecret(), NewSecret()}
	keys := []Key{mustParse(t, secrets[0]), mustParse(t, secrets[1])}
	body := []byte(`{"event":"message.delivered","message_id":"01HZY8Q3M6"}`)
	now := time.Now()
	h := http.Header{}
	h.Set(HeaderID, "evt_uX")
	h.Set(HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	h.Set(HeaderSignature, string(AppendSign(nil, keys, "evt_uX", now.Unix(), body)))
	for i, s := range append(secrets, NewSecret()) {
		wh, err := standardwebhooks.NewWebhook(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := wh.Verify(body, h); (err == nil) != (i < 2) {
			t.Fatalf("secret %d: %v", i, err)
		}
	}
	wh, err := standardwebhooks.NewWebhook(secrets[1])
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := wh.Sign("evt_uX", now, body)
	if err != nil {
		t.Fatal(err)
	}
	if err := Verify(keys, signed("evt_uX", now.Unix(), theirs, body), now, Tolerance); err != nil {
		t.Fatalf("we refuse theirs: %v", err)
	}
}

func TestParseSecretRefuses(t *testing.T) {
	b64 := func(n int) string { return base64.StdEncoding.EncodeToString(make([]byte, n)) }
	good := strings.TrimPrefix(NewSecret(), PrefixSymmetric)
	for name, s := range map[string]string{
		"empty":              "",
		"no prefix":          good,
		"empty key":          "whsec_",
		"23 bytes":           "whsec_" + b64(23),
		"65 bytes":           "whsec_" + b64(65),
		"unpadded":           "whsec_" + strings.TrimRight(b64(32), "="),
		"url alphabet":       "whsec_" + base64.URLEncoding.EncodeToString([]byte(strings.Repeat("\xff\xfe", 16))),
		"line end":           "whsec_" + good + "\n",
		"private, 32 bytes":  "whsk_" + b64(32),
		"private, bad half":  "whsk_" + b64(64),
		"public key as such": "whpk_" + b64(32),
	} {
		_, err := ParseSecret(s)
		if !errors.Is(err, ErrSecret) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && len(s) > 12 && strings.Contains(err.Error(), s[6:12]) {
			t.Errorf("%s: the error repeats the secret: %v", name, err)
		}
	}
	for _, n := range []int{24, 32, 64} {
		if _, err := ParseSecret("whsec_" + b64(n)); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for _, s := range []string{"", "whsec_" + good, "whpk_!", "whpk_" + b64(31)} {
		if _, err := ParsePublic(s); !errors.Is(err, ErrSecret) {
			t.Errorf("public %q: %v", s, err)
		}
	}
}

func TestVerifyWindowAndHeaders(t *testing.T) {
	k := []Key{mustParse(t, NewSecret())}
	const ts = 1784452525
	body := []byte("{}")
	good := signed("evt_1", ts, string(AppendSign(nil, k, "evt_1", ts, body)), body)
	for name, c := range map[string]struct {
		off  time.Duration
		edit func(s *Signed)
		want error
	}{
		"now":                {0, nil, nil},
		"300 s late":         {300 * time.Second, nil, nil},
		"301 s late":         {301 * time.Second, nil, ErrTimestamp},
		"301 s early":        {-301 * time.Second, nil, ErrTimestamp},
		"extra spaces":       {0, func(s *Signed) { s.Signature = " v1,AAAA  " + s.Signature + " " }, nil},
		"other version only": {0, func(s *Signed) { s.Signature = strings.Replace(s.Signature, "v1,", "v2,", 1) }, ErrSignature},
		"no comma":           {0, func(s *Signed) { s.Signature = "v1" }, ErrSignature},
		"other id":           {0, func(s *Signed) { s.ID = "evt_2" }, ErrSignature},
		"other body":         {0, func(s *Signed) { s.Body = []byte("{ }") }, ErrSignature},
		"milliseconds":       {0, func(s *Signed) { s.Timestamp += "000" }, ErrHeaders},
		"fraction":           {0, func(s *Signed) { s.Timestamp = "1784452.0" }, ErrHeaders},
		"sign":               {0, func(s *Signed) { s.Timestamp = "+178445252" }, ErrHeaders},
		"no timestamp":       {0, func(s *Signed) { s.Timestamp = "" }, ErrHeaders},
		"no id":              {0, func(s *Signed) { s.ID = "" }, ErrHeaders},
		"no signature":       {0, func(s *Signed) { s.Signature = "" }, ErrHeaders},
	} {
		s := good
		if c.edit != nil {
			c.edit(&s)
		}
		if err := Verify(k, s, time.Unix(ts, 0).Add(c.off), Tolerance); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if err := Verify(nil, good, time.Unix(ts, 0), Tolerance); !errors.Is(err, ErrSignature) {
		t.Errorf("no keys: %v", err)
	}
	if err := Verify([]Key{{}}, good, time.Unix(ts, 0), Tolerance); !errors.Is(err, ErrSignature) {
		t.Errorf("zero key: %v", err)
	}
}

func TestKeysStayOutOfText(t *testing.T) {
	k := mustParse(t, NewSecret())
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(format, k); !strings.Contains(got, "redacted") {
			t.Errorf("%s prints %q", format, got)
		}
	}
}

// FuzzVerify: never panics, and accepts nothing but what was signed.
func FuzzVerify(f *testing.F) {
	v := loadVectors(f).Vectors[0]
	f.Add(v.ID, "1614265330", v.Signature, v.body(f))
	f.Add("a", "1", "v1a,AAAA v1,", []byte("x"))
	k := mustParse(f, v.Secret)
	private, _ := NewPrivate()
	keys := []Key{k, mustParse(f, private)}
	f.Fuzz(func(t *testing.T, id, ts, sig string, body []byte) {
		err := Verify(keys, Signed{ID: id, Timestamp: ts, Signature: sig, Body: body}, time.Time{}, 0)
		if err == nil && !strings.Contains(sig, "v1,") {
			t.Fatalf("accepted %q", sig)
		}
	})
}

// FuzzParseSecret: never panics; whatever parses can sign and verifies its own signature.
func FuzzParseSecret(f *testing.F) {
	private, public := NewPrivate()
	for _, s := range []string{NewSecret(), private, public, "whsec_", "whsk_AAAA", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if k, err := ParsePublic(s); err == nil && k.Public() != s {
			t.Fatalf("public key %q reads back as %q", s, k.Public())
		}
		k, err := ParseSecret(s)
		if err != nil {
			return
		}
		sig := AppendSign(nil, []Key{k}, "evt_1", 1, nil)
		if err := Verify([]Key{k}, signed("evt_1", 1, string(sig), nil), time.Time{}, 0); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkAppendSign(b *testing.B) {
	k := []Key{mustParse(b, NewSecret())}
	body := make([]byte, 512)
	dst := make([]byte, 0, 128)
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendSign(dst[:0], k, "evt_u01HZY8Q3M6ABCDEFGHJKMNPQRS", 1784452525, body)
	}
}
