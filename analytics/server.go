package analytics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/cenkalti/backoff/v4"

	"github.com/hookline/hookline/analytics/clickhouse"
	"github.com/hookline/hookline/analytics/schema"
)

// prepareTimeout bounds one look at the server, migrations and the probe included.
const prepareTimeout = 2 * time.Minute

// server is what is known of ClickHouse: nothing is inserted before it was found fit.
type server struct {
	conn driver.Conn
	cfg  *Config
	met  *metrics
	log  *slog.Logger

	look chan struct{} // capacity 1: look again

	mu       sync.Mutex // guards the following
	inserter *clickhouse.Inserter
	fit      chan struct{} // closed while inserter is set
	tried    bool
	trouble  error // why there is no inserter
}

func newServer(conn driver.Conn, cfg *Config, met *metrics, log *slog.Logger) *server {
	return &server{conn: conn, cfg: cfg, met: met, log: log, look: make(chan struct{}, 1), fit: make(chan struct{})}
}

// run looks at the server until it is fit, and again whenever it is asked to.
func (s *server) run(ctx context.Context) {
	pause := newPause(s.cfg)
	for {
		err := s.prepare(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := pause.NextBackOff()
		if err == nil {
			pause.Reset()
			select {
			case <-ctx.Done():
				return
			case <-s.look:
			}
			wait = max(s.cfg.RetryMin, s.cfg.RetryMax/3) // many partitions ask, again and again
		} else {
			s.met.serverErr.WithLabelValues(classOfError(err).String()).Inc()
			s.log.Error("ClickHouse cannot be used; rows wait in Kafka", "error", clickhouse.Short(err), "again_in", wait)
		}
		if !sleep(ctx, nil, wait) {
			return
		}
	}
}

// again asks for another look: an insert was refused for a reason that an operator has to heal.
func (s *server) again() {
	select {
	case s.look <- struct{}{}:
	default:
	}
}

func (s *server) prepare(parent context.Context) error {
	ctx, cancel := context.WithTimeout(parent, prepareTimeout)
	defer cancel()
	in, once, err := s.inspect(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried, s.trouble = true, err
	if err != nil {
		// A table that is gone stops only its own inserts, which fail by themselves.
		if s.inserter != nil && errors.Is(err, clickhouse.ErrCountsTwice) {
			s.inserter, s.fit = nil, make(chan struct{})
		}
		return err
	}
	s.met.exactlyOnce.Set(0)
	if once {
		s.met.exactlyOnce.Set(1)
	}
	if s.inserter == nil {
		close(s.fit)
	}
	s.inserter = in
	return nil
}

// inspect says whether the server is fit, and whether it counts a repeated insert once.
func (s *server) inspect(ctx context.Context) (in *clickhouse.Inserter, once bool, err error) {
	about, err := clickhouse.Inspect(ctx, s.conn)
	if err != nil {
		return nil, false, err
	}
	if s.cfg.Migrate {
		steps, err := schema.Migrate(ctx, s.conn, s.cfg.Database)
		if err != nil {
			return nil, false, fmt.Errorf("migrate ClickHouse: %w", err)
		}
		for _, step := range steps {
			s.log.Info("migration applied", "database", s.cfg.Database, "version", step.Version, "name", step.Name)
		}
	}
	if err := schema.Check(ctx, s.conn, s.cfg.Database); err != nil {
		return nil, false, err
	}
	err = clickhouse.Probe(ctx, s.conn, s.cfg.Database, "attempts", about)
	switch {
	case errors.Is(err, clickhouse.ErrCountsTwice) && s.cfg.AllowDuplicates:
		s.log.Warn("rows and rollups may be counted twice after a failure", "error", err)
	case err != nil:
		return nil, false, err
	}
	s.log.Info("ClickHouse is fit", "version", about.Version, "database", s.cfg.Database, "exactly_once", err == nil)
	return clickhouse.NewInserter(s.conn, s.cfg.Database, about), err == nil, nil
}

// get waits until the server is fit.
func (s *server) get(ctx context.Context, closing <-chan struct{}) (*clickhouse.Inserter, error) {
	for {
		s.mu.Lock()
		in, fit := s.inserter, s.fit
		s.mu.Unlock()
		if in != nil {
			return in, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-closing:
			return nil, errHanded
		case <-fit:
		}
	}
}

// state returns whether the server was looked at, and what an operator has to heal.
func (s *server) state() (tried bool, trouble error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trouble != nil && !mustStop(s.trouble) {
		return s.tried, nil
	}
	return s.tried, s.trouble
}

// mustStop says whether an operator has to heal err.
func mustStop(err error) bool {
	return errors.Is(err, schema.ErrSchema) || clickhouse.ClassOf(err) == clickhouse.Stop
}

// newPause is the pause between two tries, for ever.
func newPause(cfg *Config) backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(cfg.RetryMin), backoff.WithMaxInterval(cfg.RetryMax),
		backoff.WithRandomizationFactor(0.5), backoff.WithMultiplier(2), backoff.WithMaxElapsedTime(0),
	)
}

// sleep waits for d; false when ctx or closing ended it.
func sleep(ctx context.Context, closing <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-closing:
		return false
	case <-t.C:
		return true
	}
}

func classOfError(err error) clickhouse.Class {
	if mustStop(err) {
		return clickhouse.Stop
	}
	return clickhouse.Retry
}
