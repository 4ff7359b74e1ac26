package event

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Path is a place in a JSON text: member names from the outside in. A segment of digits is
// also the index of an array element.
type Path []string

const (
	maxPathSegments = 16
	maxPathBytes    = 256
	// MaxPaths is the most that one Finder looks for.
	MaxPaths = 64
)

// ParsePath reads "data.object.id" or "items.0.sku". A full stop or a backslash that is part
// of a name has a backslash before it.
func ParsePath(s string) (Path, error) {
	if len(s) > maxPathBytes {
		return nil, fmt.Errorf("path is longer than %d bytes", maxPathBytes)
	}
	if !utf8.ValidString(s) {
		return nil, errors.New("path is not valid UTF-8")
	}
	var out Path
	var segment strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s) && (s[i+1] == '.' || s[i+1] == '\\'):
			i++
			segment.WriteByte(s[i])
		case c == '\\':
			return nil, errors.New(`path has a backslash that is not before "." or "\"`)
		case c == '.':
			out = append(out, segment.String())
			segment.Reset()
		default:
			segment.WriteByte(c)
		}
	}
	out = append(out, segment.String())
	for _, name := range out {
		if name == "" {
			return nil, errors.New("path has an empty part")
		}
	}
	if len(out) > maxPathSegments {
		return nil, fmt.Errorf("path has more than %d parts", maxPathSegments)
	}
	return out, nil
}

var pathEscapes = strings.NewReplacer(`\`, `\\`, ".", `\.`)

// String is the path in the form that ParsePath reads.
func (p Path) String() string {
	out := make([]string, len(p))
	for i, name := range p {
		out[i] = pathEscapes.Replace(name)
	}
	return strings.Join(out, ".")
}

// Value is what stands at a path. Raw aliases the body; the zero Value is nothing.
type Value struct {
	kind kind
	Raw  []byte
}

// Kind names what the value is: string, number, boolean, null, object, array, or "" for
// nothing.
func (v Value) Kind() string {
	return [...]string{"", "string", "number", "boolean", "null", "object", "array"}[v.kind]
}

// Text returns the string that v stands for, and false if v is not a string. It aliases the
// body unless the string was escaped in it.
func (v Value) Text() (string, bool) {
	if v.kind != kindString {
		return "", false
	}
	inner := v.Raw[1 : len(v.Raw)-1]
	for _, c := range inner {
		if c == '\\' {
			return unescape(inner), true
		}
	}
	return text(inner), true
}

// Integer returns the digits of a number that is written without fraction and exponent.
func (v Value) Integer() (string, bool) {
	if v.kind != kindNumber {
		return "", false
	}
	for _, c := range v.Raw {
		if c == '.' || c|0x20 == 'e' {
			return "", false
		}
	}
	return text(v.Raw), true
}

// Finder looks for a fixed set of paths. It is never changed after NewFinder.
type Finder struct {
	root  *pathNode
	count int
}

// pathNode is one segment of some of the paths.
type pathNode struct {
	path     string
	wanted   []int // the paths that end here
	names    []string
	children []*pathNode
}

// NewFinder returns a finder of at most MaxPaths paths, which may repeat.
func NewFinder(paths ...Path) (*Finder, error) {
	if len(paths) > MaxPaths {
		return nil, fmt.Errorf("%d paths, at most %d can be looked for", len(paths), MaxPaths)
	}
	f := &Finder{root: &pathNode{}, count: len(paths)}
	for i, p := range paths {
		at := f.root
		for depth, name := range p {
			next := at.child(name)
			if next == nil {
				next = &pathNode{path: p[:depth+1].String()}
				at.names, at.children = append(at.names, name), append(at.children, next)
			}
			at = next
		}
		at.wanted = append(at.wanted, i)
	}
	return f, nil
}

func (n *pathNode) child(name string) *pathNode {
	for i, have := range n.names {
		if have == name {
			return n.children[i]
		}
	}
	return nil
}

// Find returns the values at the paths, in their order, after one pass that checks all of
// body: UTF-8, JSON grammar, nothing after it, depth. Names are matched exactly. A name that
// occurs twice on the way to a wanted value is refused: readers of the body would not agree
// on the value. The error is nil or a *FieldError; a syntax error goes before the others.
func (f *Finder) Find(body []byte) ([]Value, error) {
	w := walker{scanner: scanner{b: body}, values: make([]Value, f.count)}
	w.blanks()
	switch {
	case w.i == len(body):
		return nil, &FieldError{Code: CodeEmptyBody, Detail: "the body is empty"}
	case !utf8.Valid(body):
		return nil, invalidJSON("the body is not valid UTF-8")
	case !w.walk(f.root, 0):
		return nil, invalidJSON("the body is not valid JSON, " + w.err.Error())
	}
	w.blanks()
	if w.i != len(body) {
		return nil, invalidJSON(fmt.Sprintf("something follows the JSON value at byte %d", w.i))
	}
	if w.twice != nil {
		return nil, w.twice
	}
	return w.values, nil
}

type walker struct {
	scanner
	values []Value
	twice  *FieldError // the first repeated name; scanning goes on
}

// walk takes the value at n, nil if no path leads through it.
func (w *walker) walk(n *pathNode, depth int) bool {
	w.blanks()
	start := w.i
	var k kind
	var ok bool
	switch {
	case n != nil && len(n.children) > 0 && w.next() == '{':
		k, ok = kindObject, w.inside(n, depth, '}')
	case n != nil && len(n.children) > 0 && w.next() == '[':
		k, ok = kindArray, w.inside(n, depth, ']')
	default:
		k, ok = w.value(depth)
	}
	if !ok || n == nil {
		return ok
	}
	for _, i := range n.wanted {
		w.values[i] = Value{k, w.b[start:w.i]}
	}
	return true
}

// inside takes the object or array at n. scanner.container does it where no path leads.
func (w *walker) inside(n *pathNode, depth int, end byte) bool {
	if depth >= MaxDepth {
		return w.fail("nested deeper than %d levels", MaxDepth)
	}
	w.i++
	w.blanks()
	if w.next() == end {
		w.i++
		return true
	}
	var seen uint64 // children of n; there are at most MaxPaths
	for index := 0; ; index++ {
		var child *pathNode
		if end == ']' {
			child = n.element(index)
		} else {
			raw, escaped, ok := w.name()
			if !ok {
				return false
			}
			child = w.member(n, raw, escaped, &seen)
		}
		if !w.walk(child, depth+1) {
			return false
		}
		w.blanks()
		switch w.next() {
		case ',':
			w.i++
		case end:
			w.i++
			return true
		default:
			return w.fail("',' or %q expected", end)
		}
	}
}

// element returns the child for an index of an array.
func (n *pathNode) element(index int) *pathNode {
	for i, name := range n.names {
		if at, ok := decimal(name, 1<<31); ok && at == int64(index) {
			return n.children[i]
		}
	}
	return nil
}

func (w *walker) member(n *pathNode, raw []byte, escaped bool, seen *uint64) *pathNode {
	name := text(raw)
	if escaped {
		name = unescape(raw)
	}
	for i, have := range n.names {
		if have != name {
			continue
		}
		if *seen&(1<<i) != 0 && w.twice == nil {
			path := n.children[i].path
			w.twice = &FieldError{Code: CodeInvalidField, Field: path, Detail: fmt.Sprintf("field %q occurs twice", path)}
		}
		*seen |= 1 << i
		return n.children[i]
	}
	return nil
}
