package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/analytics"
	"github.com/hookline/hookline/dispatcher"
	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/ingest"
	"github.com/hookline/hookline/retrytiers"
)

// The roles of this version, downstream first: this is the order in which they start.
const (
	roleAnalytics  = "analytics"
	roleRetrytiers = "retrytiers"
	roleDispatcher = "dispatcher"
	roleIngest     = "ingest"
)

func allRoles() []string { return []string{roleAnalytics, roleRetrytiers, roleDispatcher, roleIngest} }

// node is one process that serves.
type node struct {
	cfg   *Config
	roles []string
	log   *slog.Logger
	reg   *prometheus.Registry
	base  *kafkaBase

	ingestListener net.Listener // nil without the role
	adminListener  net.Listener

	cluster    *cluster
	health     *health
	dispatcher *dispatcher.Dispatcher // nil without the role
	ingest     *ingest.Server         // nil without the role
	sink       *analytics.Sink        // nil without the role
	store      *endpointStore
	audit      *auditor // made by the first that needs it
	fleet      *fleet
	questions  *questions // nil without ClickHouse
	reloads    *reloader
	tenants    atomic.Pointer[[]string] // those that have a key now
	closers    []func()
}

func newNode(c *Config, roles []string, log *slog.Logger) *node {
	n := &node{cfg: c, roles: roles, log: log, reg: prometheus.NewRegistry(), health: &health{}}
	n.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	n.reloads = newReloader(c.ExecInterval, log, n.reg)
	n.setTenants(c.Ingest.APIKeys)
	return n
}

func (n *node) has(role string) bool { return slices.Contains(n.roles, role) }

// close releases what was opened, the last first. Parts have ended by then.
func (n *node) close() {
	for _, c := range slices.Backward(n.closers) {
		c()
	}
}

func (n *node) onClose(c func()) { n.closers = append(n.closers, c) }

// listen binds both listeners before anything else starts, so that a port that is taken is
// told at once and nothing has to be undone.
func (n *node) listen() error {
	var err error
	if n.adminListener, err = listenOn(n.cfg.Admin.Addr, "HOOKLINE_ADMIN_ADDR"); err != nil {
		return err
	}
	l := n.adminListener
	n.onClose(func() { _ = l.Close() }) // closed before, by the server
	if !n.has(roleIngest) {
		return nil
	}
	if n.ingestListener, err = listenOn(n.cfg.Ingest.Addr, "HOOKLINE_INGEST_ADDR"); err != nil {
		return err
	}
	i := n.ingestListener
	n.onClose(func() { _ = i.Close() })
	return nil
}

func listenOn(addr, env string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use, perhaps by another hookline; stop it or choose another address with %s", addr, env)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("%s may not be used by this user; choose a port above 1023 with %s", addr, env)
	case err != nil:
		return nil, fmt.Errorf("listen on %s (%s): %w", addr, env, err)
	}
	return l, nil
}

// parts makes the rooms and the admin listener, downstream first.
func (n *node) parts() ([]part, error) {
	ring, err := endpoint.NewKeyring(n.cfg.SecretKeys...)
	if err != nil {
		return nil, err
	}
	if err := n.openQuestions(); err != nil {
		return nil, err
	}
	rooms := []part{}
	for _, role := range allRoles() {
		if !n.has(role) {
			continue
		}
		p, err := n.room(role, ring)
		if err != nil {
			return nil, fmt.Errorf("make %s: %w", role, err)
		}
		rooms = append(rooms, p)
		if role == roleAnalytics {
			if p, err = n.reconciler(); err != nil {
				return nil, fmt.Errorf("make the reconciliation: %w", err)
			}
			rooms = append(rooms, p)
		}
	}
	front, err := n.admin(ring)
	if err != nil {
		return nil, err
	}
	follow(n.reloads, n.cfg.Ingest.keys, n.setKeys)
	n.cfg.followSources(n.reloads)
	out := append([]part{{name: "settings", run: n.reloads.run}}, append(front, rooms...)...)
	for _, p := range out {
		if p.ready != nil {
			n.health.add(p.name, p.ready)
		}
	}
	return out, nil
}

// instance names this process among those of its host, the same after a restart.
func (n *node) instance() string {
	_, port, err := net.SplitHostPort(n.cfg.Admin.Addr)
	if err != nil || port == "0" {
		return "" // not stable: a dynamic member
	}
	return hostName() + "-" + port
}

