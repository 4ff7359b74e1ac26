package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// live is a setting that may keep its value elsewhere (file:, env:, exec:, @FILE) and follows
// it while the process runs. What cannot be read or does not fit changes nothing: the last
// good value stays in force.
type live[T any] struct {
	name    string
	read    func(get resolver) (T, error)
	apply   func(T) error
	secrets secretCache
}

// newLive returns a live setting. read makes its value; every text of the settings that may
// be a reference goes through get.
func newLive[T any](name string, read func(get resolver) (T, error)) *live[T] {
	return &live[T]{name: name, read: read}
}

// liveSecrets is a live list of secrets, each given as itself or as a reference.
func liveSecrets(name string, texts []string) *live[[][]byte] {
	return newLive(name, func(get resolver) ([][]byte, error) {
		out := make([][]byte, len(texts))
		for i, text := range texts {
			secret, err := get(text)
			if err != nil {
				return nil, fmt.Errorf("secret %d: %w", i+1, err)
			}
			out[i] = []byte(secret)
		}
		return out, nil
	})
}

// load reads the value for the first time.
func (l *live[T]) load() (T, error) { return l.read(l.secrets.get) }

// again reads the value anew and hands it on.
func (l *live[T]) again() error {
	l.secrets.begin()
	v, err := l.read(l.secrets.get)
	if err != nil {
		return err
	}
	l.secrets.end()
	return l.apply(v)
}

// reloadable is a live setting of any type.
type reloadable interface {
	again() error
	setting() (name string, secrets *secretCache)
}

func (l *live[T]) setting() (string, *secretCache) { return l.name, &l.secrets }

// follow makes the reloader call apply with each new value of l. A value is applied at most
// twice lookInterval after it was written. Must be called before run.
func follow[T any](r *reloader, l *live[T], apply func(T) error) {
	l.apply = apply
	f := &followed{reloadable: l}
	f.name, f.secrets = l.setting()
	for _, outcome := range []string{reloadDone, reloadFailed} {
		r.reloads.WithLabelValues(f.name, outcome)
	}
	r.failing.WithLabelValues(f.name).Set(0)
	r.list = append(r.list, f)
}

type followed struct {
	reloadable
	name    string
	secrets *secretCache

	mu    sync.Mutex // guards the fields below; files and commands report from two goroutines
	bad   error      // of the last reading of the whole, nil = in force
	state string     // what was logged last, "" = all is well
}

// reloader looks at the places of live settings: at files twice a second, at commands each
// interval, at everything when told to (SIGHUP).
type reloader struct {
	list     []*followed
	commands time.Duration // between two runs of a command; 0 = only when told to
	log      *slog.Logger
	reloads  *prometheus.CounterVec
	failing  *prometheus.GaugeVec
	told     chan struct{}
}

const (
	// lookInterval is half of what a revoked key may still live, less the time to read it:
	// a new text counts at the second look.
	lookInterval = 500 * time.Millisecond

	reloadDone   = "changed"
	reloadFailed = "failed"
)

func newReloader(commands time.Duration, log *slog.Logger, reg prometheus.Registerer) *reloader {
	r := &reloader{commands: commands, log: log, told: make(chan struct{}, 1),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "hookline_settings_reloads_total",
			Help: "Changes of a setting whose value is kept in a file or given by a command, by outcome: changed, failed (the old value stays)."},
			[]string{"setting", "outcome"}),
		failing: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "hookline_settings_reload_failing",
			Help: "1 while a setting cannot be read or what it holds does not fit; the old value is in force."}, []string{"setting"}),
	}
	reg.MustRegister(r.reloads, r.failing)
	return r
}

// now makes everything be read again at once. It does not wait for it.
func (r *reloader) now() {
	select {
	case r.told <- struct{}{}:
	default:
	}
}

// run looks until ctx is done, and reads everything again at SIGHUP.
func (r *reloader) run(ctx context.Context) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	var commands sync.WaitGroup
	defer commands.Wait()
	all := make(chan struct{}, 1)
	commands.Go(func() { r.runCommands(ctx, all) })
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		atOnce := false
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-hangup:
			atOnce = true
		case <-r.told:
			atOnce = true
		}
		if atOnce {
			select {
			case all <- struct{}{}:
			default:
			}
		}
		for _, f := range r.list {
			r.look(f, f.secrets.list("file:", time.Now()), atOnce)
		}
	}
}

// runCommands runs what is due, in a goroutine of its own: a vault that hangs must not keep a
// key from being revoked in a file.
func (r *reloader) runCommands(ctx context.Context, all <-chan struct{}) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		var before time.Time
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if r.commands > 0 {
				before = time.Now().Add(-r.commands)
			}
		case <-all:
			before = time.Now()
		}
		for _, f := range r.list {
			for _, ref := range f.secrets.list("exec:", before) {
				if ctx.Err() != nil {
					return
				}
				r.look(f, []string{ref}, true) // a command gives all or fails
			}
		}
	}
}

// look reads the places of one setting again and hands on what has changed.
func (r *reloader) look(f *followed, refs []string, atOnce bool) {
	if len(refs) == 0 {
		return
	}
	changed := f.secrets.look(refs, atOnce)
	f.mu.Lock()
	defer f.mu.Unlock()
	if changed || atOnce && f.bad != nil {
		f.bad = f.again()
		outcome := reloadDone
		if f.bad != nil {
			outcome = reloadFailed
		}
		r.reloads.WithLabelValues(f.name, outcome).Inc()
		if f.bad == nil {
			r.log.Info("setting has changed and is in force", "setting", f.name)
		}
	}
	r.tell(f)
}

// tell logs a fault once, and its end.
func (r *reloader) tell(f *followed) {
	err, state := f.bad, ""
	if err == nil {
		err = f.secrets.err()
	}
	if err != nil {
		state = err.Error()
	}
	if state == f.state {
		return
	}
	f.state = state
	if err != nil {
		r.failing.WithLabelValues(f.name).Set(1)
		r.log.Error("setting cannot be read again; the old value stays in force", "setting", f.name, "error", fmt.Errorf("reload: %w", err))
		return
	}
	r.failing.WithLabelValues(f.name).Set(0)
	r.log.Info("setting can be read again", "setting", f.name)
}
