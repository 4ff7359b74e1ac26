package event

import "testing"

func TestNewIDIsRandomAndValid(t *testing.T) {
	seen := map[string]bool{}
	for range 10_000 {
		id := NewID()
		if !IsRandomID(id) || !ValidID(id) {
			t.Fatalf("NewID() = %q is not a random id", id)
		}
		if seen[id] {
			t.Fatalf("NewID() repeated %q", id)
		}
		seen[id] = true
	}
}

// The values are a contract between nodes of different versions: a change here splits one
// idempotency key into two ids during a rolling upgrade.
func TestDerivedIDsAreFixed(t *testing.T) {
	if got, want := DeriveID("dev", "message.delivered", "01HZY8Q3M6", "k-1"), "evt_kAZAMDMQRHJ4QH52PRS6DSMW8AZRT84ET"; got != want {
		t.Errorf("DeriveID = %q, want %q", got, want)
	}
	if got, want := positionID("hookline.events", 3, 42, 1784452525000), "evt_pSR6XQDTTMAB7M9WE28R2TAH9STXE49EF"; got != want {
		t.Errorf("positionID = %q, want %q", got, want)
	}
}

func TestDeriveIDSeparatesItsParts(t *testing.T) {
	seen := map[string][4]string{}
	for _, p := range [][4]string{
		{"tenant", "a.b", "m1", "key"}, {"tenan", "ta.b", "m1", "key"}, {"tenant", "a.bm", "1", "key"}, {"tenant", "a.b", "m1k", "ey"},
		{"tenant", "a.b", "m1key", ""}, {"", "tenanta.b", "m1", "key"}, {"tenant", "a.b", "m1", "kez"}, {"tenant2", "a.b", "m1", "key"},
	} {
		id := DeriveID(p[0], p[1], p[2], p[3])
		if IsRandomID(id) || !ValidID(id) {
			t.Fatalf("DeriveID(%q) = %q is not a derived id", p, id)
		}
		if prev, ok := seen[id]; ok {
			t.Fatalf("DeriveID of %q equals that of %q", p, prev)
		}
		seen[id] = p
	}
}

func TestIsRandomIDAsksForTheWholeForm(t *testing.T) {
	for _, id := range []string{"", "evt_u", "evt_u01", "evt_k01HZY8Q3M6ABCDEFGHJKMNPQRS", "evt_u01HZY8Q3M6ABCDEFGHJKMNPQRSX",
		"evt_u01hzy8q3m6abcdefghjkmnpqrs", "evt_uI1HZY8Q3M6ABCDEFGHJKMNPQRS", "evt_u81HZY8Q3M6ABCDEFGHJKMNPQRS"} {
		if IsRandomID(id) {
			t.Errorf("IsRandomID(%q) = true", id)
		}
	}
	if !IsRandomID("evt_u01HZY8Q3M6ABCDEFGHJKMNPQRS") {
		t.Error("IsRandomID refuses a ULID")
	}
}
