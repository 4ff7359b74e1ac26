package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hookline/hookline/analytics/progress"
)

// Config is what is reconciled, and how often.
type Config struct {
	// Names of topics and groups, in full.
	Events, Due, Attempts         string
	Retry                         []string
	Dispatcher, Movers, Analytics string
	// AttemptsOf is the partition of attempts, of n, with the rows of a partition of events.
	AttemptsOf func(events, n int32) int32

	// Every is the pause between rounds. Default 30 s.
	Every time.Duration
	// Wait bounds how long a round waits for dispatchers and sink to pass its offsets. A round
	// that ends so counts nothing. Default 2 minutes.
	Wait time.Duration
	// Window is how far back hours are counted. Default 72 h.
	Window time.Duration
	// Grace covers clocks that disagree. Default 1 minute.
	Grace time.Duration
	// OpenEvery and SweepEvery: in each so-many-th round older hours with something open, or
	// all hours, are counted again. Defaults 10 and 240.
	OpenEvery, SweepEvery int
}

// DefaultConfig has all but names.
func DefaultConfig() Config {
	return Config{Every: 30 * time.Second, Wait: 2 * time.Minute, Window: 72 * time.Hour, Grace: time.Minute, OpenEvery: 10, SweepEvery: 240}
}

// Validate reports all that is wrong.
func (c *Config) Validate() error {
	var errs []error
	for name, v := range map[string]string{"events": c.Events, "due": c.Due, "attempts": c.Attempts, "dispatcher": c.Dispatcher, "movers": c.Movers, "analytics": c.Analytics} {
		if v == "" {
			errs = append(errs, fmt.Errorf("%s has no name", name))
		}
	}
	if len(c.Retry) == 0 || c.AttemptsOf == nil {
		errs = append(errs, errors.New("retry topics and the partitions of attempts must be told"))
	}
	for name, d := range map[string]time.Duration{"every": c.Every, "wait": c.Wait} {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("%s is %s, want more than 0", name, d))
		}
	}
	if c.Window < time.Hour || c.Grace < 0 || c.OpenEvery < 1 || c.SweepEvery < 1 {
		errs = append(errs, errors.New("window must be at least an hour, grace not below 0, open and sweep at least 1"))
	}
	return errors.Join(errs...)
}

// Conn is what counting needs of a connection to ClickHouse; driver.Conn has it.
type Conn interface {
	Query(ctx context.Context, query string, args ...any) (driver.Rows, error)
}

// Deps are what the main builds once.
type Deps struct {
	Conn    Conn
	Offsets *progress.Reader
	Log     *slog.Logger
	Metrics prometheus.Registerer // nil keeps them unseen
	// Turn says whether this process is the one to count; nil always is. Several may count at
	// once: they say the same and only cost more.
	Turn func() bool
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}
