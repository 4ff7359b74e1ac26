package progress

import (
	"context"
	"sync"
	"time"
)

// lagTime bounds one measurement.
const lagTime = 5 * time.Second

// Lag returns the age of the oldest record of topics that a group has not finished, 0 when
// it has finished all.
func (r *Reader) Lag(ctx context.Context, group string, topics ...string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, lagTime)
	defer cancel()
	open, err := r.Open(ctx, group, topics...)
	if err != nil {
		return 0, err
	}
	heads, err := r.Heads(ctx, open)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	var lag time.Duration
	for _, ps := range heads {
		for _, at := range ps {
			lag = max(lag, now.Sub(at))
		}
	}
	return lag, nil
}

// Cached returns measure with a memory: within keep of an answer it is given again, and those
// who ask at once share one measurement.
func Cached(keep time.Duration, measure func(context.Context) (time.Duration, error)) func(context.Context) (time.Duration, error) {
	var mu sync.Mutex // guards what follows; held while measuring
	var at time.Time
	var last time.Duration
	var lastErr error
	return func(ctx context.Context) (time.Duration, error) {
		mu.Lock()
		defer mu.Unlock()
		if !at.IsZero() && time.Since(at) < keep {
			return last, lastErr
		}
		last, lastErr = measure(context.WithoutCancel(ctx)) // bounded by itself; others wait for it too
		at = time.Now()
		return last, lastErr
	}
}
