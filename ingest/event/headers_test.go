package event

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var update = flag.Bool("update", false, "write golden files that do not exist yet")

func full() Event {
	return Event{
		ID: "evt_u01HZY8Q3M6ABCDEFGHJKMNPQRS", Type: "message.delivered", Source: "/hookline/dev", MessageID: "01HZY8Q3M6",
		Tenant: "dev", Origin: "stripe-eu", Schema: "2",
		OccurredAt: time.Date(2026, 7, 19, 9, 15, 25, 120_000_000, time.UTC), AcceptedMs: 1784452525999,
		ContentType: "application/json", Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Sequence: 7,
		Body: []byte(`{"event":"message.delivered","message_id":"01HZY8Q3M6","n":9007199254740993}`),
	}
}

func minimal() Event {
	return Event{ID: "evt_k0123456789ABCDEFGHJKMNPQRSTVWXYZ", Type: "a", Source: "", MessageID: "m", Tenant: "dev", Schema: "1", AcceptedMs: 1784452525999,
		ContentType: "application/json", Sequence: -1, Body: []byte("{}")}
}

// dump is the readable form of a record in the golden files.
func dump(r *kgo.Record) []byte {
	var b bytes.Buffer
	b.WriteString("key: " + string(r.Key) + "\n")
	for _, h := range r.Headers {
		b.WriteString(h.Key + ": " + string(h.Value) + "\n")
	}
	b.WriteString("\n" + string(r.Value) + "\n")
	return b.Bytes()
}

func record(e *Event) *kgo.Record {
	return &kgo.Record{Key: []byte(e.MessageID), Value: e.Body, Headers: e.Headers(nil), Timestamp: time.UnixMilli(e.AcceptedMs + 5)}
}

func TestHeadersEqualTheGoldenFiles(t *testing.T) {
	for name, e := range map[string]Event{"full": full(), "minimal": minimal()} {
		path := filepath.Join("testdata", name+".golden")
		got := dump(record(&e))
		if _, err := os.Stat(path); *update && os.IsNotExist(err) {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestDecodeReturnsWhatHeadersWrote(t *testing.T) {
	for _, e := range []Event{full(), minimal()} {
		got, err := Decode(record(&e))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, e) {
			t.Errorf("decoded\n%+v\nwant\n%+v", got, e)
		}
		if n := len(e.Headers(nil)); n > MaxHeaders {
			t.Errorf("%d headers, MaxHeaders says %d", n, MaxHeaders)
		}
	}
}

// foreign is what a Kafka producer that knows only the contract's minimum writes.
func foreign(headers ...string) *kgo.Record {
	r := &kgo.Record{Topic: "hookline.events", Partition: 3, Offset: 42, Key: []byte("m1"), Value: []byte(`{"a":1}`), Timestamp: time.UnixMilli(1784452525000)}
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: HeaderType, Value: []byte("a.b")})
	for i := 0; i < len(headers); i += 2 {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: headers[i], Value: []byte(headers[i+1])})
	}
	return r
}

func TestDecodeFillsDefaultsForAnyKafkaProducer(t *testing.T) {
	e, err := Decode(foreign(HeaderSubject, "other", "hl_attempt", "9", "hl_endpoint", "x", "foreign", "y", HeaderTraceparent, "broken"))
	if err != nil {
		t.Fatal(err)
	}
	want := Event{ID: positionID("hookline.events", 3, 42, 1784452525000), Type: "a.b", MessageID: "m1", Schema: "1", Origin: OriginKafka,
		AcceptedMs: 1784452525000, ContentType: "application/json", Sequence: -1, Body: []byte(`{"a":1}`)}
	if !reflect.DeepEqual(e, want) {
		t.Errorf("decoded\n%+v\nwant\n%+v", e, want)
	}
	if again, _ := Decode(foreign()); again.ID != e.ID || IsRandomID(e.ID) {
		t.Errorf("id of the position is %q, then %q", e.ID, again.ID)
	}
	moved := foreign()
	moved.Offset++
	if other, _ := Decode(moved); other.ID == e.ID {
		t.Error("two positions have one id")
	}
}

func TestDecodeClampsAcceptedToTheRecord(t *testing.T) {
	for value, want := range map[string]int64{"1784452524999": 1784452524999, "1784452525000": 1784452525000, "9999999999999": 1784452525000} {
		e, err := Decode(foreign(HeaderAcceptedMs, value))
		if err != nil || e.AcceptedMs != want {
			t.Errorf("hl_accepted_ms %s: %d, %v; want %d", value, e.AcceptedMs, err, want)
		}
	}
}

func TestDecodeTakesTheLastOfTwoHeaders(t *testing.T) {
	e, err := Decode(foreign(HeaderType, "c.d"))
	if err != nil || e.Type != "c.d" {
		t.Errorf("type %q, %v", e.Type, err)
	}
}

