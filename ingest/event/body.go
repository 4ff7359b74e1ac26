package event

import (
	"bytes"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Codes of a FieldError: the code of the problem that ingest answers with.
const (
	CodeEmptyBody    = "empty_body"
	CodeInvalidJSON  = "invalid_json"
	CodeInvalidField = "invalid_field"
	CodeMissingField = "missing_field"
)

// FieldError says why a body was refused.
type FieldError struct {
	Code   string
	Field  string // the field at fault, "" when it is the body as a whole
	Detail string // one sentence for people; may quote nothing of the body
}

func (e *FieldError) Error() string { return e.Detail }

// Fields are the few members of a body that hookline looks at.
type Fields struct {
	Event      string
	MessageID  string
	OccurredAt time.Time // zero = none given
	Sequence   int64     // -1 = none given
	Schema     string    // "1" = none given
}

// The top-level members that have a meaning. The first two are required.
const (
	fieldEvent = iota
	fieldMessageID
	fieldOccurredAt
	fieldSequence
	fieldSchema
)

var fieldNames = []string{"event", "message_id", "occurred_at", "sequence", "schema_version"}

// fieldsRequired is how many of fieldNames must be there, from the first.
const fieldsRequired = fieldMessageID + 1

// ParseBody finds the fields of a body in one pass and checks all of it: UTF-8, JSON
// grammar, one object, nothing after it, depth. It changes nothing and keeps numbers as they
// are. The strings of Fields alias body unless they were escaped in it. The error is nil or
// a *FieldError; a syntax error goes before a wrong field.
//
// A member counts only under its exact name (after unescaping). A name that is there twice,
// or once more in another case, is refused: readers of the body would not agree on its
// value. Another case of an optional name alone is an unknown member, which is kept.
func ParseBody(body []byte) (Fields, error) {
	p := parser{scanner: scanner{b: body}}
	if ferr := p.document(); ferr != nil {
		return Fields{}, ferr
	}
	return p.fields, nil
}

// parser takes one JSON object and finds the members that have a meaning in it: those of
// fieldNames, or those of cloudNames if cloud is set.
type parser struct {
	scanner
	cloud  *CloudEvent
	fields Fields

	exact  uint32      // members seen under their names, a bit each
	folded uint32      // seen in another case
	null   uint32      // seen as null
	wrong  *FieldError // the first wrong member; scanning goes on
}

// document takes a body that is one object and nothing else.
func (p *parser) document() *FieldError {
	p.blanks()
	if p.i == len(p.b) {
		return &FieldError{Code: CodeEmptyBody, Detail: "the body is empty"}
	}
	if bytes.HasPrefix(p.b, byteOrderMark) {
		return invalidJSON("the body begins with a byte order mark")
	}
	if !utf8.Valid(p.b) {
		return invalidJSON("the body is not valid UTF-8")
	}
	if p.next() != '{' {
		return invalidJSON("the body is not a JSON object")
	}
	if !p.object() {
		return invalidJSON("the body is not valid JSON, " + p.err.Error())
	}
	p.blanks()
	if p.i != len(p.b) {
		return invalidJSON(fmt.Sprintf("something follows the JSON object at byte %d", p.i))
	}
	return p.verdict()
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// object takes the object at the position. false is a syntax error; verdict says what is wrong
// with an object that could be read.
func (p *parser) object() bool {
	p.exact, p.folded, p.null, p.wrong = 0, 0, 0, nil
	if p.cloud != nil {
		*p.cloud = newCloudEvent()
	} else {
		p.fields = Fields{Sequence: -1, Schema: DefaultSchema}
	}
	return p.members()
}

func (p *parser) verdict() *FieldError {
	if p.wrong != nil {
		return p.wrong
	}
	names, required := p.names()
	for f, name := range names[:required] {
		if bit := uint32(1) << f; p.exact&^p.null&bit == 0 {
			return missingField(name, p.folded&bit != 0)
		}
	}
	return nil
}

// names are the members that have a meaning, and how many of them, from the first, are required.
func (p *parser) names() ([]string, int) {
	if p.cloud != nil {
		return cloudNames, cloudRequired
	}
	return fieldNames, fieldsRequired
}

func missingField(name string, folded bool) *FieldError {
	detail := fmt.Sprintf("field %q is missing", name)
	if folded {
		detail += ": it is there in another case only, names are matched exactly"
	}
	return &FieldError{Code: CodeMissingField, Field: name, Detail: detail}
}

// members takes the top-level object; container does the same for all below.
func (p *parser) members() bool {
	p.i++
	p.blanks()
	if p.next() == '}' {
		p.i++
		return true
	}
	for {
		raw, escaped, ok := p.name()
		if !ok {
			return false
		}
		if !p.member(p.field(raw, escaped)) {
			return false
		}
		p.blanks()
		switch p.next() {
		case ',':
			p.i++
		case '}':
			p.i++
			return true
		default:
			return p.fail("',' or '}' expected")
		}
	}
}

// field says which field a name is, -1 for none of them, and notes a name that comes again.
func (p *parser) field(raw []byte, escaped bool) int {
	name := text(raw)
	if escaped {
		name = unescape(raw)
	}
	names, _ := p.names()
	for f, want := range names {
		bit := uint32(1) << f
		switch {
		case name == want:
			if (p.exact|p.folded)&bit != 0 {
				p.reject(f, "occurs twice")
			}
			p.exact |= bit
			return f
		case sameFolded(name, want):
			if p.exact&bit != 0 {
				p.reject(f, "occurs twice, once in another case")
			}
			p.folded |= bit
			return -1
		}
	}
	return -1
}

// sameFolded is strings.EqualFold with a quick no: of our names only s folds out of ASCII,
// to two bytes, so a name of another length must have a byte that is not ASCII.
func sameFolded(name, want string) bool {
	if len(name) < len(want) || len(name) > 2*len(want) || name[0]|0x20 != want[0] && name[0] < utf8.RuneSelf {
		return false
	}
	return strings.EqualFold(name, want)
}

// member takes the value of field f, or of an unknown member if f is -1.
func (p *parser) member(f int) bool {
	p.blanks()
	start := p.i
	if f < 0 {
		_, ok := p.value(1)
		return ok
	}
	if p.next() == '"' {
		raw, escaped, ok := p.text()
		if !ok {
			return false
		}
		value := text(raw)
		if escaped {
			value = unescape(raw)
		}
		if p.cloud != nil {
			p.cloudText(f, value)
		} else {
			p.setText(f, value)
		}
		return true
	}
	k, ok := p.value(1)
	if !ok {
		return false
	}
	if k == kindNull {
		p.null |= 1 << f
	}
	if p.cloud != nil {
		p.cloudOther(f, k, text(p.b[start:p.i]))
		return true
	}
	switch {
	case k == kindNumber && (f == fieldSequence || f == fieldSchema):
		p.setNumber(f, text(p.b[start:p.i]))
	case k == kindNull && f > fieldMessageID:
		// Encoders write null for a variable that is not set.
	case f == fieldSequence:
		p.reject(f, "must be a number, not "+kindNames[k])
	default:
		p.reject(f, "must be a string, not "+kindNames[k])
	}
	return true
}

func (p *parser) setText(f int, v string) {
	switch f {
	case fieldEvent:
		p.fields.Event = v
		if !ValidType(v) {
			p.reject(f, "must be dot-separated words of [A-Za-z0-9_-], at most 128 bytes")
		}
	case fieldMessageID:
		p.fields.MessageID = v
		if !ValidMessageID(v) {
			p.reject(f, "must be 1 to 128 characters of visible ASCII")
		}
	case fieldOccurredAt:
		t, err := ParseTime(v)
		p.fields.OccurredAt = t
		if err != nil {
			p.reject(f, "must be an RFC 3339 time with an offset, from 1900 to 2261")
		}
	case fieldSequence:
		p.reject(f, "must be a number, not a string")
	case fieldSchema:
		p.fields.Schema = v
		if !ValidSchema(v) {
			p.reject(f, "must be 1 to 32 characters of visible ASCII")
		}
	}
}

func (p *parser) setNumber(f int, v string) {
	if f == fieldSchema {
		if p.fields.Schema = v; !plainNumber(v) {
			p.reject(f, notPlain)
		}
		return
	}
	n, ok := decimal(v, MaxSequence)
	p.fields.Sequence = n
	if !ok {
		p.reject(f, "must be a whole number from 0 to 9007199254740991, written in digits only")
	}
}

// plainNumber says whether v, a JSON number, may be a contract version.
func plainNumber(v string) bool { return len(v) <= MaxSchema && !strings.ContainsAny(v, "-+eE") }

const notPlain = "must be a string or a plain number of at most 32 characters"

func (p *parser) reject(f int, why string) {
	if p.wrong == nil {
		names, _ := p.names()
		p.wrong = invalidField(names[f], why)
	}
}

func invalidField(name, why string) *FieldError {
	return &FieldError{Code: CodeInvalidField, Field: name, Detail: fmt.Sprintf("field %q %s", name, why)}
}

func invalidJSON(detail string) *FieldError {
	return &FieldError{Code: CodeInvalidJSON, Detail: detail}
}
