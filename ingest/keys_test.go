package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte("# producers\n\n  dev:from-file \nacme:a,acme:b\n#dev:off\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("h"))
	ring, err := parseKeys([]string{"dev:one, dev:two", "@" + file, "x:sha256=" + hex.EncodeToString(sum[:]), "dev:with:colon"}, Limit{})
	if err != nil {
		t.Fatal(err)
	}
	for key, tenant := range map[string]string{"one": "dev", "two": "dev", "from-file": "dev", "a": "acme", "b": "acme", "h": "x", "with:colon": "dev"} {
		if c := ring.find([]byte("Bearer " + key)); c == nil || c.tenant != tenant || c.source != "/hookline/"+tenant {
			t.Errorf("key %s: %+v", key, c)
		}
	}
	for _, value := range []string{"", "Bearer", "Bearer ", "one", "Basic one", "Bearer off", "Bearer one ", "Bearer o ne", "Bearerone", "Bearer\tone", "Bearer dev:one", "Bearer \xff", "Bearer " + strings.Repeat("k", 10_000)} {
		if c := ring.find([]byte(value)); c != nil {
			t.Errorf("%q is %+v", value, c)
		}
	}
	if c := ring.find([]byte("bEARER   one")); c == nil {
		t.Error("the scheme is matched by case, or one blank is required")
	}
}

func TestParseKeysRefuses(t *testing.T) {
	for _, items := range [][]string{
		nil, {""}, {" , "}, {"@/nowhere/at/all"}, {"secretvalue"}, {":secretvalue"}, {"a b:secretvalue"}, {"dev:"}, {"dev:secret value"}, {"dev:secretvalu\u00e9"},
		{"dev:sha256=secretvalue"}, {"dev:sha256=00"}, {"dev:secretvalue", "acme:secretvalue"}, {"dev:" + strings.Repeat("secretvalue", 100)},
	} {
		_, err := parseKeys(items, Limit{})
		if err == nil {
			t.Errorf("%q is taken", items)
		} else if strings.Contains(err.Error(), "secretvalu") {
			t.Errorf("the error tells the key: %v", err)
		}
	}
	_, err := parseKeys([]string{"x", "dev:ok", "y"}, Limit{})
	if err == nil || !strings.Contains(err.Error(), "item 1") || !strings.Contains(err.Error(), "item 3") {
		t.Errorf("not every fault is reported: %v", err)
	}
}

// FuzzFindKey: nothing but a bearer scheme with the very key names a caller.
func FuzzFindKey(f *testing.F) {
	ring, err := parseKeys([]string{"dev:secret"}, Limit{})
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{"Bearer secret", "bearer  secret", "Bearer secre", "Basic secret", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		scheme, rest, _ := strings.Cut(string(value), " ")
		want := strings.EqualFold(scheme, "bearer") && strings.TrimLeft(rest, " ") == "secret"
		if got := ring.find(value) != nil; got != want {
			t.Fatalf("%q: %v", value, got)
		}
	})
}

// FuzzParseKeys: no text panics, and no error repeats what may be a key.
func FuzzParseKeys(f *testing.F) {
	f.Add("dev:one,acme:sha256=00", "k")
	f.Fuzz(func(t *testing.T, text, key string) {
		if strings.HasPrefix(strings.TrimSpace(text), "@") {
			return // a file
		}
		_, _ = parseKeys([]string{text}, Limit{})
		if !validKey(key) || strings.Contains(key, ",") || strings.HasPrefix(key, "#") || strings.HasPrefix(key, hashMark) {
			return
		}
		ring, err := parseKeys([]string{fmt.Sprintf("dev:%s", key)}, Limit{})
		if err != nil || ring.find([]byte("Bearer "+key)) == nil {
			t.Fatalf("%q: %v", key, err)
		}
	})
}

func TestSetKeysSwapsAllOrNothing(t *testing.T) {
	s, err := New(testConfig(), Deps{Prefix: "x."})
	if err != nil {
		t.Fatal(err)
	}
	knows := func(key string) bool { return s.keys.Load().find([]byte("Bearer "+key)) != nil }
	for _, bad := range [][]string{nil, {""}, {"dev:new", "broken"}, {"@/nowhere/at/all"}} {
		if err := s.SetKeys(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
		if !knows("secret") || !knows("other") || knows("new") {
			t.Errorf("%q changed the keys", bad)
		}
	}
	if err := s.SetKeys([]string{"dev:new"}); err != nil {
		t.Fatal(err)
	}
	if knows("secret") || !knows("new") {
		t.Error("the new keys are not in force")
	}
}
