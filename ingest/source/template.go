package source

import (
	"errors"
	"fmt"
	"strings"
)

// template is what a provider signs, cut into its parts: "{timestamp}.{body}". Beside the
// two there are {method} and {header:NAME}; "{{" is a brace.
type template []templatePart

type templatePart struct {
	kind templateKind
	text string // of a literal, or a header's name
}

type templateKind uint8

const (
	partLiteral templateKind = iota
	partBody
	partTimestamp
	partMethod
	partHeader
)

const maxTemplateParts = 16

// parseTemplate reads a template. It must sign the body: a signature that does not depend on
// it says nothing about it.
func parseTemplate(s string) (template, error) {
	var out template
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			out = append(out, templatePart{partLiteral, literal.String()})
			literal.Reset()
		}
	}
	for i := 0; i < len(s); i++ {
		if s[i] != '{' {
			literal.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == '{' {
			literal.WriteByte('{')
			i++
			continue
		}
		end := strings.IndexByte(s[i:], '}')
		if end < 0 {
			return nil, errors.New("has a { without a }")
		}
		part, err := parsePlace(s[i+1 : i+end])
		if err != nil {
			return nil, err
		}
		flush()
		out = append(out, part)
		i += end
	}
	flush()
	if !out.has(partBody) {
		return nil, errors.New("must hold {body}: else the signature says nothing about it")
	}
	if len(out) > maxTemplateParts {
		return nil, fmt.Errorf("has more than %d parts", maxTemplateParts)
	}
	return out, nil
}

func parsePlace(name string) (templatePart, error) {
	switch name {
	case "body":
		return templatePart{kind: partBody}, nil
	case "timestamp":
		return templatePart{kind: partTimestamp}, nil
	case "method":
		return templatePart{kind: partMethod}, nil
	}
	if header, ok := strings.CutPrefix(name, "header:"); ok && validToken(header) {
		return templatePart{partHeader, header}, nil
	}
	return templatePart{}, fmt.Errorf("has {%s}, which is none of {timestamp}, {body}, {method}, {header:NAME}", name)
}

func (t template) has(kind templateKind) bool {
	for _, p := range t {
		if p.kind == kind {
			return true
		}
	}
	return false
}

// parts fills the template in. It fails when a header that is signed is not there exactly once.
func (t template) parts(r *Request, timestamp string) ([]string, error) {
	out := make([]string, 0, len(t))
	for _, p := range t {
		switch p.kind {
		case partLiteral:
			out = append(out, p.text)
		case partBody:
			out = append(out, r.body())
		case partTimestamp:
			out = append(out, timestamp)
		case partMethod:
			out = append(out, r.Method)
		case partHeader:
			v, err := r.one(p.text)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
	}
	return out, nil
}
