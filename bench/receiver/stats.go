package receiver

import (
	"context"
	"fmt"
	"time"
)

// Stats are counts since Start: of one path, or of all.
type Stats struct {
	Requests     int64 // on record
	OK           int64 // answered 2xx, repeats included
	BadSignature int64 // invalid, stale or not exactly one header line
	BadHeaders   int64 // attempt, timestamp, sequence or content type missing or malformed
	Strays       int64 // unknown path or method, of all paths
}

// Stats sums over the named paths, or over all when none is named.
func (r *Receiver) Stats(names ...string) Stats {
	s := Stats{Strays: r.strays.Load()}
	add := func(p *path) {
		s.Requests += p.requests.Load()
		s.OK += p.ok.Load()
		s.BadSignature += p.badSignature.Load()
		s.BadHeaders += p.badHeaders.Load()
	}
	if len(names) == 0 {
		for _, p := range *r.paths.Load() {
			add(p)
		}
	}
	for _, name := range names {
		if p := r.lookup([]byte(name)); p != nil {
			add(p)
		}
	}
	return s
}

// Wait returns once until holds for the stats of the named paths (none = all), or with
// the error of ctx.
func (r *Receiver) Wait(ctx context.Context, until func(Stats) bool, names ...string) error {
	t := time.NewTicker(5 * time.Millisecond)
	defer t.Stop()
	for {
		s := r.Stats(names...)
		if until(s) {
			return nil
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for requests (have %+v): %w", s, ctx.Err())
		}
	}
}
