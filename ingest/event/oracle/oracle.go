// Package oracle reads the bodies of publishes a second time, for tests: what ingest takes must
// come out of Kafka as this reader finds it in what was sent. It shares no code with ingest/event
// and works the other way round: encoding/json, trees, maps and regular expressions, slowly.
//
// It says whether a body is taken, never why not.
package oracle

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxDepth and the forms are those of CONTRACT and of ingest's documentation.
const maxDepth = 64

var (
	typeForm    = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
	messageForm = regexp.MustCompile(`^[!-~]{1,128}$`)
	schemaForm  = regexp.MustCompile(`^[!-~]{1,32}$`)
	plainNumber = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
	wholeNumber = regexp.MustCompile(`^(0|[1-9][0-9]{0,15})$`)
	timeForm    = regexp.MustCompile(`^([0-9]{4})-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`)
)

// Event is what hookline must have understood of a body.
type Event struct {
	Type, MessageID string
	OccurredAt      time.Time
	Sequence        int64
	Schema          string
	// Of a CloudEvent only.
	Source, ID string
}

const maxSequence = 1<<53 - 1

// Body reads a body of hookline's own form.
func Body(body []byte) (Event, bool) {
	m, ok := object(body, "event", "message_id", "occurred_at", "sequence", "schema_version")
	if !ok {
		return Event{}, false
	}
	e := Event{Sequence: -1, Schema: "1"}
	if e.Type, ok = m.text("event"); !ok || !validType(e.Type) {
		return e, false
	}
	if e.MessageID, ok = m.text("message_id"); !ok || !messageForm.MatchString(e.MessageID) {
		return e, false
	}
	if m.given("occurred_at") {
		v, ok := m.text("occurred_at")
		if e.OccurredAt = Time(v); !ok || e.OccurredAt.IsZero() {
			return e, false
		}
	}
	if m.given("sequence") {
		n, err := strconv.ParseInt(string(m["sequence"]), 10, 64)
		if e.Sequence = n; err != nil || !wholeNumber.Match(m["sequence"]) || n > maxSequence {
			return e, false
		}
	}
	return e, schema(m, "schema_version", &e)
}

// CloudEvent reads a CloudEvent in structured mode.
func CloudEvent(body []byte) (Event, bool) {
	m, ok := object(body, "specversion", "id", "source", "type", "subject", "time", "sequence", "schemaversion", "traceparent", "datacontenttype", "data", "data_base64")
	if !ok {
		return Event{}, false
	}
	e := Event{Sequence: -1, Schema: "1"}
	if v, ok := m.text("specversion"); !ok || v != "1.0" {
		return e, false
	}
	if e.ID, ok = m.text("id"); !ok || e.ID == "" || strings.ContainsFunc(e.ID, control) {
		return e, false
	}
	if e.Source, ok = m.text("source"); !ok || len(e.Source) > 512 || !reference(e.Source) {
		return e, false
	}
	if e.Type, ok = m.text("type"); !ok || !validType(e.Type) {
		return e, false
	}
	if e.MessageID, ok = m.text("subject"); !ok || !messageForm.MatchString(e.MessageID) {
		return e, false
	}
	if m.given("time") {
		v, ok := m.text("time")
		if e.OccurredAt = Time(v); !ok || e.OccurredAt.IsZero() {
			return e, false
		}
	}
	for _, name := range []string{"traceparent", "datacontenttype", "data_base64"} {
		if _, ok := m.text(name); m.given(name) && !ok {
			return e, false
		}
	}
	if v, ok := m.text("datacontenttype"); ok && !mediaType(v) {
		return e, false
	}
	if m.given("data") && m.given("data_base64") {
		return e, false
	}
	if m.given("sequence") {
		v, isText := m.text("sequence")
		if !isText {
			if v = string(m["sequence"]); v[0] != '-' && (v[0] < '0' || v[0] > '9') {
				return e, false
			}
		}
		if v = strings.TrimLeft(v, "0"); v == "" && string(m["sequence"]) != `""` {
			v = "0"
		}
		if n, err := strconv.ParseInt(v, 10, 64); err == nil && wholeNumber.MatchString(v) && n <= maxSequence {
			e.Sequence = n
		}
	}
	return e, schema(m, "schemaversion", &e)
}

