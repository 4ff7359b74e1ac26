package bench

import (
	"context"
	"fmt"

	"github.com/hookline/hookline/bench/receiver"
)

// e2e publishes to healthy endpoints and then does the same to the bare baseline.
func e2e(ctx context.Context, s *session) (*Result, error) {
	t, err := s.subscribe(ctx, s.id, s.opts.Endpoints, receiver.Healthy())
	if err != nil {
		return nil, err
	}
	m, err := s.measure(ctx, t, "e2e")
	if err != nil {
		return nil, err
	}
	r := s.result(m)
	if s.opts.NoBaseline {
		return r, nil
	}
	if s.opts.Stack.Kafka() == nil {
		return nil, fmt.Errorf("the baseline needs the stack's broker, which is not reachable from here: skip it with --no-baseline")
	}
	s.rcv.Forget()
	return r, s.addBaseline(ctx, r)
}

// addBaseline runs the bare pipeline under the same load and sets the ratio.
func (s *session) addBaseline(ctx context.Context, r *Result) (err error) {
	b, err := startBaseline(ctx, s.opts.Stack, s.id, s.rcv, s.opts.Endpoints)
	if err != nil {
		return fmt.Errorf("baseline: %w", err)
	}
	defer func() {
		if stopErr := b.stop(); stopErr != nil && err == nil {
			err = fmt.Errorf("baseline: %w", stopErr)
		}
	}()
	m, err := s.measure(ctx, b.target(s.id), "baseline")
	if err != nil {
		return err
	}
	r.Baseline = &Baseline{
		Name:              baselineName,
		PerSecond:         perSecond(m.report.Delivered, m.last.Sub(m.load.Started)),
		AcceptedPerSecond: perSecond(m.report.Accepted, m.load.Ended.Sub(m.load.Started)),
		Lost:              m.report.Lost,
		PublishMs:         quantiles(m.load.Latency),
		E2EMs:             quantiles(m.e2e),
	}
	if r.Baseline.PerSecond > 0 {
		ratio := round(r.DeliveredPerSecond/r.Baseline.PerSecond, 3)
		r.Ratio = &ratio
	}
	if m.report.Lost > 0 {
		r.Faults = append(r.Faults, fmt.Sprintf("the baseline lost %d (%v): its figure is not one", m.report.Lost, b.failure()))
	}
	r.Series.BaselinePublish, r.Series.BaselineE2E = m.load.Latency, m.e2e
	return nil
}
