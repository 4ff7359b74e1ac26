package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// reloadRig is a running reloader with one setting whose value is text.
type reloadRig struct {
	t       *testing.T
	dir     string
	reloads *reloader
	reg     *prometheus.Registry
	seen    chan string // every value that was applied
	refuse  atomic.Bool // apply fails
}

func startReload(t *testing.T, commands time.Duration, texts ...string) *reloadRig {
	t.Helper()
	r := &reloadRig{t: t, dir: t.TempDir(), reg: prometheus.NewRegistry(), seen: make(chan string, 64)}
	r.reloads = newReloader(commands, slog.New(slog.DiscardHandler), r.reg)
	r.write("a", "one")
	for i := range texts {
		texts[i] = strings.ReplaceAll(texts[i], "DIR", r.dir)
	}
	l := liveSecrets("test", texts)
	if _, err := l.load(); err != nil {
		t.Fatal(err)
	}
	follow(r.reloads, l, func(values [][]byte) error {
		if r.refuse.Load() {
			return errors.New("does not fit")
		}
		var words []string
		for _, v := range values {
			words = append(words, string(v))
		}
		r.seen <- strings.Join(words, " ")
		return nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.reloads.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return r
}

func (r *reloadRig) path(name string) string { return filepath.Join(r.dir, name) }

// write replaces a file at once, as a mount of secrets does.
func (r *reloadRig) write(name, text string) {
	r.t.Helper()
	temp := r.path(name + ".new")
	if err := os.WriteFile(temp, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(temp, r.path(name)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *reloadRig) want(value string) {
	r.t.Helper()
	select {
	case got := <-r.seen:
		if got != value {
			r.t.Fatalf("applied %q, want %q", got, value)
		}
	case <-time.After(20 * time.Second):
		r.t.Fatalf("%q was not applied", value)
	}
}

func (r *reloadRig) metric(name, outcome string) float64 {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			match := f.GetName() == name
			for _, l := range m.GetLabel() {
				match = match && (l.GetName() != "outcome" || l.GetValue() == outcome)
			}
			if match {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	r.t.Fatalf("no metric %s", name)
	return 0
}

func (r *reloadRig) failing() bool { return r.metric("hookline_settings_reload_failing", "") == 1 }

func TestSecretFileIsFollowed(t *testing.T) {
	t.Parallel()
	r := startReload(t, 0, "file:DIR/a", "plain")
	began := time.Now()
	r.write("a", "two\n")
	r.want("two plain")
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("a new secret is in force after %s, want 2 s", took)
	}
	poll(t, func() bool { return r.metric("hookline_settings_reloads_total", reloadDone) == 1 })
}

func TestSecretPlaceThatFailsKeepsItsLastText(t *testing.T) {
	t.Parallel()
	r := startReload(t, 0, "file:DIR/a")
	for _, spoil := range []func() error{
		func() error { return os.Remove(r.path("a")) },
		func() error { return os.WriteFile(r.path("a"), nil, 0o600) },
		func() error { return os.WriteFile(r.path("a"), make([]byte, maxSecretBytes+1), 0o600) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		poll(t, r.failing)
		r.write("a", "one")
		poll(t, func() bool { return !r.failing() })
	}
	if n := len(r.seen); n != 0 {
		t.Errorf("%d values applied: %q", n, <-r.seen)
	}
	r.write("a", "two")
	r.want("two")
}

func TestValueThatDoesNotFitKeepsTheOldOne(t *testing.T) {
	t.Parallel()
	r := startReload(t, 0, "file:DIR/a")
	r.refuse.Store(true)
	r.write("a", "bad")
	poll(t, r.failing)
	if n := r.metric("hookline_settings_reloads_total", reloadFailed); n != 1 {
		t.Errorf("%v failures counted", n)
	}
	r.refuse.Store(false)
	r.reloads.now() // what did not fit is tried again when somebody asks
	r.want("bad")
	poll(t, func() bool { return !r.failing() })
}

func TestSecretCommandIsRunAgain(t *testing.T) {
	t.Parallel()
	r := startReload(t, time.Second, "exec:cat DIR/a", "file:DIR/a")
	r.write("a", "two")
	for last := ""; last != "two two"; { // the file may be seen first
		select {
		case last = <-r.seen:
		case <-time.After(20 * time.Second):
			t.Fatalf("the command was not run again, last %q", last)
		}
	}
	if err := os.Remove(r.path("a")); err != nil { // the command fails
		t.Fatal(err)
	}
	poll(t, r.failing)
	if n := len(r.seen); n != 0 {
		t.Errorf("a failing command changed the value to %q", <-r.seen)
	}
}

func TestCommandsRunAtOnceWhenTold(t *testing.T) {
	t.Parallel()
	r := startReload(t, 0, "exec:cat DIR/a")
	r.write("a", "two")
	r.reloads.now()
	r.want("two")
}

// A vault that hangs does not keep a file from being followed, and does not hold the stop.
func TestHangingCommandHoldsNothingUp(t *testing.T) {
	t.Parallel()
	r := startReload(t, 0, "file:DIR/a", "exec:test -e DIR/hang && exec sleep 5; echo word")
	r.write("hang", "")
	r.reloads.now()
	began := time.Now()
	r.write("a", "two")
	r.want("two word")
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the file counted after %s", took)
	}
}

// A file that is written in place is empty and then cut before it is whole. None of that
// counts unless it stays.
func TestTextCountsWhenItIsSeenTwice(t *testing.T) {
	t.Parallel()
	fault := errors.New("empty")
	s := &secretState{text: "old", next: "old"}
	now := time.Now()
	for i, c := range []struct {
		text    string
		err     error
		changed bool
		failing bool
	}{
		{"", fault, false, false}, {"ne", nil, false, false}, {"new", nil, false, false}, {"", fault, false, false}, {"new", nil, false, false},
		{"new", nil, true, false}, {"", fault, false, false}, {"", fault, false, true}, {"x", nil, false, false}, {"new", nil, false, false}, {"x", nil, false, false}, {"x", nil, true, false},
	} {
		if changed := s.saw(c.text, c.err, now, false); changed != c.changed || (s.err != nil) != c.failing {
			t.Errorf("look %d at %q: changed %v, fault %v", i, c.text, changed, s.err)
		}
	}
	if s.text != "x" {
		t.Errorf("text is %q", s.text)
	}
	if !s.saw("y", nil, now, true) || s.text != "y" {
		t.Error("a text that is asked for does not count at once")
	}
}

// A reference that the new text of a key file no longer holds is not looked at any more.
func TestForgottenReferencesAreNotFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("k", "secret")
	write("keys", "acme:file:"+dir+"/k")
	l := newLive("keys", func(get resolver) ([]apiKey, error) { return asAPIKeys("@"+dir+"/keys", get) })
	var got []apiKey
	l.apply = func(keys []apiKey) error { got = keys; return nil }
	if keys, err := l.load(); err != nil || len(keys) != 1 || keys[0].Key != "secret" {
		t.Fatalf("%v, %v", keys, err)
	}
	if n := len(l.secrets.list("file:", time.Now().Add(time.Hour))); n != 2 {
		t.Errorf("%d places are followed, want 2", n)
	}
	write("keys", "acme:other")
	if !l.secrets.look(l.secrets.list("file:", time.Now().Add(time.Hour)), true) {
		t.Fatal("no change was seen")
	}
	if err := l.again(); err != nil || len(got) != 1 || got[0].Key != "other" {
		t.Fatalf("%v, %v", got, err)
	}
	if n := len(l.secrets.list("file:", time.Now().Add(time.Hour))); n != 1 {
		t.Errorf("%d places are followed, want 1", n)
	}
}

func TestSecretCommandIsBounded(t *testing.T) {
	t.Parallel()
	began := time.Now()
	_, err := resolveSecret("exec:yes secretvalue")
	if err == nil || !strings.Contains(err.Error(), "1 MiB") || strings.Contains(err.Error(), "secretvalue") {
		t.Errorf("endless output: %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("endless output was read for %s", took)
	}
}
