package event

import (
	"fmt"
	"mime"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// CloudEvent are the attributes of a CloudEvent 1.0 that hookline looks at. All others, and the
// data, are for the receiver.
type CloudEvent struct {
	ID      string
	Source  string // with ID the identity of the event, for its producer
	Type    string // the event type
	Subject string // the message id

	Time        time.Time // zero = none given
	Sequence    int64     // of the extension "sequence", -1 = none given or no whole number
	Schema      string    // of the extension "schemaversion", "1" = none given
	Traceparent string    // of the extension for distributed tracing, "" = none given or malformed
}

// The attributes that have a meaning, the required ones first. The last three are members of
// the JSON form only, of which no reader may find two.
const (
	cloudSpecVersion = iota
	cloudID
	cloudSource
	cloudType
	cloudSubject
	cloudTime
	cloudSequence
	cloudSchema
	cloudTrace
	cloudContentType
	cloudData
	cloudData64
)

var cloudNames = []string{"specversion", "id", "source", "type", "subject", "time", "sequence", "schemaversion", "traceparent",
	"datacontenttype", "data", "data_base64"}

const (
	cloudRequired = cloudSubject + 1
	cloudHeaders  = cloudTrace + 1 // those of binary mode
)

func newCloudEvent() CloudEvent { return CloudEvent{Sequence: -1, Schema: DefaultSchema} }

// ParseCloudEvent reads the JSON form of one CloudEvent (structured mode) as ParseBody reads a
// body of our own form: in one pass, names exactly, nothing changed. An attribute that is null
// counts as not given.
func ParseCloudEvent(body []byte) (CloudEvent, error) {
	var c CloudEvent
	p := parser{scanner: scanner{b: body}, cloud: &c}
	if ferr := p.document(); ferr != nil {
		return CloudEvent{}, ferr
	}
	return c, nil
}

// CloudHeaders reads the attributes of a CloudEvent in binary mode. value returns a header,
// nil if it is not there, and false if it is there twice. The strings are copies.
func CloudHeaders(value func(name string) ([]byte, bool)) (CloudEvent, error) {
	c := newCloudEvent()
	for f, attribute := range cloudNames[:cloudHeaders] {
		name := "ce-" + attribute
		raw, once := value(name)
		switch {
		case !once:
			return c, invalidField(name, "occurs twice")
		case raw == nil && f < cloudRequired:
			return c, missingCloud(name, f)
		case raw == nil:
			continue
		}
		v, ok := headerText(raw)
		if !ok {
			return c, invalidField(name, "is not UTF-8 in percent-encoding")
		}
		if why := c.set(f, v); why != "" {
			return c, invalidField(name, why)
		}
	}
	return c, nil
}

// CheckJSON says whether data is one JSON value in UTF-8 of bounded depth, nil or a *FieldError.
func CheckJSON(data []byte) error {
	s := scanner{b: data}
	s.blanks()
	if s.i == len(data) {
		return &FieldError{Code: CodeEmptyBody, Detail: "the body is empty"}
	}
	if !utf8.Valid(data) {
		return invalidJSON("the body is not valid UTF-8")
	}
	if _, ok := s.value(0); !ok {
		return invalidJSON("the body is not valid JSON, " + s.err.Error())
	}
	if s.blanks(); s.i != len(data) {
		return invalidJSON(fmt.Sprintf("something follows the JSON value at byte %d", s.i))
	}
	return nil
}

func missingCloud(name string, f int) *FieldError {
	if f == cloudSubject {
		return &FieldError{Code: CodeMissingField, Field: name, Detail: fmt.Sprintf("field %q is missing: here a CloudEvent needs one, it is the message id", name)}
	}
	return missingField(name, false)
}

// set stores an attribute and says what is wrong with it, "" if nothing.
func (c *CloudEvent) set(f int, v string) string {
	switch f {
	case cloudSpecVersion:
		if v != SpecVersion {
			return "must be 1.0"
		}
	case cloudID:
		if c.ID = v; !cloudString(v) {
			return "must be a string without control characters that is not empty"
		}
	case cloudSource:
		if c.Source = v; !visible(v, MaxSource) || !uriReference(v) {
			return "must be a URI reference of at most 512 bytes"
		}
	case cloudType:
		if c.Type = v; !ValidType(v) {
			return "must be dot-separated words of [A-Za-z0-9_-], at most 128 bytes"
		}
	case cloudSubject:
		if c.Subject = v; !ValidMessageID(v) {
			return "must be 1 to 128 characters of visible ASCII: it is the message id"
		}
	case cloudTime:
		t, err := ParseTime(v)
		if c.Time = t; err != nil {
			return "must be an RFC 3339 time with an offset, from 1900 to 2261"
		}
	case cloudSequence:
		c.Sequence = cloudNumber(v)
	case cloudSchema:
		if c.Schema = v; !ValidSchema(v) {
			return "must be 1 to 32 characters of visible ASCII"
		}
	case cloudTrace:
		if ValidTraceparent(v) {
			c.Traceparent = v
		}
	case cloudContentType:
		if media, _, err := mime.ParseMediaType(v); err != nil || !strings.Contains(media, "/") {
			return "must be a media type"
		}
	}
	return ""
}

// cloudText takes an attribute that is a JSON string.
func (p *parser) cloudText(f int, v string) {
	if why := p.cloud.set(f, v); why != "" {
		p.reject(f, why)
	}
	p.onlyData(f)
}

// cloudOther takes one that is not. raw is its text.
func (p *parser) cloudOther(f int, k kind, raw string) {
	switch {
	case k == kindNull: // not given, as the JSON format has it
	case f == cloudData:
		p.onlyData(f)
	case k == kindNumber && f == cloudSequence:
		p.cloud.Sequence = cloudNumber(raw)
	case k == kindNumber && f == cloudSchema:
		if p.cloud.Schema = raw; !plainNumber(raw) {
			p.reject(f, notPlain)
		}
	default:
		p.reject(f, "must be a string, not "+kindNames[k])
	}
}

// onlyData refuses the second of data and data_base64.
func (p *parser) onlyData(f int) {
	const both = 1<<cloudData | 1<<cloudData64
	if f >= cloudData && p.exact&^p.null&both == both {
		p.reject(f, "may not be there beside the other kind of data")
	}
}

// cloudNumber reads the sequence extension, -1 if it is no whole number of ours: its form is
// the producer's affair, and only some are numbers. Leading zeros make it sort as text.
func cloudNumber(v string) int64 {
	if digits := strings.TrimLeft(v, "0"); digits != "" {
		v = digits
	} else if v != "" {
		v = "0"
	}
	if n, ok := decimal(v, MaxSequence); ok {
		return n
	}
	return -1
}

// cloudString says whether v may be an attribute: CloudEvents allows no control characters, and
// U+FFFD is what half a surrogate pair was read as.
func cloudString(v string) bool {
	for _, r := range v {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return false
		}
	}
	return v != ""
}

