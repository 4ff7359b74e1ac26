package event

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hookline/hookline/ingest/event/oracle"
)

// agree fails if what was understood of a body is not what the oracle finds in it.
func agree(t *testing.T, body []byte, got Fields, err error, want oracle.Event, ok bool) {
	t.Helper()
	if (err == nil) != ok {
		t.Fatalf("%q: %v, the oracle takes it: %v", body, err, ok)
	}
	if ok && (got.Event != want.Type || got.MessageID != want.MessageID || got.Sequence != want.Sequence || got.Schema != want.Schema || !got.OccurredAt.Equal(want.OccurredAt)) {
		t.Fatalf("%q:\n%+v\n%+v", body, got, want)
	}
	fitForClients(t, body, err)
}

// agreeCloud is agree for a CloudEvent.
func agreeCloud(t *testing.T, body []byte, got CloudEvent, err error, want oracle.Event, ok bool) {
	t.Helper()
	agree(t, body, Fields{got.Type, got.Subject, got.Time, got.Sequence, got.Schema}, err, want, ok)
	if ok && (got.ID != want.ID || got.Source != want.Source || got.Traceparent != "" && !ValidTraceparent(got.Traceparent)) {
		t.Fatalf("%q:\n%+v\n%+v", body, got, want)
	}
}

func fitForClients(t *testing.T, body []byte, err error) {
	t.Helper()
	var ferr *FieldError
	if err != nil && (!errors.As(err, &ferr) || ferr.Code == "" || ferr.Detail == "" || !utf8.ValidString(ferr.Detail)) {
		t.Fatalf("%q: error %#v is not fit for a client", body, err)
	}
}

var bodySeeds = []string{
	`{"event":"message.delivered","message_id":"01HZY8Q3M6","status":"delivered","occurred_at":"2026-07-19T09:15:25Z"}`,
	`{"event":"a","message_id":"m","sequence":9007199254740991,"schema_version":3.5,"x":[{},[],"\ud83d\ude00",-0.5E+9,true,false,null]}`,
	`{"\u0065vent":"a\u002eb","me\u017fsage_id":"x","message_id":"m\/\"\\"}`, "{\"event\":\"a\",\"me\u017fsage_id\":\"m\"}", `{"event":"a","message_id":"m","Sequence":1,"sequence":null}`,
	`[1]`, `{"event":"\ud800","message_id":"m"}`, "\xef\xbb\xbf{}", " {} x", `{"a":` + nested(70) + `}`,
}

var cloudSeeds = []string{
	`{"specversion":"1.0","type":"com.github.pull.create","source":"https://github.com/cloudevents/spec/pull","subject":"123","id":"A234-1234-1234","time":"2018-04-05T17:31:00Z","comexampleextension1":"value","comexampleothervalue":5,"datacontenttype":"text/xml","data":"<much wow=\"xml\"/>"}`,
	`{"specversion":"1.0","type":"a","source":"/s","subject":"m","id":"1","data_base64":"eA==","data":null,"sequence":"00042","schemaversion":"2","traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}`,
	`{"specversion":"1.0","type":"a","source":"/s","subject":"m","id":"\ud800","sequence":17,"schemaversion":4}`,
	`{"specversion":"1.0","type":"a","source":"/s","subject":"m","id":"1","data":1,"data_base64":"eA==","time":null}`,
	`{"specversion":"1.0","type":"a","\u0053ource":"/t","source":"/s","subject":"m","id":"1"}`,
}

// FuzzParseBody: ParseBody takes exactly the bodies that the oracle takes, finds the same fields
// in them, and leaves the body alone.
func FuzzParseBody(f *testing.F) {
	for _, seed := range bodySeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		got, err := ParseBody(body)
		want, ok := oracle.Body(before)
		agree(t, body, got, err, want, ok)
		if !bytes.Equal(before, body) {
			t.Fatalf("%q was changed to %q", before, body)
		}
	})
}

// FuzzParseCloudEvent: the same for CloudEvents in structured mode.
func FuzzParseCloudEvent(f *testing.F) {
	for _, seed := range append(cloudSeeds[:len(cloudSeeds):len(cloudSeeds)], bodySeeds...) {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		got, err := ParseCloudEvent(body)
		want, ok := oracle.CloudEvent(before)
		agreeCloud(t, body, got, err, want, ok)
		if !bytes.Equal(before, body) {
			t.Fatalf("%q was changed to %q", before, body)
		}
	})
}

