package attempt

import (
	"encoding/hex"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/hookline/hookline/ingest/event"
)

const acceptedMs = 1784452525123

// golden maps a file of testdata to the record that its bytes mean.
func golden() map[string]Record {
	return map[string]Record{
		"v1-delivered.hex": {
			AttemptedMs: acceptedMs + 42, OccurredMs: acceptedMs - 123, AcceptedMs: acceptedMs,
			Tenant: "dev", Endpoint: "acme-dlr", EventType: "message.delivered",
			EventID: "evt_u01K0H3Z8QXJ3F4T5V6W7X8Y9ZA", MessageID: "01HZY8Q3M6", Worker: "w1",
			Sequence: 18_000_000<<20 + 42, Attempt: 1, MaxAttempts: 16, Deliveries: 2,
			Trigger: Auto, Outcome: Delivered, Circuit: Closed, StatusCode: 204,
			QueueWaitUs: 41_900, TTFBUs: 800, TotalUs: 950, ConnReused: true, HTTPVersion: "1.1",
			RequestBytes: 540, ResponseBytes: 0,
			Position: Position{Topic: SourceEvents, Partition: 11, Offset: 42},
		},
		"v1-retry.hex": {
			AttemptedMs: acceptedMs + 20_000, OccurredMs: acceptedMs, AcceptedMs: acceptedMs,
			Tenant: "dev", Endpoint: "acme-dlr", EventType: "message.delivered", Source: "stripe-eu",
			EventID: "evt_kABC", MessageID: "m-1", Worker: "w2", ReplayID: "rpl_1",
			Sequence: 7, Attempt: 3, MaxAttempts: 16, Parks: 2, Deliveries: 1, Tier: "retry.15s",
			Trigger: Replay, Outcome: Retry, Circuit: HalfOpen, StatusCode: 0, ErrorClass: "connect_refused",
			QueueWaitUs: 7, DNSUs: 1, ConnectUs: 2, TLSUs: 3, TTFBUs: 4, TotalUs: 5_000_000,
			RequestBytes: 300, ResponseBytes: 65_536,
			NextRetryMs: acceptedMs + 27_500, DueErrorMs: -3,
			Position: Position{Topic: SourceDue, Partition: 0, Offset: 1 << 40, Attempt: 2},
		},
		"v1-unrouted.hex": {
			AttemptedMs: acceptedMs, OccurredMs: acceptedMs, AcceptedMs: acceptedMs,
			Tenant: "dev", EventType: "x", EventID: "evt_u1", MessageID: "m",
			Trigger: Auto, Outcome: Unrouted, Circuit: Closed,
		},
	}
}

func readGolden(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestGoldenBytes(t *testing.T) {
	for name, want := range golden() {
		t.Run(name, func(t *testing.T) {
			raw := readGolden(t, name)
			var got Record
			if err := Decode(raw, &got); err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Fatalf("decoded\n %+v\nwant\n %+v", got, want)
			}
			if enc := AppendRecord(nil, &want); string(enc) != string(raw) {
				t.Fatalf("encoded\n %x\nwant\n %x", enc, raw)
			}
		})
	}
}

func TestExtremesRoundTrip(t *testing.T) {
	want := Record{
		AttemptedMs: math.MaxInt64, OccurredMs: math.MinInt64, AcceptedMs: -1,
		EventID: strings.Repeat("x", 70_000), Sequence: math.MaxUint64,
		Attempt: math.MaxUint16, MaxAttempts: math.MaxUint16, Parks: math.MaxUint16,
		Deliveries: math.MaxUint16, StatusCode: math.MaxUint16, QueueWaitUs: math.MaxUint64,
		DNSUs: math.MaxUint32, TotalUs: math.MaxUint32, ResponseBytes: math.MaxUint32,
		Trigger: Probe, Outcome: Dropped, Circuit: HalfOpen, NextRetryMs: math.MinInt64, DueErrorMs: math.MinInt32,
		Position: Position{Topic: SourceDue, Partition: math.MaxInt32, Offset: math.MaxInt64, Attempt: math.MaxUint16},
	}
	var got Record
	if err := Decode(AppendRecord(nil, &want), &got); err != nil || got != want {
		t.Fatalf("%v\n %+v\nwant\n %+v", err, got, want)
	}
}

