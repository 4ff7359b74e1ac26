package source

import (
	"crypto/sha256"
	"fmt"
	"mime"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hookline/hookline/ingest/event"
)

// maxProviderID bounds the provider's id of an event, as an Idempotency-Key is bounded.
const maxProviderID = 255

// lookup is one request while its values are looked up.
type lookup struct {
	r      *Request
	source *Source
	values []event.Value // of Source.finder
	form   url.Values    // nil until it is needed
}

// Map fills in e's id, type, message id, tenant, source and origin from a verified request,
// after its body has what the settings require. Strings of e may alias r.Body, and nothing
// else of r. The error is nil or a *event.FieldError.
func (s *Source) Map(r *Request, e *event.Event) error {
	l := lookup{r: r, source: s}
	if s.parses {
		var err error
		if l.values, err = s.finder.Find(r.Body); err != nil {
			return s.explain(r, err)
		}
		if err := s.require(l.values); err != nil {
			return err
		}
	}
	var err error
	if e.Type, err = l.eventType(); err != nil {
		return err
	}
	if e.MessageID, err = l.first("message_id", s.spec.MessageID); err != nil {
		return err
	}
	if !event.ValidMessageID(e.MessageID) {
		return invalid("message_id", "the message id of the event must be 1 to 128 characters of visible ASCII")
	}
	key, err := l.eventKey()
	if err != nil {
		return err
	}
	e.Tenant, e.Source, e.Origin = s.spec.Tenant, s.ceSource, s.spec.Name
	e.ID = event.DeriveID(e.Tenant, e.Type, e.MessageID, key)
	return nil
}

// Key is what the verified request that became e is remembered by.
func (p Proof) Key(e *event.Event) Key {
	return Key(digest([]string{string(p.signed[:]), e.ID}))
}

// explain adds what to do when a provider sends forms where the mapping wants JSON.
func (s *Source) explain(r *Request, err error) error {
	field, ok := err.(*event.FieldError) //nolint:errorlint // Find returns no other
	if ok && field.Code == event.CodeInvalidJSON && isForm(r) {
		return &event.FieldError{Code: field.Code, Detail: "the body is a form, and the source looks for JSON; let the provider send application/json"}
	}
	return err
}

func isForm(r *Request) bool {
	v, _ := r.Header("Content-Type")
	media, _, err := mime.ParseMediaType(v)
	return err == nil && media == "application/x-www-form-urlencoded"
}

func invalid(field, detail string) error {
	return &event.FieldError{Code: event.CodeInvalidField, Field: field, Detail: detail}
}

func missing(field, detail string) error {
	return &event.FieldError{Code: event.CodeMissingField, Field: field, Detail: detail}
}

// scalar is the text of a string or of a whole number.
func scalar(v event.Value) (string, bool) {
	if s, ok := v.Text(); ok {
		return s, true
	}
	return v.Integer()
}

// get returns the value of one selector, and false if the request does not have it. An empty
// value is none. A value that is no text and no whole number is none either where skip says
// so, else an error.
func (l *lookup) get(sel Selector, skip bool) (string, bool, error) {
	switch sel.kind {
	case selectConst:
		return sel.name, true, nil
	case selectHeader:
		v, count := l.r.Header(sel.name)
		if count > 1 {
			return "", false, invalid(sel.name, "the header "+sel.name+" must be given once")
		}
		return strings.Clone(v), v != "", nil
	case selectForm:
		return l.formValue(sel.name)
	}
	v := l.values[l.source.jsonAt[sel.name]]
	text, ok := scalar(v)
	if !ok && !skip && v.Kind() != "" && v.Kind() != "null" {
		return "", false, invalid(sel.name, fmt.Sprintf("field \"%s\" must be a string or a whole number", sel.name))
	}
	return text, ok && text != "", nil
}

func (l *lookup) formValue(name string) (string, bool, error) {
	if l.form == nil {
		if !isForm(l.r) {
			return "", false, nil
		}
		var err error
		if l.form, err = url.ParseQuery(string(l.r.Body)); err != nil {
			return "", false, invalid(name, "the body is not a well-formed form")
		}
	}
	switch v := l.form[name]; len(v) {
	case 0:
		return "", false, nil
	case 1:
		return v[0], v[0] != "", nil
	}
	return "", false, invalid(name, fmt.Sprintf("form field \"%s\" occurs twice", name))
}

