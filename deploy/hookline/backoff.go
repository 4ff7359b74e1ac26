package main

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// retryPause is the wait between tries of a process loop: exponential, jittered, without end.
type retryPause struct{ policy *backoff.ExponentialBackOff }

func newBackoff(first, most time.Duration) *retryPause {
	return &retryPause{backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(first),
		backoff.WithMaxInterval(most),
		backoff.WithMaxElapsedTime(0), // the context ends the loop, not the library
	)}
}

// wait sleeps until the next try is due, or returns ctx's error.
func (p *retryPause) wait(ctx context.Context) error {
	timer := time.NewTimer(p.policy.NextBackOff())
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