// FuzzArray: the elements of an array are those that encoding/json finds, byte for byte, each
// judged as a body of its own would be.
func FuzzArray(f *testing.F) {
	f.Add([]byte("["+strings.Join(bodySeeds[:5], " ,\n")+" , 7]"), false)
	f.Add([]byte(" [ "+strings.Join(cloudSeeds, ",")+"]\r\n"), true)
	f.Add([]byte("[{\"event\":\"a\",\"message_id\":\"\xff\"},{},[[]],\"\",]"), false)
	f.Add([]byte("[{\"event\":\"a\",\"message_id\":\"\xff\"} , null]x"), false)
	f.Fuzz(func(t *testing.T, body []byte, cloud bool) {
		var got []Element
		var e Element
		array := NewArray(body, cloud)
		for array.Next(&e) {
			got = append(got, e)
		}
		err := array.Err()
		fitForClients(t, body, err)
		want, ok := oracle.Array(body)
		if (err == nil) != ok {
			t.Fatalf("%q: %v, the oracle takes it: %v", body, err, ok)
		}
		if !ok {
			return
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %d elements, want %d", body, len(got), len(want))
		}
		for i, raw := range want {
			if !bytes.Equal(got[i].Raw, raw) {
				t.Fatalf("%q: element %d is %q, want %q", body, i, got[i].Raw, raw)
			}
			if cloud {
				event, ok := oracle.CloudEvent(raw)
				agreeCloud(t, raw, got[i].Cloud, got[i].Err, event, ok)
			} else {
				event, ok := oracle.Body(raw)
				agree(t, raw, got[i].Fields, got[i].Err, event, ok)
			}
		}
	})
}

// FuzzCloudHeaders: an attribute that was encoded as the HTTP binding says comes out as it was,
// and whatever comes out is UTF-8.
func FuzzCloudHeaders(f *testing.F) {
	f.Add("Euro \u20ac \U0001f600", "%C0%A0", `"a \"b\" %25"`)
	f.Add("a", "%", `"a`)
	f.Add("\x00", "%4", `"a\"`)
	f.Fuzz(func(t *testing.T, id, raw, other string) {
		headers := map[string]string{"ce-specversion": "1.0", "ce-id": percentEncoded(id), "ce-source": "/s", "ce-type": "a", "ce-subject": "m", "ce-time": other}
		get := func(name string) ([]byte, bool) {
			if v, ok := headers[name]; ok {
				return []byte(v), true
			}
			return nil, true
		}
		delete(headers, "ce-time")
		c, err := CloudHeaders(get)
		if plain := utf8.ValidString(id) && cloudString(id); (err == nil) != plain || plain && c.ID != id {
			t.Fatalf("id %q came out as %q, %v", id, c.ID, err)
		}
		headers["ce-id"], headers["ce-time"] = raw, other
		c, err = CloudHeaders(get)
		if err == nil && (!utf8.ValidString(c.ID) || c.ID == "" || c.Time.IsZero()) {
			t.Fatalf("headers %q came out as %+v", headers, c)
		}
		fitForClients(t, []byte(raw), err)
	})
}

func percentEncoded(v string) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	for i := range len(v) {
		if c := v[i]; c <= ' ' || c > '~' || c == '"' || c == '%' {
			b.WriteString("%" + string(digits[c>>4]) + string(digits[c&15]))
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// The oracle is held against what people wrote down, so that the two readers do not agree on
// the same mistake.
func TestOracle(t *testing.T) {
	for body, want := range map[string]oracle.Event{
		bodySeeds[0]:  {Type: "message.delivered", MessageID: "01HZY8Q3M6", OccurredAt: time.Date(2026, 7, 19, 9, 15, 25, 0, time.UTC), Sequence: -1, Schema: "1"},
		bodySeeds[1]:  {Type: "a", MessageID: "m", Sequence: 9007199254740991, Schema: "3.5"},
		cloudSeeds[0]: {Type: "com.github.pull.create", MessageID: "123", OccurredAt: time.Date(2018, 4, 5, 17, 31, 0, 0, time.UTC), Sequence: -1, Schema: "1", Source: "https://github.com/cloudevents/spec/pull", ID: "A234-1234-1234"},
		cloudSeeds[1]: {Type: "a", MessageID: "m", Sequence: 42, Schema: "2", Source: "/s", ID: "1"},
	} {
		read := oracle.Body
		if want.ID != "" {
			read = oracle.CloudEvent
		}
		if got, ok := read([]byte(body)); !ok || got != want {
			t.Errorf("%s:\n%+v\n%+v", body, got, want)
		}
	}
	for _, body := range append(cloudSeeds[2:5:5], bodySeeds[2], bodySeeds[3], bodySeeds[5], bodySeeds[6], bodySeeds[7], bodySeeds[8], bodySeeds[9]) {
		if _, ok := oracle.CloudEvent([]byte(body)); ok {
			t.Errorf("the oracle takes %s", body)
		}
		if _, ok := oracle.Body([]byte(body)); ok {
			t.Errorf("the oracle takes %s", body)
		}
	}
}