func (n *node) room(role string, ring endpoint.Keyring) (part, error) {
	log := n.log.With("role", role)
	opts := n.base.options(role)
	switch role {
	case roleAnalytics:
		return n.analytics()
	case roleRetrytiers:
		cfg := retrytiers.DefaultConfig()
		cfg.InstanceID = orDefault(n.cfg.Retrytiers.InstanceID, n.instance())
		cfg.TrimInterval = n.cfg.Retrytiers.TrimInterval
		cfg.Ladder = n.cfg.Retrytiers.Ladder
		cfg.WheelRecords, cfg.WheelBytes = n.cfg.Retrytiers.WheelRecords, n.cfg.Retrytiers.WheelBytes
		m, err := retrytiers.New(cfg, retrytiers.Deps{Kafka: opts, Prefix: n.cfg.Kafka.Prefix, Log: log, Metrics: n.reg})
		if err != nil {
			return part{}, err
		}
		return part{role, m.Run, m.Ready}, nil
	case roleDispatcher:
		return n.newDispatcher(opts, ring, log)
	case roleIngest:
		for _, w := range n.cfg.Warnings {
			log.Warn("setting is likely not meant", "setting", w.Key, "warning", w.Text)
		}
		cfg := n.cfg.ingest()
		deps := ingest.Deps{Kafka: opts, Prefix: n.cfg.Kafka.Prefix, Log: log, Metrics: n.reg, Gatherer: n.reg, Listener: n.ingestListener}
		if n.questions != nil {
			deps.Lookup = lookups{n.questions.reporter}
		}
		run := func(context.Context) error { return nil }
		if cfg.MaxBacklogAge > 0 {
			b := newBacklog(n.cluster.adm, n.cfg.Kafka.Prefix, cfg.MaxBacklogAge, log)
			deps.BacklogAge, run = b.age, b.run
		}
		var err error
		if deps.TLS, err = n.startTLS(); err != nil {
			return part{}, err
		}
		s, err := ingest.New(cfg, deps)
		if err != nil {
			return part{}, err
		}
		n.ingest = s
		return part{role, func(ctx context.Context) error {
			watch, stop := context.WithCancel(ctx)
			done := make(chan error, 1)
			go func() { done <- run(watch) }()
			err := s.Run(ctx)
			stop()
			return errors.Join(err, <-done)
		}, s.Ready}, nil
	}
	panic("BUG: no role " + role)
}

func (n *node) newDispatcher(opts []kgo.Opt, ring endpoint.Keyring, log *slog.Logger) (part, error) {
	cfg := dispatcher.DefaultConfig()
	cfg.InstanceID, cfg.KeepMembership = orDefault(n.cfg.Dispatcher.InstanceID, n.instance()), n.cfg.Dispatcher.KeepMembership
	cfg.TrimInterval = n.cfg.Dispatcher.TrimInterval
	cfg.Worker = orDefault(n.cfg.Dispatcher.Worker, orDefault(cfg.InstanceID, hostName()))
	cfg.InFlight = n.cfg.Dispatcher.InFlight
	cfg.Ladder = n.cfg.Retrytiers.Ladder
	cfg.EgressAllow, cfg.EgressHTTP = n.cfg.Egress.Allow, n.cfg.Egress.HTTP
	cfg.Keyring = ring
	cfg.OnlyTenant = n.onlyTenant
	cfg.UserAgent = userAgent()
	audit, err := n.auditor()
	if err != nil {
		return part{}, err
	}
	d, err := dispatcher.New(cfg, dispatcher.Deps{
		Kafka: opts, Prefix: n.cfg.Kafka.Prefix, Log: log, Metrics: n.reg, Disabled: audit.disabled(cfg.Worker),
	})
	if err != nil {
		return part{}, err
	}
	n.dispatcher = d
	return part{roleDispatcher, d.Run, d.Ready}, nil
}

// userAgent names us to endpoints.
func userAgent() string { return "hookline/" + softwareVersion() }

// keyHashes hands keys over as hashes, so that no room holds one in clear.
func keyHashes(keys []apiKey) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = strings.TrimSpace(k.Tenant + ":sha256=" + k.hash() + " " + k.Options)
	}
	return out
}