// first returns the first value of a list that the request has.
func (l *lookup) first(what string, list []Selector) (string, error) {
	for i, sel := range list {
		v, ok, err := l.get(sel, i < len(list)-1)
		if ok || err != nil {
			return v, err
		}
	}
	return "", missing(list[len(list)-1].field(), "the request has no "+names(list)+", which the source takes as "+what)
}

func names(list []Selector) string {
	out := make([]string, len(list))
	for i, sel := range list {
		out[i] = sel.String()
	}
	return strings.Join(out, " or ")
}

// eventType joins the parts of the type and brings them into the form of ours.
func (l *lookup) eventType() (string, error) {
	var out []string
	for _, sel := range l.source.spec.EventType {
		v, ok, err := l.get(sel, false)
		switch {
		case err != nil:
			return "", err
		case ok:
			out = append(out, v)
		case !sel.Optional:
			return "", missing(sel.field(), "the request has no "+sel.String()+", which the source takes as event_type")
		}
	}
	joined := eventType(strings.Join(out, "."))
	if !event.ValidType(joined) {
		return "", invalid("event_type", "the event type must be 1 to 128 characters, and no part of it between full stops, slashes and colons may be empty")
	}
	return joined, nil
}

// eventType maps a provider's type to dot-separated words of [A-Za-z0-9_-]: slash and colon
// separate as a full stop does, at the ends they are dropped ("/command"), and any other
// character becomes one "_".
func eventType(s string) string {
	if event.ValidType(s) {
		return s
	}
	out := make([]byte, 0, len(s))
	for _, r := range strings.Trim(s, "/:.") {
		switch {
		case r == '/' || r == ':' || r == '.':
			out = append(out, '.')
		case r < utf8.RuneSelf && event.ValidType(string(r)):
			out = append(out, byte(r))
		default:
			out = append(out, '_')
		}
	}
	return string(out)
}

// eventKey is what the event's id is derived from, beside tenant, type and message id. It
// begins with the source and a NUL, which no Idempotency-Key of a publisher can hold.
func (l *lookup) eventKey() (string, error) {
	spec := &l.source.spec
	if len(spec.DeriveID) == 0 {
		id, err := l.first("event_id", spec.EventID)
		if err == nil && len(id) > maxProviderID {
			err = invalid("event_id", "the id of the event is over "+strconv.Itoa(maxProviderID)+" bytes")
		}
		return spec.Name + "\x00id\x00" + id, err
	}
	parts := make([]string, 0, len(spec.DeriveID))
	for _, sel := range spec.DeriveID {
		v, ok, err := l.derived(sel)
		if err != nil {
			return "", err
		}
		if !ok && !sel.Optional {
			return "", missing(sel.field(), "the request has no "+sel.String()+", which the source derives the event's id from")
		}
		parts = append(parts, v)
	}
	sum := digest(parts)
	return spec.Name + "\x00derived\x00" + string(sum[:sha256.Size]), nil
}

// derived takes numbers and truth values as they are written: they only have to be the same
// each time.
func (l *lookup) derived(sel Selector) (string, bool, error) {
	if sel.kind != selectJSON {
		return l.get(sel, false)
	}
	v := l.values[l.source.jsonAt[sel.name]]
	if k := v.Kind(); k == "number" || k == "boolean" {
		return string(v.Raw), true, nil
	}
	return l.get(sel, false)
}

// require checks what the settings ask of the body. Each refusal names its path.
func (s *Source) require(values []event.Value) error {
	for _, want := range s.spec.Require {
		v := values[s.jsonAt[want.Path]]
		kind := v.Kind()
		switch {
		case kind == "":
			return missing(want.Path, fmt.Sprintf("field \"%s\" is missing", want.Path))
		case want.Type == "" && kind == "null":
			return invalid(want.Path, fmt.Sprintf("field \"%s\" must not be null", want.Path))
		case want.Type == "integer":
			if _, ok := v.Integer(); !ok {
				return invalid(want.Path, fmt.Sprintf("field \"%s\" must be a whole number", want.Path))
			}
		case want.Type != "" && kind != want.Type:
			return invalid(want.Path, fmt.Sprintf("field \"%s\" must be of type %s, not %s", want.Path, want.Type, kind))
		}
		if want.MaxLen == 0 {
			continue
		}
		if text, ok := v.Text(); ok && utf8.RuneCountInString(text) > want.MaxLen {
			return invalid(want.Path, fmt.Sprintf("field \"%s\" is longer than %d characters", want.Path, want.MaxLen))
		}
	}
	return nil
}
