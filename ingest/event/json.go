package event

import (
	"encoding/binary"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is how deep the objects and arrays of a body may nest; the body itself is 1.
const MaxDepth = 64

// kind is what sort of JSON value was scanned.
type kind uint8

const (
	kindNone kind = iota
	kindString
	kindNumber
	kindBool
	kindNull
	kindObject
	kindArray
)

var kindNames = [...]string{"nothing", "a string", "a number", "a boolean", "null", "an object", "an array"}

// scanner walks over JSON text (RFC 8259) once. It checks the grammar, keeps no values and
// allocates nothing but its error. b must be valid UTF-8.
type scanner struct {
	b   []byte
	i   int
	err error // the first syntax error; scanning stops there
}

// fail records the first error and makes every caller return.
func (s *scanner) fail(format string, args ...any) bool {
	if s.err == nil {
		s.err = fmt.Errorf("at byte %d: "+format, append([]any{s.i}, args...)...)
	}
	return false
}

func (s *scanner) blanks() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// next is the byte at the position, 0 at the end: no JSON token begins with it.
func (s *scanner) next() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// want takes one given byte, with the blanks before it.
func (s *scanner) want(c byte, where string) bool {
	s.blanks()
	if s.next() != c || s.i >= len(s.b) {
		return s.fail("%q expected %s", c, where)
	}
	s.i++
	return true
}

// value takes one value of any kind. depth is how many containers are open around it.
func (s *scanner) value(depth int) (kind, bool) {
	s.blanks()
	switch c := s.next(); {
	case c == '"':
		_, _, ok := s.text()
		return kindString, ok
	case c == '{':
		return kindObject, s.container(depth, '}')
	case c == '[':
		return kindArray, s.container(depth, ']')
	case c == '-' || c >= '0' && c <= '9':
		return kindNumber, s.number()
	case c == 't':
		return kindBool, s.word("true")
	case c == 'f':
		return kindBool, s.word("false")
	case c == 'n':
		return kindNull, s.word("null")
	}
	return kindNone, s.fail("value expected")
}

// container takes an object or an array whose opening byte is at the position.
func (s *scanner) container(depth int, end byte) bool {
	if depth >= MaxDepth {
		return s.fail("nested deeper than %d levels", MaxDepth)
	}
	s.i++
	s.blanks()
	if s.next() == end {
		s.i++
		return true
	}
	for {
		if end == '}' {
			if _, _, ok := s.name(); !ok {
				return false
			}
		}
		if _, ok := s.value(depth + 1); !ok {
			return false
		}
		s.blanks()
		switch s.next() {
		case ',':
			s.i++
		case end:
			s.i++
			return true
		default:
			return s.fail("',' or %q expected", end)
		}
	}
}

// name takes a member's name and its colon.
func (s *scanner) name() (raw []byte, escaped, ok bool) {
	s.blanks()
	if s.next() != '"' {
		return nil, false, s.fail("member name expected")
	}
	if raw, escaped, ok = s.text(); !ok {
		return nil, false, false
	}
	return raw, escaped, s.want(':', "after a member name")
}

// text takes a string and returns what lies between its quotes, still escaped.
func (s *scanner) text() (raw []byte, escaped, ok bool) {
	s.i++
	start := s.i
	for s.i < len(s.b) {
		if s.i+8 <= len(s.b) && plain8(binary.LittleEndian.Uint64(s.b[s.i:])) {
			s.i += 8
			continue
		}
		switch c := s.b[s.i]; {
		case c == '"':
			raw = s.b[start:s.i]
			s.i++
			return raw, escaped, true
		case c == '\\':
			escaped = true
			if !s.escape() {
				return nil, false, false
			}
		case c < ' ':
			return nil, false, s.fail("control character in a string")
		default:
			s.i++
		}
	}
	return nil, false, s.fail("string does not end")
}

// plain8 says that none of eight bytes is a quote, a backslash or a control character. It
// may say no for nothing, never yes: the borrow of a subtraction only spoils higher bytes.
func plain8(w uint64) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, slash := w^ones*'"', w^ones*'\\'
	return ((w-ones*' ')&^w|(quote-ones)&^quote|(slash-ones)&^slash)&tops == 0
}

func (s *scanner) escape() bool {
	s.i++
	switch s.next() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i++
		return true
	case 'u':
		if s.i+5 > len(s.b) {
			return s.fail("escape does not end")
		}
		if _, ok := hex4(s.b[s.i+1:]); !ok {
			return s.fail("four hexadecimal digits expected after \\u")
		}
		s.i += 5
		return true
	}
	return s.fail("escape is not one of JSON's")
}

func (s *scanner) number() bool {
	if s.next() == '-' {
		s.i++
	}
	if s.next() == '0' {
		s.i++
	} else if s.digits() == 0 {
		return s.fail("digit expected")
	}
	if s.next() == '.' {
		s.i++
		if s.digits() == 0 {
			return s.fail("digit expected after the decimal point")
		}
	}
	if s.next()|0x20 == 'e' {
		s.i++
		if c := s.next(); c == '+' || c == '-' {
			s.i++
		}
		if s.digits() == 0 {
			return s.fail("digit expected in the exponent")
		}
	}
	return true
}

func (s *scanner) digits() int {
	start := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i - start
}

func (s *scanner) word(w string) bool {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return s.fail("value expected")
	}
	s.i += len(w)
	return true
}

func hex4(b []byte) (rune, bool) {
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// unescape returns the string that raw, taken by text, stands for. Half of a surrogate pair
// becomes U+FFFD, as encoding/json does it.
func unescape(raw []byte) string {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			continue
		}
		i++
		switch c := raw[i]; c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, _ := hex4(raw[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if i+6 < len(raw) && raw[i+1] == '\\' && raw[i+2] == 'u' {
					low, _ = hex4(raw[i+3:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					i += 6
				}
			}
			out = utf8.AppendRune(out, r)
		default: // quote, backslash, slash
			out = append(out, c)
		}
	}
	return string(out)
}
