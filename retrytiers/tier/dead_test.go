package tier

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event"
)

func TestDeadLetterOfADelivery(t *testing.T) {
	evt := event.Event{ID: "evt_u1", Type: "message.delivered", Source: "s", MessageID: "m1", Tenant: "dev", Schema: "1", ContentType: "application/json", Sequence: -1}
	ticket := fullTicket()
	r := &kgo.Record{
		Key: []byte("m1"), Value: []byte(`{}`), Partition: 0, Offset: 7, Timestamp: time.UnixMilli(1_790_000_001_000),
		Headers: AppendDead(nil, evt.Headers(nil), &ticket),
	}
	d := DecodeDead(r)
	if d.Ticket != ticket {
		t.Errorf("ticket is %+v, want %+v", d.Ticket, ticket)
	}
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"partition":0,"offset":7,"event_id":"evt_u1","message_id":"m1","endpoint_id":"acme-dlr","tenant":"dev",` +
		`"event_type":"message.delivered","reason":"exhausted","attempts":3,"last_status":503,"last_error":"http_5xx: 503",` +
		`"first_at":"2026-09-21T14:13:19Z","dead_at":"2026-09-21T14:13:21Z"}`
	if string(b) != want {
		t.Errorf("listed as\n%s, want\n%s", b, want)
	}
}

func TestPoisonKeepsWhatItCarried(t *testing.T) {
	headers := []kgo.RecordHeader{
		{Key: "x-foreign", Value: []byte{0xff}},
		{Key: HeaderAttempt, Value: []byte("many")},
		{Key: HeaderParks, Value: []byte("4")},
		{Key: HeaderReason, Value: []byte("exhausted")},
		{Key: HeaderError, Value: []byte("old")},
	}
	r := &kgo.Record{Headers: AppendPoison(nil, headers, "retry.15s/3@17: bad ticket")}
	if len(r.Headers) != 5 || r.Headers[0].Key != "x-foreign" {
		t.Fatalf("headers are %v", r.Headers)
	}
	d := DecodeDead(r)
	if d.Reason != Poison || d.LastError != "retry.15s/3@17: bad ticket" || d.Ticket.Parks != 4 || d.Attempts != 0 || d.FirstAt != nil {
		t.Errorf("read as %+v", d)
	}
	if again := AppendPoison(nil, r.Headers, "why"); len(again) != 5 {
		t.Errorf("a second hop made it %d headers", len(again))
	}
}

func TestDeadPartition(t *testing.T) {
	if got := DeadPartition(nil, 12); got != 0 {
		t.Errorf("no key goes to %d", got)
	}
	if got, want := DeadPartition([]byte("m1"), 12), event.Partition("m1", 12); got != want {
		t.Errorf("m1 goes to %d, want %d", got, want)
	}
}
