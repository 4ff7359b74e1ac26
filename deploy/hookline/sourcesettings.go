package main

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/hookline/hookline/ingest"
	"github.com/hookline/hookline/ingest/source"
)

// sourceConfig is one third-party source with its secrets, which follow their places.
type sourceConfig struct {
	spec    source.Spec
	secrets sourceSecrets
	token   sourceSecrets // of GET challenges; without a live setting = none
}

// sourceSecrets are secrets as they are now.
type sourceSecrets struct {
	live *live[[]string]
	now  *atomic.Pointer[[]string]
}

func (s sourceSecrets) current() []string { return *s.now.Load() }

func (s sourceSecrets) set(list []string) error {
	s.now.Store(&list)
	return nil
}

// setSources reads the section of sources and their secrets.
func setSources(c *Config, v any) error {
	specs, err := source.Parse(v)
	errs := []error{err}
	c.Sources = nil
	for _, spec := range specs {
		s := &sourceConfig{spec: spec}
		if spec.Scheme != "" {
			var err error
			s.secrets, err = loadSecrets(spec.Name+".secrets", spec.Secrets, spec.CheckSecret)
			errs = append(errs, err)
		}
		if spec.VerifyToken != "" {
			var err error
			s.token, err = loadSecrets(spec.Name+".verify_token", []string{spec.VerifyToken}, notEmpty)
			errs = append(errs, err)
		}
		for _, w := range spec.Warnings() {
			c.Warnings = append(c.Warnings, problem{Key: "sources." + w.Path, Text: w.Text})
		}
		c.Sources = append(c.Sources, s)
	}
	return errors.Join(errs...)
}

func notEmpty(text string) error {
	if text == "" {
		return errors.New("is empty")
	}
	return nil
}

// loadSecrets reads secrets for the first time. A file or a command may give several, one a
// line, so that both are valid while a provider changes from one to the next.
func loadSecrets(path string, texts []string, check func(string) error) (sourceSecrets, error) {
	out := sourceSecrets{now: &atomic.Pointer[[]string]{}}
	out.live = newLive("sources."+path, func(get resolver) ([]string, error) {
		var all []string
		for i, text := range texts {
			secret, err := get(text)
			if err != nil {
				return nil, &source.SettingError{Path: fmt.Sprintf("%s[%d]", path, i), Text: err.Error()}
			}
			lines := []string{secret}
			if secretRef(text) {
				lines = splitLines(secret)
			}
			for _, line := range lines {
				if err := check(line); err != nil {
					return nil, &source.SettingError{Path: fmt.Sprintf("%s[%d]", path, i), Text: err.Error()}
				}
			}
			all = append(all, lines...)
		}
		return all, nil
	})
	list, err := out.live.load()
	if err != nil {
		return out, err
	}
	return out, out.set(list)
}

func splitLines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// ingestSources are the sources as the room takes them.
func (c *Config) ingestSources() []ingest.SourceConfig {
	var out []ingest.SourceConfig
	for _, s := range c.Sources {
		sc := ingest.SourceConfig{Spec: s.spec, Secrets: s.secrets.current}
		if s.token.live != nil {
			sc.VerifyToken = s.token.current
		}
		out = append(out, sc)
	}
	return out
}

// followSources puts the secrets of sources in force when their places change.
func (c *Config) followSources(r *reloader) {
	for _, s := range c.Sources {
		for _, secrets := range []sourceSecrets{s.secrets, s.token} {
			if secrets.live != nil {
				follow(r, secrets.live, secrets.set)
			}
		}
	}
}

// problemsOf makes the problems of a setting's error: one for each error that is joined, with
// the path of its own if it has one.
func problemsOf(key, origin string, err error) []problem {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []problem
		for _, err := range joined.Unwrap() {
			out = append(out, problemsOf(key, origin, err)...)
		}
		return out
	}
	var inner *source.SettingError
	if errors.As(err, &inner) {
		return []problem{{Key: key + "." + inner.Path, Text: inner.Text, Origin: origin}}
	}
	var out []problem
	for line := range strings.SplitSeq(err.Error(), "\n") {
		out = append(out, problem{Key: key, Text: line, Origin: origin})
	}
	return out
}
