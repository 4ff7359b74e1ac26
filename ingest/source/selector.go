package source

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/hookline/hookline/ingest/event"
)

// Selector names one value of a request: "header:NAME", "json:a.b.c", "form:NAME" or
// "const:VALUE". With a "?" behind it the value may be missing where several are joined.
type Selector struct {
	kind     selectorKind
	name     string // header or form name, path or value, as given
	path     event.Path
	Optional bool
}

type selectorKind uint8

const (
	selectHeader selectorKind = iota + 1
	selectJSON
	selectForm
	selectConst
	selectParam // of HMAC.Timestamp only
)

var selectorKinds = map[string]selectorKind{"header": selectHeader, "json": selectJSON, "form": selectForm, "const": selectConst, "param": selectParam}

var errSelector = errors.New("must be header:NAME, json:a.b.c, form:NAME or const:VALUE")

// ParseSelector reads one selector.
func ParseSelector(s string) (Selector, error) {
	kind, name, ok := strings.Cut(s, ":")
	sel := Selector{kind: selectorKinds[kind], name: name}
	if !ok || sel.kind == 0 || sel.kind == selectParam {
		return sel, errSelector
	}
	if sel.kind != selectConst {
		sel.name, sel.Optional = strings.CutSuffix(name, "?")
	}
	switch sel.kind {
	case selectHeader:
		if !validToken(sel.name) {
			return sel, fmt.Errorf("%q is not the name of a header", sel.name)
		}
	case selectJSON:
		var err error
		if sel.path, err = event.ParsePath(sel.name); err != nil {
			return sel, err
		}
	case selectForm:
		if sel.name == "" {
			return sel, errors.New("form: must be followed by a name")
		}
	case selectConst:
		if sel.name == "" {
			return sel, errors.New("const: must be followed by a value")
		}
	}
	return sel, nil
}

// String is the selector as it was given, without the "?".
func (s Selector) String() string {
	for kind, k := range selectorKinds {
		if k == s.kind {
			return kind + ":" + s.name
		}
	}
	return ""
}

// field is how a problem names the selector: the header, or the path in the body.
func (s Selector) field() string { return s.name }

// timely guesses from its name whether the value is a time.
func (s Selector) timely() bool {
	name := s.name
	if s.kind == selectJSON {
		name = s.path[len(s.path)-1]
	}
	for _, word := range words(name) {
		switch word {
		case "t", "ts", "at", "on", "when", "created", "updated", "occurred", "modified", "sent", "changed", "deleted", "finished", "completed":
			return true
		case "update":
			continue
		}
		if strings.HasSuffix(word, "time") || strings.HasSuffix(word, "date") || strings.HasSuffix(word, "stamp") {
			return true
		}
	}
	return false
}

// words splits created_at, Created-At and createdAt.
func words(name string) []string {
	var spaced strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			spaced.WriteByte(' ')
		}
		spaced.WriteRune(unicode.ToLower(r))
	}
	return strings.FieldsFunc(spaced.String(), func(r rune) bool { return r == '_' || r == '-' || r == ' ' })
}

// validToken says whether s may be a header's name (RFC 9110).
func validToken(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c <= ' ' || c > '~' || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != "" && len(s) <= 128
}