// setKeys puts new API keys in force in this process.
func (n *node) setKeys(keys []apiKey) error {
	if n.ingest != nil {
		if err := n.ingest.SetKeys(keyHashes(keys)); err != nil {
			return err
		}
	}
	n.setTenants(keys)
	return nil
}

func (n *node) setTenants(keys []apiKey) {
	list := tenantsOf(keys)
	n.tenants.Store(&list)
}

// onlyTenant is the tenant of a deployment that has one, else "".
func (n *node) onlyTenant() string {
	if list := n.tenants.Load(); list != nil && len(*list) == 1 {
		return (*list)[0]
	}
	return ""
}

// auditor is shared by the admin API and the dispatcher of this process.
func (n *node) auditor() (*auditor, error) {
	if n.audit != nil {
		return n.audit, nil
	}
	a, err := newAuditor(n.base.options("admin"), n.cfg.Kafka.Prefix, n.reg)
	if err != nil {
		return nil, err
	}
	n.audit = a
	n.onClose(a.close)
	return a, nil
}

// admin makes the admin listener and the view behind it.
func (n *node) admin(ring endpoint.Keyring) ([]part, error) {
	const role = "admin"
	log := n.log.With("role", role)
	opts := n.base.options(role)
	policy := endpoint.URLPolicy{HTTP: n.cfg.Egress.HTTP, Allow: n.cfg.Egress.Allow}
	var own viewOffset
	if n.dispatcher != nil {
		own = n.dispatcher
	}
	n.fleet = newFleet(n.cluster.adm, n.cfg.Kafka.Prefix, own, n.base.clientID(roleDispatcher), log)
	store, err := newEndpointStore(opts, n.cfg.Kafka.Prefix, ring, policy, n.fleet, log)
	if err != nil {
		return nil, err
	}
	n.store = store
	n.onClose(store.close)
	audit, err := n.auditor()
	if err != nil {
		return nil, err
	}
	defaults, err := endpointDefaults(n.cfg.Defaults)
	if err != nil {
		return nil, err
	}
	sender := dispatcher.NewDeliverer(dispatcher.SendConfig{
		InFlight: testSenders, EgressAllow: n.cfg.Egress.Allow, EgressHTTP: n.cfg.Egress.HTTP, UserAgent: userAgent(),
	})
	n.onClose(sender.Close)
	s := &admin{
		gate: newTokenGate(n.cfg.Admin.Token), log: log, store: store, audit: audit, defaults: defaults,
		dead: newDeadReader(n.cluster.cl, n.cfg.Kafka.Prefix), health: n.health, gatherer: n.reg,
		tenants: func() []string { return *n.tenants.Load() }, ingestURL: n.ingestURL, listener: n.adminListener, questions: n.questions,
		sender: sender,
	}
	if n.dispatcher != nil {
		s.healthOf = n.dispatcher.Health
	}
	return []part{
		{"admin", s.serve, nil},
		{"endpoints", store.view.Run, store.view.Ready},
	}, nil
}

func endpointDefaults(m map[string]any) (endpoint.Endpoint, error) {
	e := endpoint.Default()
	if m == nil {
		return e, nil
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return e, fmt.Errorf("encode defaults of endpoints: %w", err)
	}
	return endpoint.Merge(e, raw)
}

func (n *node) adminURL() string { return "http://" + n.adminListener.Addr().String() }

func (n *node) ingestURL() string {
	if n.ingestListener == nil {
		return ""
	}
	scheme := "http://"
	if n.cfg.Ingest.TLS.enabled() {
		scheme = "https://"
	}
	return scheme + n.ingestListener.Addr().String()
}

// parseRoles reads --roles.
func parseRoles(text string) ([]string, error) {
	if strings.TrimSpace(text) == "" || text == "all" {
		return allRoles(), nil
	}
	var out []string
	for _, r := range splitList(text) {
		switch {
		case !slices.Contains(allRoles(), r):
			return nil, usagef("--roles: there is no role %q; use %s", r, strings.Join(allRoles(), ","))
		case !slices.Contains(out, r):
			out = append(out, r)
		}
	}
	return out, nil
}

// clientName tells the processes of a deployment apart in broker logs and group members.
func clientName() string { return fmt.Sprintf("%s-%d", hostName(), os.Getpid()) }

const readyPoll = 20 * time.Millisecond