// Lines are the events of an NDJSON batch.
func Lines(body []byte) [][]byte {
	var out [][]byte
	for _, line := range bytes.Split(body, []byte("\n")) {
		if line = bytes.Trim(line, " \t\r"); len(line) > 0 {
			out = append(out, line)
		}
	}
	return out
}

// Array are the events of a JSON array, false if it is none. It does not look at the UTF-8.
func Array(body []byte) ([][]byte, bool) {
	var raw []json.RawMessage
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '[' || json.Unmarshal(body, &raw) != nil {
		return nil, false
	}
	out := make([][]byte, len(raw))
	for i := range raw {
		if depth(raw[i]) > maxDepth {
			return nil, false
		}
		out[i] = bytes.Trim(raw[i], " \t\r\n")
	}
	return out, true
}

// Time is an RFC 3339 time from 1900 to 2261 with an offset, zero if v is none.
func Time(v string) time.Time {
	parts := timeForm.FindStringSubmatch(v)
	if parts == nil || len(v) > 64 {
		return time.Time{}
	}
	if year, _ := strconv.Atoi(parts[1]); year < 1900 || year > 2261 {
		return time.Time{}
	}
	leap := v[17:19] == "60"
	if leap {
		v = v[:17] + "59" + v[19:]
	}
	if f := parts[2]; len(f) > 10 {
		v = strings.Replace(v, f, f[:10], 1)
	}
	t, err := time.Parse(time.RFC3339Nano, strings.ToUpper(v))
	switch {
	case err != nil, leap && t.UTC().Minute() != 59:
		return time.Time{}
	case leap:
		t = t.Add(time.Second)
	}
	return t
}

// members are the known members of an object by their exact names.
type members map[string]json.RawMessage

// object reads body as one JSON object and refuses it when one of the names is there twice, in
// whatever case, unless it is there in other cases only.
func object(body []byte, names ...string) (members, bool) {
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); !utf8.Valid(body) || !json.Valid(body) || trimmed[0] != '{' || depth(body) > maxDepth {
		return nil, false
	}
	all := map[string][]json.RawMessage{}
	d := json.NewDecoder(bytes.NewReader(body))
	if _, err := d.Token(); err != nil {
		return nil, false
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return nil, false
		}
		all[name.(string)] = append(all[name.(string)], value)
	}
	m := members{}
	for _, want := range names {
		same := 0
		for name, values := range all {
			if strings.EqualFold(name, want) {
				same += len(values)
			}
		}
		if n := len(all[want]); n > 1 || n == 1 && same > 1 {
			return nil, false
		} else if n == 1 {
			m[want] = all[want][0]
		}
	}
	return m, true
}

// given says that a member is there and not null.
func (m members) given(name string) bool { return len(m[name]) > 0 && string(m[name]) != "null" }

// text is a member that is a string.
func (m members) text(name string) (v string, ok bool) {
	if len(m[name]) == 0 || m[name][0] != '"' {
		return "", false
	}
	return v, json.Unmarshal(m[name], &v) == nil
}

func schema(m members, name string, e *Event) bool {
	raw := m[name]
	switch {
	case !m.given(name):
		return true
	case raw[0] == '"':
		e.Schema, _ = m.text(name)
		return schemaForm.MatchString(e.Schema)
	}
	e.Schema = string(raw)
	return plainNumber.Match(raw) && len(raw) <= 32
}

func validType(v string) bool { return typeForm.MatchString(v) && len(v) <= 128 }

func control(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 || r == utf8.RuneError }

// depth is how deep the containers of valid JSON nest.
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
