package tier

import (
	"testing"

	"github.com/hookline/hookline/ingest/event"
)

func BenchmarkTicketHeaders(b *testing.B) {
	ticket := fullTicket()
	dst := ticket.AppendHeaders(nil)
	b.ReportAllocs()
	for b.Loop() {
		dst = ticket.AppendHeaders(dst[:0])
	}
}

func BenchmarkDecodeTicket(b *testing.B) {
	evt := event.Event{ID: "evt_u1", Type: "message.delivered", Source: "s", MessageID: "m1", Tenant: "dev", Schema: "1", Sequence: -1}
	ticket := fullTicket()
	headers := ticket.AppendHeaders(evt.Headers(nil))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeTicket(headers); err != nil {
			b.Fatal(err)
		}
	}
}
