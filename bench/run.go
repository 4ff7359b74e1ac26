package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/hookline/hookline/bench/loadgen"
	"github.com/hookline/hookline/bench/receiver"
	"github.com/hookline/hookline/bench/verify"
)

// scenarios by name. Each runs against a receiver of its own.
var scenarios = map[string]func(ctx context.Context, s *session) (*Result, error){
	"e2e":    e2e,
	"ingest": ingestScenario,
}

// Scenarios returns the names of all scenarios, sorted.
func Scenarios() []string { return slices.Sorted(maps.Keys(scenarios)) }

// Run runs a scenario and removes what it created. An error means that there is no figure;
// a figure with a fault is a Result whose Err says so.
func Run(ctx context.Context, opts Options) (res *Result, err error) {
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	rcv, err := receiver.Start(receiver.Config{})
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	s := &session{
		opts: opts, admin: newAdmin(opts.Stack), rcv: rcv,
		id:     "bench-" + strconv.FormatInt(time.Now().UnixNano(), 36),
		loader: loader{rcv: rcv, drain: opts.Drain, progress: opts.Progress},
	}
	defer func() {
		if cleanErr := s.clean(); cleanErr != nil && err == nil {
			err = fmt.Errorf("bench %s: %w", opts.Scenario, cleanErr)
		}
	}()
	res, err = scenarios[opts.Scenario](ctx, s)
	if err != nil {
		return nil, fmt.Errorf("bench %s: %w", opts.Scenario, err)
	}
	return res, nil
}

// session is one run: what it created and what it needs.
type session struct {
	opts   Options
	id     string // of this run; part of every name that it creates
	admin  *admin
	rcv    *receiver.Receiver
	loader loader

	endpoints []string // to be removed
}

// cleanTimeout bounds the removal of endpoints, also after the run was cancelled.
const cleanTimeout = 30 * time.Second

func (s *session) clean() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanTimeout)
	defer cancel()
	var errs []error
	for _, id := range s.endpoints {
		errs = append(errs, s.admin.remove(ctx, id))
	}
	return errors.Join(append(errs, s.rcv.Close())...)
}

// subscribe creates n endpoints for the event type, each at a receiver path of its own that
// checks its secret.
func (s *session) subscribe(ctx context.Context, eventType string, n int, b receiver.Behaviour) (target, error) {
	t := target{
		url: s.opts.Stack.IngestURL() + "/v1/events", key: s.opts.Stack.APIKey(),
		eventType: eventType, pids: s.opts.Stack.PIDs(),
	}
	byPath := map[string]string{}
	for i := range n {
		id := fmt.Sprintf("%s-%d", s.id, i)
		path := "/" + id
		if err := s.rcv.Set(path, receiver.Path{Behaviour: b}); err != nil {
			return target{}, err
		}
		secret, err := s.admin.create(ctx, endpointSpec{
			ID: id, Tenant: s.opts.Tenant, URL: s.rcv.URL() + path, Events: []string{eventType},
		})
		if err != nil {
			return target{}, err
		}
		s.endpoints = append(s.endpoints, id)
		if err := s.rcv.SetSecrets(path, secret); err != nil {
			return target{}, err
		}
		t.paths = append(t.paths, path)
		byPath[path] = id
	}
	t.dead = func(ctx context.Context, c *verify.Check) error {
		for path, id := range byPath {
			if err := s.admin.deadLetters(ctx, id, func(eventID string) { c.Dead(eventID, path) }); err != nil {
				return err
			}
		}
		return nil
	}
	return t, nil
}

// load is the load of the options.
func (s *session) load(name string, d time.Duration) loadgen.Config {
	cfg := loadgen.DefaultConfig()
	cfg.Rate, cfg.Connections, cfg.Duration = s.opts.Rate, s.opts.Connections, d
	cfg.Size, cfg.Messages = s.opts.Size, s.opts.Messages
	cfg.MessagePrefix = s.id + "-" + name + "-"
	return cfg
}

// measure warms up and measures. A warm-up that loses something is an error: whatever came
// after it would not be a figure of a sound system.
func (s *session) measure(ctx context.Context, t target, name string) (*measured, error) {
	if s.opts.Warmup > 0 {
		w, err := s.loader.measure(ctx, t, s.load(name+"-warm-up", s.opts.Warmup), name+" warm-up")
		if err != nil {
			return nil, err
		}
		if w.report.Lost > 0 {
			return nil, fmt.Errorf("%s warm-up: %d of %d deliveries did not arrive within %s: %v",
				name, w.report.Lost, w.report.Owed, s.opts.Drain, w.report.LostSamples)
		}
		s.rcv.Forget()
	}
	return s.loader.measure(ctx, t, s.load(name, s.opts.Duration), name)
}

// result turns a measured load into the figures.
func (s *session) result(m *measured) *Result {
	o := s.opts
	r := &Result{
		Scenario: o.Scenario, Version: o.Version, StartedAt: m.load.Started.UTC(), Machine: thisMachine(),
		Accepted: m.report.Accepted, AcceptedPerSecond: perSecond(m.report.Accepted, m.load.Ended.Sub(m.load.Started)),
		Delivered: m.report.Delivered, DeliveredPerSecond: perSecond(m.report.Delivered, m.last.Sub(m.load.Started)),
		Lost: m.report.Lost, Duplicates: m.report.Duplicates,
		PublishMs: quantiles(m.load.Latency), E2EMs: quantiles(m.e2e),
		CPUSecondsPer10k:      per10k(m.self.CPU+m.stack.CPU, m.report.Delivered),
		StackCPUSecondsPer10k: per10k(m.stack.CPU, m.report.Delivered),
		PeakRSSMB:             megabytes(m.self.PeakRSS + m.stack.PeakRSS),
		StackPeakRSSMB:        megabytes(m.stack.PeakRSS),
		Config: Config{
			DurationSeconds: o.Duration.Seconds(), WarmupSeconds: o.Warmup.Seconds(), Loop: "closed",
			Rate: o.Rate, Connections: o.Connections, Size: o.Size, Endpoints: o.Endpoints,
			Messages: o.Messages, Broker: o.Broker,
		},
		Load: LoadInfo{
			Sent: m.load.Sent, Refused: m.load.Refused(), Unknown: m.load.Unknown(),
			ByStatus: m.load.ByStatus, Errors: m.load.Errors,
		},
		Check: Check{
			Report: m.report, Requests: m.stats.Requests,
			BadSignature: m.stats.BadSignature, BadHeaders: m.stats.BadHeaders,
		},
		Faults: append([]string{}, m.report.Faults()...),
		Series: Series{
			Bucket: m.bucket, Accepted: m.accepted, Delivered: m.arrived, E2EP99Ms: m.p99,
			Publish: m.load.Latency, E2E: m.e2e,
		},
	}
	if o.Rate > 0 {
		r.Config.Loop = "open"
	}
	if m.stats.BadSignature > 0 {
		r.Faults = append(r.Faults, fmt.Sprintf("%d bad signatures", m.stats.BadSignature))
	}
	if m.stats.BadHeaders > 0 {
		r.Faults = append(r.Faults, fmt.Sprintf("%d requests with bad headers", m.stats.BadHeaders))
	}
	return r
}
