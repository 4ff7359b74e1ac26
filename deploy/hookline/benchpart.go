package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/bench"
	"github.com/hookline/hookline/deploy/local"
)

// benchPartCmd is what bench starts in processes of its own beside hookline, so that the cost
// of each can be told. It is for bench alone.
type benchPartCmd struct {
	Broker benchBrokerCmd `cmd:"" help:"The embedded broker alone."`
	Bare   benchBareCmd   `cmd:"" help:"The baseline of scenario ingest."`
}

type benchBrokerCmd struct {
	Dir string `arg:"" help:"Its data."`
}

func (c *benchBrokerCmd) Run(a *app) error {
	ctx, cancel := context.WithTimeout(a.ctx, brokerStartTimeout)
	defer cancel()
	b, err := local.StartBroker(ctx, local.BrokerConfig{DataDir: c.Dir, Log: newLogger(a.stderr, logConfig{Level: "warn", Format: "text"})})
	if err != nil {
		return stopped(a.ctx, err)
	}
	fmt.Fprintf(a.stdout, "ready kafka=%s\n", b.Addr())
	<-a.ctx.Done()
	return b.Close()
}

type benchBareCmd struct {
	Brokers string `help:"Seed brokers." required:""`
	Prefix  string `help:"Of its topic and of the events topic." required:""`
}

func (c *benchBareCmd) Run(a *app) error {
	return bench.ServeBare(a.ctx, []kgo.Opt{
		kgo.SeedBrokers(strings.Split(c.Brokers, ",")...),
		kgo.MetadataMinAge(250 * time.Millisecond), // as every client of hookline
		kgo.DisableClientMetrics(),
	}, c.Prefix, a.stdout)
}

// startIngestStack starts hookline with the role ingest alone, the bare ingest beside it, and
// the broker of both; each is a process.
func startIngestStack(ctx context.Context, brokers string, baseline bool) (*childStack, error) {
	s, err := newChildStack(brokers)
	if err != nil {
		return nil, err
	}
	if err := s.startIngest(ctx, brokers, baseline); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *childStack) startIngest(ctx context.Context, brokers string, baseline bool) error {
	var fields map[string]string
	var err error
	if brokers == "" {
		if s.broker, fields, err = startChild(ctx, s.dir, []string{"bench-part", "broker", filepath.Join(s.dir, "broker")}); err != nil {
			return err
		}
		brokers = fields["kafka"]
	}
	if err := s.startDev(ctx, brokers, "--roles", roleIngest); err != nil || !baseline {
		return err
	}
	if s.bare, fields, err = startChild(ctx, s.dir, []string{"bench-part", "bare", "--brokers", brokers, "--prefix", s.TopicPrefix}); err != nil {
		return err
	}
	s.bench = bench.Bare{URL: fields["bare"], Topic: fields["topic"], PIDs: []int{s.bare.pid()}}
	return nil
}

// brokerPIDs are of a broker that is a process of the run.
func (s *childStack) brokerPIDs() []int {
	if s.broker == nil {
		return nil
	}
	return []int{s.broker.pid()}
}
