package retrytiers

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/ledger"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

// newRecord is a delivery that waits until due.
func newRecord(id string, due time.Time, partition int32) *kgo.Record {
	evt := event.Event{
		ID: id, Type: "message.delivered", Source: "test", MessageID: "msg-" + id, Tenant: "dev", Schema: "1",
		ContentType: "application/json", Sequence: -1, AcceptedMs: due.UnixMilli(),
	}
	ticket := tier.Ticket{
		Endpoint: "acme", Attempt: 2, DueMs: due.UnixMilli(), Orig: tier.Orig{Partition: partition, Offset: 7},
		Seq: 9, FirstMs: due.UnixMilli(), Status: 503, Error: "http_5xx",
	}
	return &kgo.Record{
		Key: []byte(evt.MessageID), Value: []byte(`{"id":"` + id + `"}`),
		Headers: ticket.AppendHeaders(evt.Headers(nil)),
	}
}

func idOf(headers []kgo.RecordHeader) string {
	for _, h := range headers {
		if h.Key == event.HeaderID {
			return string(h.Value)
		}
	}
	return ""
}

// newTestSlot is an open slot of the default ladder that starts at offset 0.
func newTestSlot(l tier.Ladder, suffix string, partition int32) *slot {
	floor, ok := l.Floor(suffix, partition)
	if !ok {
		panic(fmt.Sprintf("%s/%d is no slot", suffix, partition))
	}
	width, _ := l.Width(suffix, partition)
	return &slot{
		topic: "t." + suffix, suffix: suffix, partition: partition,
		floor: floor, width: width, lead: leadOf(floor, width),
		ledger: ledger.New(0, ledger.Limits{Offsets: maxAhead}), committed: -1,
	}
}
