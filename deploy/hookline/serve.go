package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

type runCmd struct {
	Roles string `help:"Roles of this process: ingest,dispatcher,retrytiers,analytics. Default: all; analytics only with a ClickHouse." placeholder:"ROLE,..."`
	settingFlags
}

// Run serves production roles until a signal.
func (c *runCmd) Run(a *app) error {
	roles, err := parseRoles(c.Roles)
	if err != nil {
		return err
	}
	cfg, err := a.load(c.values(), production)
	if err != nil {
		return err
	}
	if roles, err = withoutAnalytics(roles, c.Roles, cfg.ClickHouseDSN); err != nil {
		return err
	}
	a.tuneGC()
	log := newLogger(a.stderr, cfg.Log)
	n := newNode(cfg, roles, log)
	defer n.close()
	if err := n.listen(); err != nil {
		return err
	}
	if n.base, err = newKafkaBase(cfg.Kafka, log, n.reg); err != nil {
		return err
	}
	k, err := openCluster(a.ctx, cfg, n.base.options("admin"), topicSpecs(cfg), log)
	if err != nil {
		return stopped(a.ctx, err)
	}
	n.cluster = k
	n.onClose(k.close)
	if err := n.checkTopics(a.ctx); err != nil {
		return stopped(a.ctx, err)
	}
	parts, err := n.parts()
	if err != nil {
		return err
	}
	log.Info("hookline starts", "version", softwareVersion(), "roles", roles, "prefix", cfg.Kafka.Prefix, "admin", n.adminURL(), "ingest", n.ingestURL(),
		"egress_allow", cfg.Egress.Allow, "egress_http", cfg.Egress.HTTP)
	return runParts(a.ctx, parts, drainTime, n.health.stopping, log)
}

// checkTopics refuses what topics verify refuses, and logs the rest.
func (n *node) checkTopics(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, topicTimeout)
	defer cancel()
	faults, err := n.cluster.verify(ctx)
	if err != nil {
		return err
	}
	for _, f := range faults {
		if !f.Fatal {
			n.log.Warn("topic differs from the settings", "topic", f.Topic, "difference", f.Text)
		}
	}
	if err := fatalFaults(faults); err != nil {
		return fmt.Errorf("the topics are not fit to start on: %w", err)
	}
	return nil
}

// stopped makes a start that was interrupted by a signal a clean end.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// waitReady returns true once /readyz would say 200, false if ctx is done first.
func (n *node) waitReady(ctx context.Context) bool {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		if _, ok := n.health.report(); ok {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}
