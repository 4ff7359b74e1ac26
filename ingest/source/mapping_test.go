package source

import (
	"errors"
	"strings"
	"testing"

	"github.com/hookline/hookline/ingest/event"
)

const plainHMAC = "scheme: hmac\nsecrets: [s]\nhmac: {header: X-Sig}\n"

func TestMapping(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ settings, body, headers, want string }{
		{"event_type: json:type\nmessage_id: json:a.0.id\nevent_id: json:id", `{"type":"a.b","id":1,"a":[{"id":"m"}]}`, "", "a.b m"},
		{"event_type: [const:acme, json:type, json:action?]\nmessage_id: json:id\nevent_id: json:id", `{"type":"x","id":-7}`, "", "acme.x -7"},
		{"event_type: [const:acme, json:type, json:action?]\nmessage_id: json:id\nevent_id: json:id", `{"type":"x","action":"made","id":7}`, "", "acme.x.made 7"},
		{"event_type: header:X-Topic\nmessage_id: json:id\nevent_id: json:id", `{"id":"m"}`, "X-Topic: orders/line items:caf\u00e9", "orders.line_items.caf_ m"},
		{"event_type: header:X-Topic\nmessage_id: json:id\nevent_id: json:id", `{"id":"m"}`, "X-Topic: a//b", "invalid_field"},
		{"event_type: header:X-Topic\nmessage_id: json:id\nevent_id: json:id", `{"id":"m"}`, "X-Topic: /", "invalid_field"},
		{"event_type: header:X-Topic\nmessage_id: json:id\nevent_id: json:id", `{"id":"m"}`, "X-Topic: " + strings.Repeat("a", 129), "invalid_field"},
		{"event_type: header:X-Topic\nmessage_id: json:id\nevent_id: json:id", `{"id":"m"}`, "", "missing_field"},
		{"event_type: const:a\nmessage_id: [json:none, json:obj, json:nul, json:empty, json:id]\nevent_id: json:id", `{"obj":{},"nul":null,"empty":"","id":"last"}`, "", "a last"},
		{"event_type: const:a\nmessage_id: [json:none, json:obj]\nevent_id: json:id", `{"obj":{},"id":"m"}`, "", "invalid_field"},
		{"event_type: const:a\nmessage_id: json:id\nevent_id: json:id", `{"id":"with blank"}`, "", "invalid_field"},
		{"event_type: const:a\nmessage_id: json:id\nevent_id: json:id", `{"id":"caf\u00e9"}`, "", "invalid_field"},
		{"event_type: const:a\nmessage_id: json:id\nevent_id: json:id", `{"id":1.5}`, "", "invalid_field"},
		{"event_type: const:a\nmessage_id: json:id\nevent_id: json:id", `{"id":12345678901234567890123}`, "", "a 12345678901234567890123"},
		{"event_type: const:a\nmessage_id: json:id\nevent_id: json:id", `{"id":"a","id":"b"}`, "", "invalid_field"},
		{"event_type: const:a\nmessage_id: json:id\nevent_id: json:id", `{"id":"a"`, "", "invalid_json"},
		{"event_type: const:a\nmessage_id: json:id\nevent_id: json:id", `id=a`, "Content-Type: application/x-www-form-urlencoded", "invalid_json"},
		{"event_type: form:kind\nmessage_id: form:id\nevent_id: form:id", `id=a&kind=b`, "Content-Type: application/x-www-form-urlencoded; charset=utf-8", "b a"},
		{"event_type: form:kind\nmessage_id: form:id\nevent_id: form:id", `id=a&kind=b&id=c`, "Content-Type: application/x-www-form-urlencoded", "invalid_field"},
		{"event_type: form:kind\nmessage_id: form:id\nevent_id: form:id", `id=a&kind=b`, "Content-Type: text/plain", "missing_field"},
		{"event_type: const:a\nmessage_id: header:X-M\nevent_id: header:X-M", "\xff\xfe not json", "X-M: m", "a m"},
		{"event_type: const:a\nmessage_id: const:m\nevent_id: json:id", `{"id":"` + strings.Repeat("x", 256) + `"}`, "", "invalid_field"},
	} {
		name, value, _ := strings.Cut(row.headers, ": ")
		r := post(row.body)
		if name != "" {
			r = post(row.body, name, value)
		}
		if got, _ := mapped(t, makeSource(t, plainHMAC+row.settings), r); got != row.want {
			t.Errorf("%s\n%.200s\n%.100s: %s, want %s", row.settings, row.body, row.headers, got, row.want)
		}
	}
	r := post(`{}`)
	r.Header = func(name string) (string, int) { return "m", 2 }
	if got, _ := mapped(t, makeSource(t, plainHMAC+"event_type: const:a\nmessage_id: header:X-M\nevent_id: header:X-M"), r); got != "invalid_field" {
		t.Errorf("two headers: %s", got)
	}
}

