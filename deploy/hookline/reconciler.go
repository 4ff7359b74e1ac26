package main

import (
	"github.com/hookline/hookline/analytics/clickhouse"
	groups "github.com/hookline/hookline/analytics/progress"
	"github.com/hookline/hookline/analytics/reconcile"
	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

// reconciler makes the part of the role analytics that proves that nothing is lost.
func (n *node) reconciler() (part, error) {
	const name = "reconcile"
	conn, err := clickhouse.Open(n.cfg.ClickHouseDSN, 1) // it counts one hour after the other
	if err != nil {
		return part{}, err
	}
	n.onClose(func() { _ = conn.Close() }) // nothing is under way then
	r, err := reconcile.New(n.reconcileConfig(), reconcile.Deps{
		Conn: conn, Offsets: groups.NewReader(n.cluster.adm, n.base.options("admin")), Log: n.log.With("role", name), Metrics: n.reg, Turn: n.sink.Leads,
	})
	if err != nil {
		return part{}, err
	}
	return part{name: name, run: r.Run}, nil
}

// reconcileConfig has the names of this deployment.
func (n *node) reconcileConfig() reconcile.Config {
	prefix := n.cfg.Kafka.Prefix
	cfg := reconcile.DefaultConfig()
	cfg.Events, cfg.Due, cfg.Attempts = prefix+event.EventsSuffix, prefix+tier.DueSuffix, prefix+attempt.Suffix
	for _, step := range n.cfg.Retrytiers.Ladder.Steps() {
		cfg.Retry = append(cfg.Retry, prefix+step.Suffix)
	}
	cfg.Dispatcher, cfg.Movers = event.GroupName(prefix, roleDispatcher), event.GroupName(prefix, roleRetrytiers)
	cfg.Analytics, cfg.AttemptsOf = event.GroupName(prefix, roleAnalytics), attempt.PartitionFor
	return cfg
}
