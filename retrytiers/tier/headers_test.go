package tier

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event"
)

func fullTicket() Ticket {
	return Ticket{
		Endpoint: "acme-dlr", Attempt: 3, Parks: 2, DueMs: 1_790_000_000_123,
		Orig:    Orig{TopicID: [16]byte{0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xfe}, Partition: 17, Offset: 1 << 40},
		Seq:     1<<53 - 1,
		FirstMs: 1_789_999_999_000, Status: 503, Error: "http_5xx: 503", Reason: Exhausted, Replay: "rpl_01",
	}
}

func TestTicketHeadersAreGolden(t *testing.T) {
	full := fullTicket()
	var b strings.Builder
	for _, h := range full.AppendHeaders(nil) {
		b.WriteString(h.Key + ": " + string(h.Value) + "\n")
	}
	file := filepath.Join("testdata", "ticket.v1.txt")
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("headers are\n%swant, as in %s,\n%s", b.String(), file, want)
	}
}

func TestTicketRoundTrip(t *testing.T) {
	f := func(want Ticket) {
		t.Helper()
		got, err := DecodeTicket(want.AppendHeaders(nil))
		if err != nil {
			t.Fatalf("decode %+v: %v", want, err)
		}
		if got != want {
			t.Errorf("round trip gave\n%+v, want\n%+v", got, want)
		}
	}
	f(fullTicket())
	f(Ticket{Endpoint: "e"})
	f(Ticket{Endpoint: "e", Tier: "retry.15m"})
	f(Ticket{Endpoint: "e", Seq: 1<<64 - 1, Attempt: 1<<16 - 1, Parks: 1<<31 - 1, DueMs: maxMs, FirstMs: maxMs})
}

func TestDecodeTicketRefuses(t *testing.T) {
	f := func(name, value string) {
		t.Helper()
		full := fullTicket()
		headers := full.AppendHeaders(nil)
		kept := headers[:0]
		for _, h := range headers {
			if h.Key == name {
				if value == "" {
					continue
				}
				h.Value = []byte(value)
			}
			kept = append(kept, h)
		}
		_, err := DecodeTicket(kept)
		if !errors.Is(err, ErrTicket) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s = %q: error is %v", name, value, err)
		}
	}
	for _, name := range requiredHeaders {
		f(name, "")
	}
	f(HeaderEndpoint, "a.b")
	f(HeaderEndpoint, strings.Repeat("a", 65))
	f(HeaderAttempt, "-1")
	f(HeaderAttempt, "+1")
	f(HeaderAttempt, "01")
	f(HeaderAttempt, "65536")
	f(HeaderAttempt, "1_0")
	f(HeaderParks, "2147483648")
	f(HeaderDueMs, "1e3")
	f(HeaderDueMs, "9223372036854775807")
	f(HeaderOrig, "x")
	f(HeaderOrig, "AAAAAAAAAAAAAAAAAAAAAA:1")
	f(HeaderOrig, "AAAAAAAAAAAAAAAAAAAAAB:1:2") // stray bits: two texts for one id
	f(HeaderOrig, "AAAAAAAAAAAAAAAAAAAAAA:2147483648:2")
	f(HeaderOrig, "AAAAAAAAAAAAAAAAAAAAAA:1:-2")
	f(HeaderOrig, "AAAAAAAAAAAAAAAAAAAAAA:1:2:3")
	f(HeaderSeq, "18446744073709551616")
	f(HeaderStatus, "1000")
	f(HeaderReplay, "a b")
	f(HeaderReason, "a b")
}

func TestCopiesReplaceTheTicketAndDropForeignHeaders(t *testing.T) {
	evt := event.Event{
		ID: "evt_u1", Type: "message.delivered", Source: "s", MessageID: "m", Tenant: "dev", Schema: "1",
		ContentType: "application/json", Traceparent: "00-1", AcceptedMs: 5, Sequence: 9,
	}
	headers := evt.Headers(nil)
	own := len(headers)
	headers = append(headers, kgo.RecordHeader{Key: "x-foreign", Value: make([]byte, 1<<20)})
	first := fullTicket()
	headers = first.AppendHeaders(headers)

	next := fullTicket()
	next.Attempt, next.Replay = 4, ""
	var got []kgo.RecordHeader
	for range 50 { // a delivery may be parked for days
		got = next.AppendHeaders(StripTicket(nil, headers))
		headers = got
	}
	if len(got) != own+10 {
		t.Errorf("copy has %d headers, want %d of the event and 10 of the ticket", len(got), own)
	}
	ticket, err := DecodeTicket(got)
	if err != nil || ticket != next {
		t.Errorf("ticket of the copy is %+v (%v), want %+v", ticket, err, next)
	}
	for _, h := range got {
		if h.Key == "x-foreign" || h.Key == HeaderReplay {
			t.Errorf("copy carries %s", h.Key)
		}
	}
}

func TestErrorTextIsBounded(t *testing.T) {
	ticket := fullTicket()
	ticket.Error = "line\nbreak \xff " + strings.Repeat("\u20ac", MaxError)
	got, err := DecodeTicket(ticket.AppendHeaders(nil))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(got.Error); n > MaxError || n < MaxError-utf8.UTFMax || !utf8.ValidString(got.Error) {
		t.Errorf("error text has %d bytes: %q", n, got.Error)
	}
	if !strings.HasPrefix(got.Error, "line break ? \u20ac") {
		t.Errorf("error text begins %.20q", got.Error)
	}
}

// FuzzDecodeTicket: whatever is accepted survives a round trip, and decoding never panics.
func FuzzDecodeTicket(f *testing.F) {
	f.Add("e", "1", "0", "5", "AAAAAAAAAAAAAAAAAAAAAA:1:2", "7", "1", "500", "x", "exhausted", "r")
	f.Add("", "", "", "", "", "", "", "", "", "", "")
	f.Fuzz(func(t *testing.T, endpoint, attempt, parks, due, orig, seq, first, status, text, reason, replay string) {
		var headers []kgo.RecordHeader
		put := func(k, v string) { headers = append(headers, kgo.RecordHeader{Key: k, Value: []byte(v)}) }
		put(HeaderEndpoint, endpoint)
		put(HeaderAttempt, attempt)
		put(HeaderParks, parks)
		put(HeaderDueMs, due)
		put(HeaderOrig, orig)
		put(HeaderSeq, seq)
		put(HeaderFirstMs, first)
		put(HeaderStatus, status)
		put(HeaderError, text)
		put(HeaderReason, reason)
		put(HeaderReplay, replay)
		DecodeDead(&kgo.Record{Headers: headers})
		ticket, err := DecodeTicket(headers)
		if err != nil {
			return
		}
		again, err := DecodeTicket(ticket.AppendHeaders(nil))
		if err != nil || again != ticket {
			t.Fatalf("%+v came back as %+v: %v", ticket, again, err)
		}
	})
}

// FuzzParseOrig: there is one text per place.
func FuzzParseOrig(f *testing.F) {
	f.Add("AAAAAAAAAAAAAAAAAAAAAA:0:0")
	f.Add("_-8AAAAAAAAAAAAAAAAAAA:2147483647:9223372036854775807")
	f.Fuzz(func(t *testing.T, s string) {
		if o, err := ParseOrig(s); err == nil && o.String() != s {
			t.Fatalf("%q reads as %q", s, o)
		}
	})
}