func uriReference(v string) bool {
	_, err := url.Parse(v)
	return err == nil
}

// headerText decodes an attribute from its header: quoted strings of older producers first,
// then the percent-encoding, once. false if what comes out is not UTF-8 or a "%" begins no byte.
func headerText(raw []byte) (string, bool) {
	if len(raw) >= 2 && raw[0] == '"' && raw[len(raw)-1] == '"' {
		var ok bool
		if raw, ok = unquote(raw[1 : len(raw)-1]); !ok {
			return "", false
		}
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '%' {
			out = append(out, raw[i])
			continue
		}
		if i+2 >= len(raw) {
			return "", false
		}
		b, ok := hex2(raw[i+1], raw[i+2])
		if !ok {
			return "", false
		}
		out = append(out, b)
		i += 2
	}
	return string(out), utf8.Valid(out)
}

// unquote takes the backslashes out of what was between the quotes of a quoted string.
func unquote(raw []byte) ([]byte, bool) {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			return nil, false
		case '\\':
			if i++; i == len(raw) {
				return nil, false
			}
		}
		out = append(out, raw[i])
	}
	return out, true
}

func hex2(hi, lo byte) (byte, bool) {
	r, ok := hex4([]byte{'0', '0', hi, lo})
	return byte(r), ok
}
