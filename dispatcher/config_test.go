package dispatcher

import (
	"strings"
	"testing"

	"github.com/hookline/hookline/dispatcher/ledger"
	"github.com/hookline/hookline/retrytiers/tier"
)

func TestValidateNamesEveryFault(t *testing.T) {
	ok := DefaultConfig()
	if err := ok.Validate(); err != nil {
		t.Fatal(err)
	}
	bad := Config{WindowOffsets: maxWindowOffsets + 1, Ladder: tier.Ladder{}}
	err := bad.Validate()
	if err == nil {
		t.Fatal("an empty configuration is valid")
	}
	for _, name := range []string{"in_flight", "endpoint_in_flight", "window_offsets", "window_bytes", "process_bytes", "drain_timeout", "commit_interval", "trim_interval", "ladder"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("nothing is said about %s: %v", name, err)
		}
	}
}

// TestTheLargestWindowFitsTheMetadata checks the constant against the encoder: the worst case
// is every second offset done.
func TestTheLargestWindowFitsTheMetadata(t *testing.T) {
	m := ledger.Metadata{Attempts: 1 << 40}
	for i := int64(1); i < maxWindowOffsets; i += 2 {
		m.Runs = append(m.Runs, ledger.Run{From: i, To: i + 1})
	}
	back, err := ledger.Decode(0, ledger.Encode(0, m, ledger.MaxMetadata))
	if err != nil || len(back.Runs) != len(m.Runs) {
		t.Fatalf("%d of %d runs fit: %v", len(back.Runs), len(m.Runs), err)
	}
}
