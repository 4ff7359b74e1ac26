package endpoint

import (
	"errors"
	"fmt"
	"strings"
)

// feedback is the first segment of hookline's own events. They reach an endpoint only when
// a pattern names it.
const feedback = "hookline"

const (
	maxPatternLen = 128
	anySegment    = "*"
	anyTail       = "**"
)

// pattern is one compiled filter: fixed segments ("*" = any one), then maybe a tail of one
// or more further segments.
type pattern struct {
	exact    string   // set when there is no wildcard
	segments []string // otherwise
	tail     bool     // the pattern ended in "**"
}

func compilePattern(text string) (pattern, error) {
	if text == "" || len(text) > maxPatternLen {
		return pattern{}, fmt.Errorf("want 1 to %d characters", maxPatternLen)
	}
	segments := strings.Split(text, ".")
	p := pattern{}
	wild := false
	for i, s := range segments {
		switch s {
		case "":
			return pattern{}, errors.New("has an empty segment")
		case anySegment:
			wild = true
		case anyTail:
			if i != len(segments)-1 {
				return pattern{}, errors.New("** may only be the last segment")
			}
			p.tail, wild = true, true
		default:
			for j := range len(s) {
				if !isWord(s[j]) {
					return pattern{}, errors.New("segments are A-Z a-z 0-9 _ -, or *, or a last **")
				}
			}
		}
	}
	if !wild {
		p.exact = text
		return p, nil
	}
	if p.tail {
		segments = segments[:len(segments)-1]
	}
	p.segments = segments
	return p, nil
}

// matches does not allocate.
func (p *pattern) matches(eventType string) bool {
	if p.exact != "" {
		return p.exact == eventType
	}
	if isFeedback(eventType) && (len(p.segments) == 0 || p.segments[0] != feedback) {
		return false
	}
	rest := eventType
	for i, want := range p.segments {
		segment, tail, more := strings.Cut(rest, ".")
		if segment == "" || want != anySegment && want != segment {
			return false
		}
		if !more {
			return i == len(p.segments)-1 && !p.tail
		}
		rest = tail
	}
	return p.tail && rest != ""
}

func isFeedback(eventType string) bool {
	return len(eventType) > len(feedback) && eventType[len(feedback)] == '.' && eventType[:len(feedback)] == feedback
}

// MatchPattern reports whether one pattern names an event type. It compiles the pattern on
// each call: for tools and tests.
func MatchPattern(text, eventType string) (bool, error) {
	p, err := compilePattern(text)
	if err != nil {
		return false, fmt.Errorf("compile pattern %.*q: %w", maxPatternLen, text, err)
	}
	return p.matches(eventType), nil
}
