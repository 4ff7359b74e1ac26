package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

var (
	typeForm      = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
	messageIDForm = regexp.MustCompile(`^[!-~]{1,128}$`)
	schemaForm    = regexp.MustCompile(`^[!-~]{1,32}$`)
	plainNumber   = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
	wholeNumber   = regexp.MustCompile(`^(0|[1-9][0-9]{0,15})$`)
)

// byTree reads a body as ParseBody does, but by encoding/json, a map and regular expressions.
func byTree(body []byte) (f Fields, ok bool) {
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	if !utf8.Valid(body) || !json.Valid(body) || trimmed[0] != '{' || depth(body) > MaxDepth {
		return f, false
	}
	f = Fields{Sequence: -1, Schema: "1"}
	members := map[string][]json.RawMessage{}
	d := json.NewDecoder(bytes.NewReader(body))
	_, _ = d.Token()
	for d.More() {
		name, _ := d.Token()
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return f, false
		}
		members[name.(string)] = append(members[name.(string)], value)
	}
	for _, want := range fieldNames {
		same := 0
		for name, values := range members {
			if strings.EqualFold(name, want) {
				same += len(values)
			}
		}
		if n := len(members[want]); n > 1 || n == 1 && same > 1 {
			return f, false
		}
	}
	return f, f.fromTree(members)
}

func (f *Fields) fromTree(members map[string][]json.RawMessage) bool {
	str := func(name string) (v string, present, ok bool) {
		values := members[name]
		if len(values) == 0 {
			return "", false, true
		}
		if values[0][0] != '"' {
			return "", true, false
		}
		err := json.Unmarshal(values[0], &v)
		return v, true, err == nil
	}
	optional := func(name string) (raw string, present bool) {
		values := members[name]
		if len(values) == 0 || string(values[0]) == "null" {
			return "", false
		}
		return string(values[0]), true
	}
	var present, ok bool
	if f.Event, present, ok = str("event"); !present || !ok || !typeForm.MatchString(f.Event) || len(f.Event) > 128 {
		return false
	}
	if f.MessageID, present, ok = str("message_id"); !present || !ok || !messageIDForm.MatchString(f.MessageID) {
		return false
	}
	if _, present := optional("occurred_at"); present {
		v, _, ok := str("occurred_at")
		at, err := ParseTime(v)
		if f.OccurredAt = at; !ok || err != nil {
			return false
		}
	}
	if raw, present := optional("sequence"); present {
		n, err := strconv.ParseInt(raw, 10, 64)
		if f.Sequence = n; err != nil || !wholeNumber.MatchString(raw) || n > MaxSequence {
			return false
		}
	}
	if raw, present := optional("schema_version"); present {
		if raw[0] == '"' {
			f.Schema, _, _ = str("schema_version")
			return schemaForm.MatchString(f.Schema)
		}
		f.Schema = raw
		return plainNumber.MatchString(raw) && len(raw) <= 32
	}
	return true
}

func depth(body []byte) int {
	now, most, inString := 0, 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == '{' || c == '['):
			now++
			most = max(most, now)
		case !inString && (c == '}' || c == ']'):
			now--
		}
	}
	return most
}

// FuzzParseBody: ParseBody takes exactly the bodies that a reader built from encoding/json
// and regular expressions takes, finds the same fields in them, and leaves the body alone.
func FuzzParseBody(f *testing.F) {
	for _, seed := range []string{
		`{"event":"message.delivered","message_id":"01HZY8Q3M6","status":"delivered","occurred_at":"2026-07-19T09:15:25Z"}`,
		`{"event":"a","message_id":"m","sequence":9007199254740991,"schema_version":3.5,"x":[{},[],"\ud83d\ude00",-0.5E+9,true,false,null]}`,
		`{"\u0065vent":"a\u002eb","me\u017fsage_id":"x","message_id":"m\/\"\\"}`, "{\"event\":\"a\",\"me\u017fsage_id\":\"m\"}", `{"event":"a","message_id":"m","Sequence":1,"sequence":null}`,
		`[1]`, `{"event":"\ud800","message_id":"m"}`, "\xef\xbb\xbf{}", " {} x", `{"a":` + nested(70) + `}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		got, err := ParseBody(body)
		want, ok := byTree(before)
		if (err == nil) != ok {
			t.Fatalf("%q: %v, encoding/json takes it: %v", body, err, ok)
		}
		if ok && (got.Event != want.Event || got.MessageID != want.MessageID || got.Sequence != want.Sequence || got.Schema != want.Schema || !got.OccurredAt.Equal(want.OccurredAt)) {
			t.Fatalf("%q:\n%+v\n%+v", body, got, want)
		}
		if !bytes.Equal(before, body) {
			t.Fatalf("%q was changed to %q", before, body)
		}
		var ferr *FieldError
		if err != nil && (!errors.As(err, &ferr) || ferr.Code == "" || ferr.Detail == "" || !utf8.ValidString(ferr.Detail)) {
			t.Fatalf("%q: error %#v is not fit for a client", body, err)
		}
	})
}
