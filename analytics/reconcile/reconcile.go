package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hookline/hookline/analytics/progress"
)

// Reconciler counts in rounds. Make it with New; Run it once.
type Reconciler struct {
	cfg     Config
	conn    Conn
	offsets *progress.Reader
	log     *slog.Logger
	metrics *metrics
	turn    func() bool
	now     func() time.Time

	// Of the goroutine that runs rounds.
	history history
	hours   hours
	rounds  int
	told    uint64 // unaccounted as the log has last told
}

// New checks the configuration and registers the metrics. It starts nothing.
func New(cfg Config, deps Deps) (*Reconciler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("check config of the reconciliation: %w", err)
	}
	r := &Reconciler{cfg: cfg, conn: deps.Conn, offsets: deps.Offsets, log: deps.Log, turn: deps.Turn, now: deps.Now, hours: hours{}}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.turn == nil {
		r.turn = func() bool { return true }
	}
	if r.now == nil {
		r.now = time.Now
	}
	reg := deps.Metrics
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	var err error
	if r.metrics, err = newMetrics(reg, r.now); err != nil {
		return nil, fmt.Errorf("register metrics of the reconciliation: %w", err)
	}
	return r, nil
}

// Run counts until ctx is done. A round that fails is told and tried again: the age of the
// last complete one is a metric.
func (r *Reconciler) Run(ctx context.Context) error {
	tick := time.NewTicker(r.cfg.Every)
	defer tick.Stop()
	for {
		if r.turn() {
			_, err := r.Round(ctx)
			switch {
			case err == nil || ctx.Err() != nil:
			case errors.Is(err, errLate):
				r.log.Info("reconciliation waits: what was accepted is not in ClickHouse yet", "error", err)
			default:
				r.log.Warn("reconciliation could not count", "error", err)
			}
		} else {
			r.forget()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (r *Reconciler) forget() {
	r.history, r.hours, r.rounds, r.told = nil, hours{}, 0, 0
	r.metrics.hide(r.now())
}

// Round counts once and shows the result. Not for use beside Run.
func (r *Reconciler) Round(ctx context.Context) (*Totals, error) {
	totals, err := r.round(ctx)
	switch {
	case err == nil:
		r.metrics.rounds.WithLabelValues("complete").Inc()
	case errors.Is(err, errLate):
		r.metrics.rounds.WithLabelValues("late").Inc()
	default:
		r.metrics.rounds.WithLabelValues("failed").Inc()
	}
	return totals, err
}

func (r *Reconciler) round(ctx context.Context) (*Totals, error) {
	proof, err := r.prove(ctx)
	if err != nil {
		return nil, err
	}
	now := r.now()
	due := r.hours.due(r.rounds, &r.cfg, now)
	occupied, err := r.occupied(ctx, due[0].UTC())
	if err != nil {
		return nil, err
	}
	for _, hour := range due {
		sums := map[int32]Sums{}
		if !occupied[hour] {
			r.hours[hour] = sums
			continue
		}
		for _, rows := range slices.Sorted(maps.Keys(proof.groups)) {
			counted, err := r.count(ctx, proof.question(hour, rows))
			if err != nil {
				return nil, err
			}
			maps.Copy(sums, counted)
		}
		r.hours[hour] = sums
	}
	r.rounds++
	totals := r.hours.totals()
	r.metrics.show(totals, now)
	r.tell(totals, proof)
	if err := r.remember(ctx); err != nil {
		return nil, err
	}
	return totals, nil
}

// tell logs a change of what is unaccounted for, never which events: those are for who may
// ask ClickHouse.
func (r *Reconciler) tell(t *Totals, proof *proof) {
	n := t.All.Unaccounted
	if n == r.told {
		return
	}
	r.told = n
	if n == 0 {
		r.log.Info("reconciliation: everything is accounted for again")
		return
	}
	hour, worst := t.worst()
	r.log.Error("reconciliation: accepted events are unaccounted for; see the runbook, and level debug for a query that lists them",
		"deliveries", n, "hours", len(t.ByHour), "worst_hour", hour.Format(time.RFC3339), "of_it", worst)
	for rows := range proof.groups {
		r.log.Debug("events that are unaccounted for", "query", proof.question(hour, rows).ids())
	}
}
