package event

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// Array takes the events of a JSON array one after the other, in one pass and without a tree.
// An element is checked as ParseBody checks a body; what is wrong with one says nothing about
// the others. Only a syntax error ends it, since nobody can say where the next element begins.
type Array struct {
	p     parser
	cloud CloudEvent
	ended bool
	err   *FieldError
}

// NewArray begins to read body, an array of events in our own form, or of CloudEvents in
// structured form if cloud is set.
func NewArray(body []byte, cloud bool) *Array {
	a := &Array{p: parser{scanner: scanner{b: body}}}
	if cloud {
		a.p.cloud = &a.cloud
	}
	a.begin()
	return a
}

// begin takes the opening bracket.
func (a *Array) begin() {
	p := &a.p
	p.blanks()
	switch {
	case p.i == len(p.b):
		a.fail(&FieldError{Code: CodeEmptyBody, Detail: "the body is empty"})
	case bytes.HasPrefix(p.b, byteOrderMark):
		a.fail(invalidJSON("the body begins with a byte order mark"))
	case p.next() != '[':
		a.fail(invalidJSON("the body is not a JSON array"))
	default:
		p.i++
		p.blanks()
		if p.next() == ']' {
			a.end()
		}
	}
}

// Element is one event of an array.
type Element struct {
	Raw    []byte // its bytes, without the blanks around it
	Fields Fields
	Cloud  CloudEvent // instead of Fields, when the array is one of CloudEvents
	Err    error      // why it is no event, nil or a *FieldError
}

// Next reads the next element into e and says whether there is one. Everything in e aliases the
// body as Fields does.
func (a *Array) Next(e *Element) bool {
	if a.ended {
		return false
	}
	p := &a.p
	p.blanks()
	start := p.i
	isObject := p.next() == '{'
	var ok bool
	if isObject {
		ok = p.object()
	} else {
		_, ok = p.value(0)
	}
	if ok {
		e.Raw = p.b[start:p.i:p.i]
		ok = a.separator()
	}
	if !ok {
		if a.err == nil {
			a.fail(invalidJSON("the body is not a valid JSON array, " + p.err.Error()))
		}
		return false
	}
	e.Err = nil
	if p.cloud != nil {
		e.Cloud = a.cloud
	} else {
		e.Fields = p.fields
	}
	var ferr *FieldError
	switch {
	case !utf8.Valid(e.Raw):
		ferr = invalidJSON("the event is not valid UTF-8")
	case !isObject:
		ferr = invalidJSON("the event is not a JSON object")
	default:
		ferr = p.verdict()
	}
	if ferr != nil {
		e.Err = ferr
	}
	return true
}

// separator takes what follows an element.
func (a *Array) separator() bool {
	p := &a.p
	p.blanks()
	switch p.next() {
	case ',':
		p.i++
		return true
	case ']':
		a.end()
		return a.err == nil
	}
	return p.fail("',' or ']' expected")
}

// end takes the closing bracket, which nothing may follow.
func (a *Array) end() {
	a.p.i++
	a.p.blanks()
	if a.p.i != len(a.p.b) {
		a.fail(invalidJSON(fmt.Sprintf("something follows the JSON array at byte %d", a.p.i)))
	}
	a.ended = true
}

func (a *Array) fail(err *FieldError) {
	if a.err == nil {
		a.err = err
	}
	a.ended = true
}

// Err is why the body is no array, nil or a *FieldError. It is known when Next has said that
// there is no more element; then none of those before counts.
func (a *Array) Err() error {
	if a.err == nil {
		return nil
	}
	return a.err
}
