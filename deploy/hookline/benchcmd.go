package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookline/hookline/bench"
)

type benchCmd struct {
	Scenario    string        `arg:"" help:"What to measure: e2e or ingest." placeholder:"SCENARIO"`
	Duration    time.Duration `help:"Measured time." default:"10s"`
	Rate        float64       `help:"Events per second; 0 = closed loop, as fast as it goes." default:"0"`
	Connections int           `help:"Publishing connections; 0 = the scenario's own." default:"0"`
	Size        int           `help:"Bytes of a body; 0 = the scenario's own." default:"0"`
	Batch       int           `help:"Events of a post, scenario ingest; 0 = single posts." default:"0"`
	Endpoints   int           `help:"Endpoints that get each event; 0 = the scenario's own." default:"0"`
	Brokers     string        `help:"Kafka seed brokers; empty = embedded." placeholder:"HOST:PORT,..."`
	Analytics   bool          `help:"With the embedded ClickHouse and the role analytics, scenario e2e."`
	NoBaseline  bool          `help:"Skip the bare baseline."`
	Out         string        `help:"Write result.json, report.html and the raw data there." placeholder:"DIR"`
	JSON        bool          `help:"Print one JSON object."`
}

// options checks the arguments before anything starts.
func (c *benchCmd) options() (bench.Options, error) {
	o := bench.DefaultOptions()
	if !slices.Contains(bench.Scenarios(), c.Scenario) {
		return o, usagef("there is no scenario %q; this version has %s", c.Scenario, strings.Join(bench.Scenarios(), ", "))
	}
	if c.Analytics && c.Scenario != "e2e" {
		return o, usagef("--analytics is for the scenario e2e")
	}
	o.Scenario, o.Duration, o.Rate, o.NoBaseline = c.Scenario, c.Duration, c.Rate, c.NoBaseline
	for _, s := range []struct {
		to   *int
		from int
	}{{&o.Connections, c.Connections}, {&o.Size, c.Size}, {&o.Endpoints, c.Endpoints}} {
		if s.from != 0 {
			*s.to = s.from
		}
	}
	o.Batch = c.Batch
	if c.Scenario == "ingest" {
		o.Warmup = time.Second
		if c.Size == 0 {
			o.Size = 512
		}
		if c.Connections == 0 && c.Batch > 0 {
			o.Connections = batchConnections
		}
	}
	o.Tenant, o.Version, o.Broker = "bench", softwareVersion(), orDefault(c.Brokers, "embedded")
	o.Stack = bench.Remote{} // stands in until the real one runs
	if err := o.Validate(); err != nil {
		return o, usageError{err}
	}
	return o, nil
}

// batchConnections keep both cores busy with batches; more of them only wait.
const batchConnections = 8

// start starts what the scenario measures.
func (c *benchCmd) start(a *app) (*childStack, error) {
	if c.Scenario == "ingest" {
		return startIngestStack(a.ctx, c.Brokers, !c.NoBaseline)
	}
	return startChildStack(a.ctx, c.Brokers, c.Analytics)
}

func (c *benchCmd) Run(a *app) (err error) {
	opts, err := c.options()
	if err != nil {
		return err
	}
	stack, err := c.start(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stack.stop()) }()
	opts.Stack, opts.Bare, opts.BrokerPIDs = stack, stack.bench, stack.brokerPIDs()
	if newProgress(a).on && !c.JSON {
		opts.Progress = a.stderr
	}
	result, err := bench.Run(a.ctx, opts)
	if err != nil {
		return fmt.Errorf("bench %s: %w", c.Scenario, err)
	}
	if c.JSON {
		err = result.WriteJSON(a.stdout)
	} else {
		err = result.WriteTable(a.stdout)
	}
	if c.Out != "" {
		err = errors.Join(err, result.WriteDir(c.Out))
	}
	return errors.Join(err, result.Err())
}