func TestDerivedIDsAreOfAllTheirFields(t *testing.T) {
	t.Parallel()
	s := makeSource(t, plainHMAC+"event_type: json:t\nmessage_id: json:m\nderive_id: [json:t, json:a.b, json:at, json:opt?, header:X-H?]")
	seen := map[string]string{}
	for _, body := range []string{
		`{"t":"a","m":"m","a":{"b":1.50},"at":1}`,
		`{"t":"a","m":"m","a":{"b":1.5},"at":1}`,
		`{"t":"a","m":"m","a":{"b":true},"at":1}`,
		`{"t":"a","m":"m","a":{"b":"x"},"at":"y"}`,
		`{"t":"a","m":"m","a":{"b":"xy"},"at":1}`,
		`{"t":"a","m":"m","a":{"b":"x"},"at":"y","opt":"z"}`,
		`{"t":"a","m":"n","a":{"b":"x"},"at":"y"}`,
	} {
		got, e := mapped(t, s, post(body))
		if !strings.HasPrefix(got, "a ") {
			t.Fatalf("%s: %s", body, got)
		}
		if before, ok := seen[e.ID]; ok {
			t.Errorf("one id for %s and %s", before, body)
		}
		seen[e.ID] = body
		if _, again := mapped(t, s, post(strings.ReplaceAll(body, ",", " , "))); again.ID != e.ID {
			t.Errorf("%s: another id when the rest differs", body)
		}
	}
	for body, want := range map[string]string{`{"t":"a","m":"m","a":{},"at":1}`: "missing_field", `{"t":"a","m":"m","a":{"b":[]},"at":1}`: "invalid_field"} {
		if got, _ := mapped(t, s, post(body)); got != want {
			t.Errorf("%s: %s", body, got)
		}
	}
	id := func(settings string) string {
		_, e := mapped(t, makeSource(t, plainHMAC+settings), post(`{"id":"1"}`))
		return e.ID
	}
	if id("event_type: const:a\nmessage_id: const:m\nevent_id: json:id") == event.DeriveID("dev", "a", "m", "1") {
		t.Error("a publisher could make the id with an Idempotency-Key")
	}
}

func TestRequireNamesThePath(t *testing.T) {
	t.Parallel()
	s := makeSource(t, plainHMAC+`event_type: const:a
message_id: const:m
event_id: json:id
require:
  - {path: data.object.id, type: string, max_len: 3}
  - {path: data.n, type: integer}
  - {path: json:data.any}
  - {path: data.list, type: array}
  - {path: "data.x\\.y", max_len: 2}`)
	const good = `{"id":"1","data":{"object":{"id":"caf"},"n":1,"any":0,"list":[],"x.y":"\u00e9\u00e9"}}`
	for from, want := range map[string][2]string{
		"":                      {"", ""},
		`"object":{"id":"caf"}`: {`"object":{}`, "missing_field data.object.id"},
		`"id":"caf"`:            {`"id":"cafe"`, "invalid_field data.object.id"},
		`"caf"`:                 {`5`, "invalid_field data.object.id"},
		`"n":1`:                 {`"n":1.0`, "invalid_field data.n"},
		`"any":0`:               {`"any":null`, "invalid_field data.any"},
		`"list":[]`:             {`"list":{}`, "invalid_field data.list"},
		`"x.y"`:                 {`"x":{"y":1},"xy"`, `missing_field data.x\.y`},
		`\u00e9"`:               {`\u00e9e"`, `invalid_field data.x\.y`},
	} {
		body := good
		if from != "" {
			body = strings.Replace(good, from, want[0], 1)
		}
		var e event.Event
		var field *event.FieldError
		got := ""
		if errors.As(s.Map(post(body), &e), &field) {
			got = field.Code + " " + field.Field
			if !strings.Contains(field.Detail, field.Field) {
				t.Errorf("%s: the detail %q does not name the path", body, field.Detail)
			}
		}
		if got != want[1] && !(from == "" && got == "") {
			t.Errorf("%s: %q, want %q", body, got, want[1])
		}
	}
}