func TestZeroTriggerAndCircuitAreAutoAndClosed(t *testing.T) {
	var got Record
	if err := Decode(AppendRecord(nil, &Record{Outcome: Dead}), &got); err != nil {
		t.Fatal(err)
	}
	if got.Trigger != Auto || got.Circuit != Closed {
		t.Fatalf("trigger %d circuit %d", got.Trigger, got.Circuit)
	}
	defer func() {
		if recover() == nil {
			t.Fatal("a record without an outcome was encoded")
		}
	}()
	AppendRecord(nil, &Record{})
}

func TestFieldsOfLaterWritersAreIgnored(t *testing.T) {
	for name, want := range golden() {
		var got Record
		if err := Decode(append(readGolden(t, name), 1, 2, 3), &got); err != nil || got != want {
			t.Fatalf("%s: %v %+v", name, err, got)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	raw := readGolden(t, "v1-retry.hex")
	var r Record
	for n := range raw {
		if err := Decode(raw[:n], &r); !errors.Is(err, ErrMalformed) {
			t.Fatalf("accepted cut to %d of %d bytes: %v", n, len(raw), err)
		}
	}
	for name, edit := range map[string]func(b []byte){
		"version 2":        func(b []byte) { b[0] = 2 },
		"source topic 3":   func(b []byte) { b[1] |= flagSourceMask },
		"outcome 0":        func(b []byte) { b[2] &^= kindOutcomeMask },
		"outcome 7":        func(b []byte) { b[2] |= kindOutcomeMask },
		"trigger 0":        func(b []byte) { b[2] &^= kindTriggerMask },
		"trigger 7":        func(b []byte) { b[2] |= kindTriggerMask },
		"circuit 0":        func(b []byte) { b[2] &= 1<<kindCircuitShift - 1 },
		"text of 2^31 - 1": func(b []byte) { copy(b[16:], "\xff\xff\xff\xff\x07") },
	} {
		b := append([]byte(nil), raw...)
		edit(b)
		if err := Decode(b, &r); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEnumTexts(t *testing.T) {
	var all []string
	for o := range Unrouted + 2 {
		all = append(all, o.String())
	}
	for tr := range Probe + 2 {
		all = append(all, tr.String())
	}
	for c := range HalfOpen + 2 {
		all = append(all, c.String())
	}
	want := "invalid delivered retry parked dead dropped unrouted invalid " +
		"invalid auto replay test probe invalid invalid closed open half_open invalid"
	if got := strings.Join(all, " "); got != want {
		t.Fatalf("got %s", got)
	}
}

func TestTopicAndPartition(t *testing.T) {
	topic := Topic(DefaultPartitions)
	if topic.Name(event.DefaultPrefix) != "hookline.attempts" || topic.Partitions != 8 {
		t.Fatalf("%+v", topic)
	}
	for p := range int32(48) {
		if got := PartitionFor(p, 8); got != p%8 {
			t.Fatalf("partition %d goes to %d", p, got)
		}
	}
}

// FuzzDecode: never panics; what decodes encodes again to bytes that decode to the same.
func FuzzDecode(f *testing.F) {
	for name := range golden() {
		f.Add(readGolden(f, name))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again Record
		if Decode(b, &r) != nil {
			return
		}
		if err := Decode(AppendRecord(nil, &r), &again); err != nil || again != r {
			t.Fatalf("%v\n %+v\n %+v", err, r, again)
		}
	})
}

func BenchmarkAppendRecord(b *testing.B) {
	r := golden()["v1-delivered.hex"]
	dst := make([]byte, 0, 512)
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendRecord(dst[:0], &r)
	}
	b.ReportMetric(float64(len(dst)), "bytes")
}

func BenchmarkDecode(b *testing.B) {
	raw := readGolden(b, "v1-delivered.hex")
	var r Record
	b.ReportAllocs()
	for b.Loop() {
		if err := Decode(raw, &r); err != nil {
			b.Fatal(err)
		}
	}
}