func TestPoison(t *testing.T) {
	bad := map[string]*kgo.Record{}
	for _, kv := range [][2]string{
		{HeaderType, ""}, {HeaderType, "a..b"}, {HeaderType, ".a"}, {HeaderType, "a."}, {HeaderType, "a b"}, {HeaderType, strings.Repeat("a", 129)},
		{HeaderID, ""}, {HeaderID, "a.b"}, {HeaderID, strings.Repeat("a", 129)}, {HeaderSpecVersion, "2.0"},
		{HeaderTime, "yesterday"}, {HeaderContentType, "text/plain\r\nX: y"}, {HeaderContentType, ""}, {HeaderTenant, "a/b"}, {HeaderTenant, ""},
		{HeaderOrigin, "a b"}, {HeaderSchema, ""}, {HeaderAcceptedMs, "-1"}, {HeaderAcceptedMs, "1e3"},
		{HeaderSequence, "-1"}, {HeaderSequence, "9007199254740992"}, {HeaderSequence, "007"}, {HeaderSequence, "99999999999999999999"},
	} {
		bad[kv[0]+"="+kv[1]] = foreign(kv[0], kv[1])
	}
	for name, change := range map[string]func(r *kgo.Record){
		"no key": func(r *kgo.Record) { r.Key = nil }, "empty key": func(r *kgo.Record) { r.Key = []byte{} },
		"blank in key": func(r *kgo.Record) { r.Key = []byte("a b") }, "long key": func(r *kgo.Record) { r.Key = bytes.Repeat([]byte("a"), 129) },
		"no value": func(r *kgo.Record) { r.Value = nil }, "empty value": func(r *kgo.Record) { r.Value = []byte{} },
		"no type": func(r *kgo.Record) { r.Headers = nil },
	} {
		bad[name] = foreign()
		change(bad[name])
	}
	for name, r := range bad {
		_, err := Decode(r)
		if !errors.Is(err, ErrPoison) || len(err.Error()) > 256 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTraceparent(t *testing.T) {
	good := full().Traceparent
	for s, want := range map[string]bool{
		good: true, "01" + good[2:] + "-more": true, "": false, good + "-more": false, good[:54]: false, "ff" + good[2:]: false,
		strings.ToUpper(good): false, "00-" + zeros + good[35:]: false, good[:36] + zeros[:16] + "-01": false, strings.Replace(good, "-", "_", 1): false,
	} {
		if got := ValidTraceparent(s); got != want {
			t.Errorf("ValidTraceparent(%q) = %v", s, got)
		}
	}
}

// FuzzDecode: no input panics; what decodes is within the limits; and what Headers writes
// from it decodes to the same event.
func FuzzDecode(f *testing.F) {
	f.Add("m1", "{}", HeaderType, "a.b", HeaderTime, "2026-07-19T09:15:25.12+02:00", int64(1784452525000))
	f.Add("m1", "{}", HeaderType, "a.b", HeaderSequence, "0", int64(0))
	f.Add("", "", HeaderID, "x", HeaderTenant, "dev", int64(-1))
	f.Add("m1", "{}", HeaderTime, "1900-01-01T00:00:00+10:00", HeaderForwarded, "AAAAAAAAAAAAAAAAAAAAAA:1:2:3", int64(-1))
	f.Add("m1", "{}", HeaderTime, "2261-12-31T23:59:59-10:00", HeaderForwarded, "AAAAAAAAAAAAAAAAAAAAAA:1:2:03", int64(1<<62))
	f.Fuzz(func(t *testing.T, key, value, k1, v1, k2, v2 string, ms int64) {
		r := &kgo.Record{Topic: "events", Key: []byte(key), Value: []byte(value), Timestamp: time.UnixMilli(ms),
			Headers: []kgo.RecordHeader{{Key: HeaderType, Value: []byte("a.b")}, {Key: k1, Value: []byte(v1)}, {Key: k2, Value: []byte(v2)}}}
		e, err := Decode(r)
		if err != nil {
			if !errors.Is(err, ErrPoison) {
				t.Fatalf("error is not poison: %v", err)
			}
			return
		}
		if !ValidType(e.Type) || !ValidID(e.ID) || !ValidMessageID(e.MessageID) || e.AcceptedMs < 0 || e.AcceptedMs > max(0, ms) || len(e.Body) == 0 {
			t.Fatalf("decoded outside the limits: %+v", e)
		}
		r.Headers = e.Headers(nil)
		e.Forwarded = "" // of the record, not of the event
		again, err := Decode(r)
		if err != nil || !reflect.DeepEqual(again, e) {
			t.Fatalf("round trip: %v\n%+v\n%+v", err, again, e)
		}
	})
}
