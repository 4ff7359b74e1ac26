package endpoint

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func testKey(fill byte) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, sealKeyBytes))
}

func mustKeyring(t testing.TB, keys ...string) Keyring {
	t.Helper()
	ring, err := NewKeyring(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func TestStoredFormKeepsEverythingAndShowsNoSecret(t *testing.T) {
	ring := mustKeyring(t, testKey(1))
	e := mustParse(t, contractExample)
	e.Headers = map[string]string{"Authorization": "Bearer canary-header"}
	e.CreatedAt, e.UpdatedAt = time.Unix(1_800_000_000, 0).UTC(), time.Unix(1_800_000_100, 0).UTC()
	secret := e.Secret
	value, err := Seal(&e, ring)
	if err != nil {
		t.Fatal(err)
	}
	for _, hidden := range []string{secret, secret[8:20], "canary-header", "Authorization"} {
		if bytes.Contains(value, []byte(hidden)) {
			t.Errorf("stored record shows %q", hidden)
		}
	}
	got, err := Open("acme-dlr", value, ring)
	if err != nil {
		t.Fatal(err)
	}
	want := e.Clone()
	want.Keys = []Key{{Secret: secret, CreatedAt: e.UpdatedAt}}
	want.Secret = ""
	if !reflect.DeepEqual(*got, want) {
		t.Errorf("read back\n%+v\nwant\n%+v", *got, want)
	}
	if e.Secret != secret || e.Headers == nil {
		t.Error("Seal wrote into its argument")
	}
}

func TestSealedSecretIsBoundToItsEndpoint(t *testing.T) {
	ring := mustKeyring(t, testKey(1))
	box, err := ring.Seal(useSecret, "t", "a", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range [][3]string{{useSecret, "t", "b"}, {useSecret, "u", "a"}, {useHeaders, "t", "a"}, {useSecret, "ta", ""}} {
		if _, err := ring.Open(place[0], place[1], place[2], box); err == nil {
			t.Errorf("opened at %v", place)
		}
	}
	if plain, err := ring.Open(useSecret, "t", "a", box); err != nil || string(plain) != "x" {
		t.Errorf("Open = %q, %v", plain, err)
	}
}

func TestStoredKeysMustSign(t *testing.T) {
	ring := mustKeyring(t, testKey(1))
	for name, change := range map[string]func(*Endpoint){
		"no key":       func(e *Endpoint) { e.Secret = "" },
		"short secret": func(e *Endpoint) { e.Secret = "whsec_c2hvcnQ=" },
		"other scheme": func(e *Endpoint) { e.Signature = SignatureV1a },
	} {
		e := mustParse(t, contractExample)
		change(&e)
		if e.Secret != "" && e.Validate() == nil {
			t.Errorf("%s: Validate accepts it", name)
		}
		value, err := Seal(&e, ring)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Open(e.ID, value, ring); err == nil || got == nil || got.Fault == nil {
			t.Errorf("%s: Open = %v, %v; want a fault", name, got, err)
		}
	}
}

func TestKeyringRotates(t *testing.T) {
	old := mustKeyring(t, testKey(1))
	e := mustParse(t, contractExample)
	value, err := Seal(&e, old)
	if err != nil {
		t.Fatal(err)
	}
	both := mustKeyring(t, testKey(2), testKey(1))
	opened, err := Open(e.ID, value, both)
	if err != nil {
		t.Fatal(err)
	}
	if ids, err := Sealers(value); err != nil || ids[0] != old.ActiveID() || both.ActiveID() == old.ActiveID() {
		t.Errorf("Sealers = %v, %v", ids, err)
	}
	resealed, err := Seal(opened, both)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Open(e.ID, resealed, mustKeyring(t, testKey(2)))
	if err != nil || again.Keys[0].Secret != e.Secret {
		t.Errorf("after resealing: %v", err)
	}
	lost, err := Open(e.ID, value, mustKeyring(t, testKey(3)))
	if !errors.Is(err, ErrUnknownSealKey) || lost == nil || lost.Fault == nil || lost.URL != e.URL {
		t.Errorf("without the key: %v, %v; want the endpoint with its fault", lost, err)
	}
}

func TestKeyringRefusesBadKeysAndTellsNone(t *testing.T) {
	for _, text := range []string{"", "c2hvcnQ=", "!!!", base64.StdEncoding.EncodeToString(make([]byte, 33))} {
		_, err := NewKeyring(testKey(1), text)
		if err == nil {
			t.Errorf("key %q accepted", text)
		} else if text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("error tells the key: %v", err)
		}
	}
	if _, err := NewKeyring(); err == nil {
		t.Error("no key accepted")
	}
	var zero Keyring
	if _, err := zero.Seal(useSecret, "t", "a", nil); err == nil {
		t.Error("the zero Keyring seals")
	}
	ring := mustKeyring(t, testKey(7))
	if s := fmt.Sprintf("%v %+v %#v", ring, ring, ring); strings.Contains(s, "0x7") || len(s) > 80 {
		t.Errorf("a printed keyring shows %q", s)
	}
	k := Key{Secret: "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"}
	if s := fmt.Sprintf("%v %+v", k, []Key{k}); strings.Contains(s, "AAEC") {
		t.Errorf("a printed key shows %q", s)
	}
}

func TestOpenRefusesForeignRecords(t *testing.T) {
	ring := mustKeyring(t, testKey(1))
	for _, value := range []string{"", "{", `{"v":1}`, `{"v":1,"endpoint":{"id":"other"}}`, `{"v":1,"endpoint":null}`} {
		if e, err := Open("a", []byte(value), ring); err == nil || e != nil {
			t.Errorf("Open(%q) = %v, %v", value, e, err)
		}
	}
	newer := `{"v":2,"endpoint":{"id":"a","tenant":"t","url":"https://x.example","brand_new":1}}`
	if e, err := Open("a", []byte(newer), ring); err == nil || e == nil || e.Fault == nil {
		t.Errorf("a newer record: %v, %v; want it kept with a fault", e, err)
	}
}

// FuzzOpen: no value makes Open panic, and an endpoint without an error has the id of its
// key and no fault.
func FuzzOpen(f *testing.F) {
	ring := mustKeyring(f, testKey(1))
	e, err := Parse([]byte(contractExample))
	if err != nil {
		f.Fatal(err)
	}
	value, err := Seal(&e, ring)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("acme-dlr", value)
	f.Add("a", []byte(`{"v":1,"endpoint":{"id":"a"},"keys":[{"sealed":"AA==","key_id":""}]}`))
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		e, err := Open(key, value, ring)
		if err == nil && (e.ID != key || e.Fault != nil) {
			t.Fatalf("Open(%q) = %+v", key, e)
		}
	})
}
