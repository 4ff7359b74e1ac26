package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// resolver returns the secret behind a text of the settings: the text itself, or what it
// refers to.
type resolver func(string) (string, error)

// secretCache remembers what the references of one setting gave, so that a command is not
// run at each look and a place that cannot be read keeps its last text. Safe for concurrent
// use.
type secretCache struct {
	mu   sync.Mutex // guards the fields below, never held while something is read
	refs map[string]*secretState
}

type secretState struct {
	text string
	// next was seen once. It counts when it is seen again: a file that is written in place
	// is found empty or cut by whoever looks at the wrong moment.
	next  string
	fails int // looks in a row that failed
	err   error
	ran   time.Time // when it was last read
	used  bool      // by the last reading of the setting
	once  bool      // a pipe can be read only once
}

// get is a resolver that reads a place only the first time.
func (s *secretCache) get(text string) (string, error) {
	if !secretRef(text) {
		return text, nil
	}
	s.mu.Lock()
	if state, ok := s.refs[text]; ok {
		defer s.mu.Unlock()
		state.used = true
		return state.text, nil
	}
	s.mu.Unlock()
	now := time.Now()
	value, err := resolveSecret(text)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refs == nil {
		s.refs = map[string]*secretState{}
	}
	s.refs[text] = &secretState{text: value, next: value, ran: now, used: true, once: readOnce(text)}
	return value, nil
}

// readOnce says whether a reference is to a file that gives its text only once.
func readOnce(ref string) bool {
	path, ok := strings.CutPrefix(ref, "file:")
	if !ok {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && !info.Mode().IsRegular()
}

// begin marks all references unused; end forgets those that still are.
func (s *secretCache) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, state := range s.refs {
		state.used = false
	}
}

func (s *secretCache) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref, state := range s.refs {
		if !state.used {
			delete(s.refs, ref)
		}
	}
}

// list returns the references that begin with kind and were last read before the given time,
// those left out that can be read only once.
func (s *secretCache) list(kind string, before time.Time) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for ref, state := range s.refs {
		if !state.once && strings.HasPrefix(ref, kind) && state.ran.Before(before) {
			out = append(out, ref)
		}
	}
	return out
}

// look reads the given places again and says whether a text has changed. atOnce leaves
// out the second look at a new text.
func (s *secretCache) look(refs []string, atOnce bool) (changed bool) {
	for _, ref := range refs {
		now := time.Now()
		text, err := resolveSecret(ref)
		s.mu.Lock()
		if state, ok := s.refs[ref]; ok {
			changed = state.saw(text, err, now, atOnce) || changed
		}
		s.mu.Unlock()
	}
	return changed
}

func (s *secretState) saw(text string, err error, now time.Time, atOnce bool) (changed bool) {
	s.ran = now
	if err != nil { // like a new text, a fault counts when it is seen again
		if s.fails++; s.fails > 1 || atOnce {
			s.err = err
		}
		s.next = s.text
		return false
	}
	s.fails, s.err = 0, nil
	switch {
	case text == s.text:
		s.next = text
	case text == s.next || atOnce:
		s.text, s.next = text, text
		return true
	default:
		s.next = text
	}
	return false
}

// err tells of every place that could not be read the last time.
func (s *secretCache) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for ref, state := range s.refs {
		if state.err != nil {
			kind, _, _ := strings.Cut(ref, ":") // a command line may hold a secret itself
			errs = append(errs, fmt.Errorf("%s: %w", kind, state.err))
		}
	}
	return errors.Join(errs...)
}
