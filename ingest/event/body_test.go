package event

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestParseBodyFindsTheFields(t *testing.T) {
	at := time.Date(2026, 7, 19, 9, 15, 25, 0, time.UTC)
	for body, want := range map[string]Fields{
		`{"event":"message.delivered","message_id":"01HZY8Q3M6","status":"delivered","occurred_at":"2026-07-19T09:15:25Z"}`: {Event: "message.delivered", MessageID: "01HZY8Q3M6", OccurredAt: at, Sequence: -1, Schema: "1"},
		" \r\n\t{ \"message_id\" : \"m\" , \"event\" : \"a\" } \n":                                                          {Event: "a", MessageID: "m", Sequence: -1, Schema: "1"},
		`{"event":"a","message_id":"m","sequence":0,"schema_version":"2026-07"}`:                                            {Event: "a", MessageID: "m", Schema: "2026-07"},
		`{"event":"a","message_id":"m","sequence":9007199254740991,"schema_version":3}`:                                     {Event: "a", MessageID: "m", Sequence: MaxSequence, Schema: "3"},
		`{"event":"a","message_id":"m","sequence":null,"occurred_at":null}`:                                                 {Event: "a", MessageID: "m", Sequence: -1, Schema: "1"},
		`{"\u0065vent":"a\u002eb","message_id":"\"\\\/m"}`:                                                                  {Event: "a.b", MessageID: `"\/m`, Sequence: -1, Schema: "1"},
		`{"event":"a","message_id":"m","x":1,"x":2,"X":3,"big":123456789012345678901e999}`:                                  {Event: "a", MessageID: "m", Sequence: -1, Schema: "1"},
		`{"event":"a","message_id":"m","d":{"event":"b","message_id":7,"event":null}}`:                                      {Event: "a", MessageID: "m", Sequence: -1, Schema: "1"},
		`{"event":"a","message_id":"m","Sequence":"x","OCCURRED_AT":1}`:                                                     {Event: "a", MessageID: "m", Sequence: -1, Schema: "1"},
		`{"event":"a","message_id":"m","d":` + nested(MaxDepth-1) + `}`:                                                     {Event: "a", MessageID: "m", Sequence: -1, Schema: "1"},
	} {
		got, err := ParseBody([]byte(body))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, %v\nwant %+v", body, got, err, want)
		}
	}
}

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestParseBodyRefuses(t *testing.T) {
	f := func(code, field, part, body string) {
		t.Helper()
		_, err := ParseBody([]byte(body))
		var ferr *FieldError
		if !errors.As(err, &ferr) {
			t.Errorf("%q: no error", body)
			return
		}
		if ferr.Code != code || ferr.Field != field || !strings.Contains(ferr.Detail, part) {
			t.Errorf("%q: %s of %q: %s", body, ferr.Code, ferr.Field, ferr.Detail)
		}
	}
	f(CodeEmptyBody, "", "empty", "")
	f(CodeEmptyBody, "", "empty", " \n")

	f(CodeInvalidJSON, "", "byte order mark", "\xef\xbb\xbf{}")
	f(CodeInvalidJSON, "", "UTF-8", "{\"event\":\"a\xff\"}")
	f(CodeInvalidJSON, "", "UTF-8", "{\"event\":\"\xed\xa0\x80\"}")
	for _, body := range []string{"[]", "null", `"a"`, "1", "x"} {
		f(CodeInvalidJSON, "", "not a JSON object", body)
	}
	for _, body := range []string{"{", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{"a" 1}`, `{a:1}`, `{"a":01}`, `{"a":1.}`, `{"a":.1}`, `{"a":-}`, `{"a":1e}`,
		`{"a":+1}`, `{"a":tru}`, `{"a":True}`, `{"a":nul}`, `{"a":NaN}`, `{"a":[1,]}`, `{"a":[1 2]}`, `{"a":{"b"}}`, `{"a":"b}`, `{"a":"\x"}`, `{"a":"\u12g4"}`, `{"a":"\u12`,
		"{\"a\":\"\n\"}", "{\"a\":\"12345678\x1f\"}", `{"a":'b'}`, "{\"a\":1\x00}", `{"a":1//c` + "\n}"} {
		f(CodeInvalidJSON, "", "not valid JSON, at byte", body)
	}
	f(CodeInvalidJSON, "", "follows", `{"event":"a","message_id":"m"}{}`)
	f(CodeInvalidJSON, "", "follows", "{\"event\":\"a\",\"message_id\":\"m\"}\x00")
	f(CodeInvalidJSON, "", "deeper than 64", `{"event":"a","message_id":"m","d":`+nested(MaxDepth)+`}`)
	f(CodeInvalidJSON, "", "deeper than 64", `{"d":`+strings.Repeat(`{"a":`, 200_000))
	f(CodeInvalidJSON, "", "not valid JSON", `{"event":7,`) // syntax goes first

	f(CodeMissingField, "event", "missing", `{}`)
	f(CodeMissingField, "event", "missing", `{"message_id":"m"}`)
	f(CodeMissingField, "message_id", "missing", `{"event":"a"}`)
	f(CodeMissingField, "event", "another case", `{"Event":"a","message_id":"m"}`)
	f(CodeMissingField, "message_id", "another case", `{"event":"a","me\u017fsage_id":"m"}`)

	for _, twice := range []string{`"event":"a"`, `"event":"b"`, `"Event":"b"`, `"EVENT":1`, `"\u0045vent":"b"`, `"e\u0076ent":"b"`, `"eVent":null`} {
		f(CodeInvalidField, "event", "twice", `{"event":"a","message_id":"m",`+twice+`}`)
		f(CodeInvalidField, "event", "twice", `{`+twice+`,"message_id":"m","event":"a"}`)
	}
	for _, twice := range []string{`"message_id":"m"`, `"Message_ID":"x"`, `"me\u017fsage_id":"x"`, "\"mes\u017fage_id\":1", "\"me\u017f\u017fage_id\":1"} {
		f(CodeInvalidField, "message_id", "twice", `{"event":"a",`+twice+`,"message_id":"m"}`)
	}
	f(CodeInvalidField, "sequence", "twice", `{"event":"a","message_id":"m","sequence":1,"sequence":1}`)

	with := func(member string) string { return `{"event":"a","message_id":"m",` + member + `}` }
	for _, v := range []string{`""`, `"a..b"`, `"a b"`, `"."`, `"a."`, "\"\u00e9\"", `"` + strings.Repeat("a", 129) + `"`, `1`, `null`, `{}`, `[]`, `true`, `"\ud800"`} {
		f(CodeInvalidField, "event", "must be", `{"message_id":"m","event":`+v+`}`)
	}
	for _, v := range []string{`""`, `"a b"`, `"\t"`, "\"\u00e9\"", `"` + strings.Repeat("a", 129) + `"`, `1`, `null`, `"\u0000"`} {
		f(CodeInvalidField, "message_id", "must be", `{"event":"a","message_id":`+v+`}`)
	}
	for _, v := range []string{`""`, `"2026-07-19"`, `1784452525`, `{}`} {
		f(CodeInvalidField, "occurred_at", "must be", with(`"occurred_at":`+v))
	}
	for _, v := range []string{`-1`, `-0`, `1.0`, `1e3`, `9007199254740992`, `99999999999999999999`, `"1"`, `true`} {
		f(CodeInvalidField, "sequence", "must be", with(`"sequence":`+v))
	}
	for _, v := range []string{`""`, `"a b"`, `-1`, `1e3`, `[]`, `"` + strings.Repeat("1", 33) + `"`, strings.Repeat("1", 33)} {
		f(CodeInvalidField, "schema_version", "must be", with(`"schema_version":`+v))
	}
}

func TestParseBodyDoesNotAllocate(t *testing.T) {
	body := []byte(`{"event":"message.delivered","message_id":"01HZY8Q3M6","status":"delivered","occurred_at":"2026-07-19T09:15:25Z","d":{"a":[1,2.5e3,"\u0041"]}}`)
	if n := testing.AllocsPerRun(100, func() { _, _ = ParseBody(body) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkParseBody(b *testing.B) {
	body := []byte(`{"event":"message.delivered","message_id":"01HZY8Q3M6","status":"delivered","occurred_at":"2026-07-19T09:15:25Z","recipient":"+4915112345678","meta":{"campaign":"spring","tags":["a","b"],"price":0.0075},"text":"` + strings.Repeat("lorem ipsum ", 12) + `"}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseBody(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHeaders(b *testing.B) {
	e := full()
	headers, text := make([]kgo.RecordHeader, 0, MaxHeaders), make([]byte, 0, HeaderText)
	b.ReportAllocs()
	for b.Loop() {
		e.HeadersIn(headers, text)
	}
}
