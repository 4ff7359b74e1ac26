package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// part is something that runs until its context is done and then ends in good order.
type part struct {
	name  string
	run   func(ctx context.Context) error
	ready func() error // nil = has no say in readiness
}

// drainTime is how long all parts together may take to end. Orchestrators kill after 30 s.
const drainTime = 25 * time.Second

// runParts runs the parts, listed downstream first, until ctx is done or one fails; then it
// ends them upstream first, each before the next, so that nobody is handed new work by a
// part of the same process that is still running. onStop is called when the end begins.
func runParts(ctx context.Context, parts []part, drain time.Duration, onStop func(), log *slog.Logger) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	type running struct {
		cancel context.CancelFunc
		done   chan struct{} // closed by the part's goroutine after err is set
		err    error
	}
	list := make([]*running, len(parts))
	for i, p := range parts {
		partCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		r := &running{cancel: cancel, done: make(chan struct{})}
		list[i] = r
		go func() {
			defer close(r.done)
			r.err = p.run(partCtx)
			switch {
			case r.err != nil:
				r.err = fmt.Errorf("%s: %w", p.name, r.err)
				fail(r.err)
			case partCtx.Err() == nil:
				fail(fmt.Errorf("%s ended by itself", p.name))
			}
		}()
	}
	<-ctx.Done()
	onStop()
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) {
		cause = nil // asked to, by a signal
	}
	deadline := time.After(drain)
	for i, r := range slices.Backward(list) {
		start := time.Now()
		r.cancel()
		select {
		case <-r.done:
			log.Info("part has stopped", "part", parts[i].name, "took", time.Since(start).Round(time.Millisecond))
		case <-deadline:
			// Nothing is lost: what was not finished is not committed.
			return errors.Join(cause, fmt.Errorf("%s did not stop within %s; exiting without it", parts[i].name, drain))
		}
		if r.err != nil && !errors.Is(cause, r.err) {
			cause = errors.Join(cause, r.err)
		}
	}
	return cause
}
