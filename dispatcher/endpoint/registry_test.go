package endpoint

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func sealed(t testing.TB, ring Keyring, id, tenant, url string, events ...string) []byte {
	t.Helper()
	e := Default()
	e.ID, e.Tenant, e.URL = id, tenant, url
	e.Secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
	if len(events) > 0 {
		e.Events = events
	}
	value, err := Seal(&e, ring)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func ids(list []*Endpoint) string {
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.ID
	}
	return strings.Join(names, " ")
}

func TestRegistryFollowsTheTopic(t *testing.T) {
	ring := mustKeyring(t, testKey(1))
	r := NewRegistry(ring, URLPolicy{})
	if r.Snapshot().Len() != 0 || r.Snapshot().Match("t", "a") != nil {
		t.Fatal("a new registry is not empty")
	}
	r.Apply("b", sealed(t, ring, "b", "t", "https://b.example", "message.*"), 0)
	r.Apply("a", sealed(t, ring, "a", "t", "https://a.example"), 1)
	r.Apply("c", sealed(t, ring, "c", "u", "https://c.example"), 2)
	before := r.Snapshot()
	if got := ids(before.Match("t", "message.sent")); got != "a b" {
		t.Errorf("match = %q, want a b", got)
	}
	if got := ids(before.Match("t", "account.closed")); got != "a" {
		t.Errorf("match = %q, want a", got)
	}
	if got := ids(before.Match("t", "hookline.delivery.dead")); got != "" {
		t.Errorf("feedback goes to %q", got)
	}
	if got := ids(before.Match("nobody", "message.sent")); got != "" {
		t.Errorf("another tenant sees %q", got)
	}
	if e, ok := before.Get("b"); !ok || e.Version != 0 || e.Keys[0].Secret == "" {
		t.Errorf("Get(b) = %+v, %v", e, ok)
	}
	r.Apply("a", nil, 3)
	r.Apply("b", sealed(t, ring, "b", "u", "https://b.example"), 4) // moves to another tenant
	after := r.Snapshot()
	if after == before || r.Snapshot() != after {
		t.Error("a snapshot must change with its records and only then")
	}
	if got := ids(after.Match("t", "message.sent")); got != "" {
		t.Errorf("match after delete = %q", got)
	}
	if got := ids(after.Match("u", "message.sent")); got != "b c" {
		t.Errorf("match = %q, want b c", got)
	}
	if got := ids(before.Match("t", "message.sent")); got != "a b" {
		t.Errorf("the earlier snapshot changed: %q", got)
	}
	if _, ok := after.Get("a"); ok || after.Len() != 2 || len(after.Tenant("u")) != 2 {
		t.Error("a tombstone must remove the endpoint")
	}
	n := 0
	for range after.All() {
		n++
	}
	if n != 2 {
		t.Errorf("All yields %d", n)
	}
}

func TestRegistryKeepsWhatItCannotUse(t *testing.T) {
	ring := mustKeyring(t, testKey(1))
	r := NewRegistry(ring, URLPolicy{})
	r.Apply("a", sealed(t, ring, "a", "t", "https://a.example"), 0)
	r.Apply("a", []byte("not json"), 1)
	if e, ok := r.Snapshot().Get("a"); !ok || e.Version != 0 || r.Faults()["a"] == nil {
		t.Error("an unreadable record must leave the version before it")
	}
	r.Apply("b", sealed(t, ring, "b", "t", "http://b.example"), 2)
	e, ok := r.Snapshot().Get("b")
	if !ok || e.Fault == nil || r.Faults()["b"] == nil {
		t.Error("an endpoint that the policy of today refuses must be kept with its fault")
	}
	if got := ids(r.Snapshot().Match("t", "x")); got != "a b" {
		t.Errorf("match = %q: an endpoint with a fault still wants its events", got)
	}
	r.Apply("a", sealed(t, ring, "a", "t", "https://a.example"), 3)
	if r.Faults()["a"] != nil {
		t.Error("a good record must clear the fault")
	}
}

func TestMatchDoesNotAllocateForAKnownType(t *testing.T) {
	ring := mustKeyring(t, testKey(1))
	r := NewRegistry(ring, URLPolicy{})
	for i := range 20 {
		id := fmt.Sprintf("e%d", i)
		r.Apply(id, sealed(t, ring, id, "t", "https://a.example", "message.*", "account.**"), int64(i))
	}
	raw := []byte("message.delivered")
	first := string(raw)
	if got := len(r.Snapshot().Match("t", first)); got != 20 {
		t.Fatalf("matched %d", got)
	}
	if n := testing.AllocsPerRun(100, func() { r.Snapshot().Match("t", first) }); n != 0 {
		t.Errorf("Match allocates %v times", n)
	}
}

func TestMatchCacheIsBounded(t *testing.T) {
	ring := mustKeyring(t, testKey(1))
	r := NewRegistry(ring, URLPolicy{})
	r.Apply("a", sealed(t, ring, "a", "t", "https://a.example"), 0)
	s := r.Snapshot()
	for i := range maxCachedTypes + 100 {
		if len(s.Match("t", fmt.Sprintf("type.%d", i))) != 1 {
			t.Fatal("no match")
		}
	}
	if n := len(*s.tenants["t"].cache.Load()); n != maxCachedTypes {
		t.Errorf("cache holds %d types", n)
	}
}

func TestRegistryUnderConcurrentReaders(t *testing.T) {
	ring := mustKeyring(t, testKey(1))
	r := NewRegistry(ring, URLPolicy{})
	value := sealed(t, ring, "a", "t", "https://a.example")
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					r.Snapshot().Match("t", fmt.Sprintf("x.%d", i%8))
				}
			}
		})
	}
	for i := range 200 {
		v := value
		if i%2 == 1 {
			v = nil
		}
		r.Apply("a", v, int64(i))
		_, ok := r.Snapshot().Get("a")
		if ok != (i%2 == 0) {
			t.Errorf("step %d: the snapshot lags behind Apply", i)
		}
	}
	close(stop)
	readers.Wait()
}

func BenchmarkMatch(b *testing.B) {
	ring := mustKeyring(b, testKey(1))
	r := NewRegistry(ring, URLPolicy{})
	for i := range 100 {
		id := fmt.Sprintf("e%d", i)
		r.Apply(id, sealed(b, ring, id, "t", "https://a.example", "message.*"), int64(i))
	}
	b.ReportAllocs()
	for b.Loop() {
		r.Snapshot().Match("t", "message.delivered")
	}
}
