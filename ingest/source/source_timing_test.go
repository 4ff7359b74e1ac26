package source

import (
	"testing"
	"time"

	"github.com/hookline/hookline/ingest/event"
)

// BenchmarkTake is what one webhook of Stripe costs beside HTTP and the broker.
func BenchmarkTake(b *testing.B) {
	x := exchanges()["stripe"]
	s := makeSource(b, x.settings)
	now := time.Unix(x.at, 0)
	b.ReportAllocs()
	for b.Loop() {
		proof, err := s.Verify(x.request, now)
		if err != nil {
			b.Fatal(err)
		}
		var e event.Event
		if err := s.Map(x.request, &e); err != nil {
			b.Fatal(err)
		}
		_ = proof.Key(&e)
	}
}
