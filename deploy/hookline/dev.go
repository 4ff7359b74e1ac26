package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hookline/hookline/deploy/local"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

type devCmd struct {
	Demo      bool   `help:"Start a sample receiver and send sample events to it."`
	KafkaAddr string `help:"Address of the embedded broker." default:"127.0.0.1:0" placeholder:"HOST:PORT"`
	Roles     string `help:"Roles to run." hidden:""` // bench measures one alone
	settingFlags
}

// brokerStartTimeout bounds the recovery of the embedded broker's data.
const brokerStartTimeout = 2 * time.Minute

// Run serves everything in one process on loopback until a signal.
func (c *devCmd) Run(a *app) error {
	roles, err := parseRoles(c.Roles)
	if err != nil {
		return err
	}
	cfg, err := a.load(c.values(), dev)
	if err != nil {
		return err
	}
	ownEngine := cfg.ClickHouseDSN == "" && slices.Contains(roles, roleAnalytics)
	if !ownEngine {
		if roles, err = withoutAnalytics(roles, c.Roles, cfg.ClickHouseDSN); err != nil {
			return err
		}
	}
	a.tuneGC()
	log := newLogger(a.stderr, cfg.Log)
	n := newNode(cfg, roles, log)
	defer n.close()
	if err := n.listen(); err != nil {
		return err
	}
	if err := ensureSecretKey(cfg); err != nil {
		return err
	}
	var own []part // what is embedded: it starts first and ends last
	if ownEngine {
		p, err := n.startEngine(a.ctx)
		if err != nil {
			return stopped(a.ctx, err)
		}
		own = append(own, p)
	}
	embedded := len(cfg.Kafka.Brokers) == 0
	specs := topicSpecs(cfg)
	if embedded {
		if err := n.startBroker(a.ctx, c.KafkaAddr); err != nil {
			return stopped(a.ctx, err)
		}
		for i := range specs {
			specs[i] = local.TopicConfigs(specs[i])
		}
	}
	if n.base, err = newKafkaBase(cfg.Kafka, log, n.reg); err != nil {
		return err
	}
	k, err := openCluster(a.ctx, cfg, n.base.options("admin"), specs, log)
	if err != nil {
		return stopped(a.ctx, err)
	}
	n.cluster = k
	n.onClose(k.close)
	if _, err := k.create(a.ctx); err != nil {
		return stopped(a.ctx, err)
	}
	if err := n.checkTopics(a.ctx); err != nil {
		return stopped(a.ctx, err)
	}
	parts, err := n.parts()
	if err != nil {
		return err
	}
	if embedded {
		janitor, err := n.janitor()
		if err != nil {
			return err
		}
		own = append(own, janitor)
	}
	parts = append(append(own, parts...), part{name: "ready line", run: func(ctx context.Context) error { return c.announce(ctx, a, n) }})
	return runParts(a.ctx, parts, drainTime, n.health.stopping, log)
}

// announce prints the ready line, runs the demo and then waits for the end.
func (c *devCmd) announce(ctx context.Context, a *app, n *node) error {
	if !n.waitReady(ctx) {
		return nil // stopped before it was ready
	}
	fmt.Fprintf(a.stdout, "ready ingest=%s admin=%s console=%s%s kafka=%s clickhouse=%s\n",
		n.ingestURL(), n.adminURL(), n.adminURL(), consolePath, strings.Join(n.cfg.Kafka.Brokers, ","), n.clickhouseField())
	if c.Demo {
		return runDemo(ctx, a, n)
	}
	<-ctx.Done()
	return nil
}

// startBroker starts the embedded broker and makes it the cluster of the settings.
func (n *node) startBroker(ctx context.Context, addr string) error {
	if !loopback(addr) {
		return usagef("--kafka-addr: the embedded broker listens on loopback only; use 127.0.0.1:PORT")
	}
	dir := filepath.Join(n.cfg.DataDir, "kafka")
	ctx, cancel := context.WithTimeout(ctx, brokerStartTimeout)
	defer cancel()
	b, err := local.StartBroker(ctx, local.BrokerConfig{DataDir: dir, Addr: addr, Log: n.log.With("role", "broker")})
	switch {
	case errors.Is(err, local.ErrInUse):
		return fmt.Errorf("another hookline dev uses %s; stop it or choose another directory with --data-dir", dir)
	case err != nil:
		return fmt.Errorf("start the embedded broker in %s: %w", dir, err)
	}
	n.cfg.Kafka.Brokers = []string{b.Addr()}
	n.cfg.Kafka.TLS, n.cfg.Kafka.SASL = tlsConfig{}, saslConfig{} // it speaks neither
	n.onClose(func() {
		if err := b.Close(); err != nil {
			n.log.Error("embedded broker did not close cleanly; its data will be recovered at the next start", "error", err)
		}
	})
	return nil
}

// janitor applies the retention times that the embedded broker cannot.
func (n *node) janitor() (part, error) {
	dispatchers := []string{event.GroupName(n.cfg.Kafka.Prefix, roleDispatcher)}
	movers := []string{event.GroupName(n.cfg.Kafka.Prefix, roleRetrytiers)}
	groups := map[string][]string{event.EventsSuffix: dispatchers, tier.DueSuffix: dispatchers}
	for _, step := range n.cfg.Retrytiers.Ladder.Steps() {
		groups[step.Suffix] = movers
	}
	j, err := local.NewJanitor(local.JanitorConfig{
		Kafka: n.base.options("janitor"), Prefix: n.cfg.Kafka.Prefix, Topics: topicSpecs(n.cfg), Groups: groups,
		Log: n.log.With("role", "janitor"),
	})
	if err != nil {
		return part{}, fmt.Errorf("make janitor: %w", err)
	}
	return part{name: "janitor", run: j.Run}, nil
}

// ensureSecretKey makes the key that seals endpoint secrets, once, in the data directory.
func ensureSecretKey(c *Config) error {
	if len(c.SecretKeys) > 0 {
		return nil
	}
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	path := filepath.Join(c.DataDir, "secret.key")
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = makeSecretKey(path)
	}
	if err != nil {
		return fmt.Errorf("secret key %s: %w", path, err)
	}
	if err := setSecretKey(c, strings.TrimSpace(string(key))); err != nil {
		return fmt.Errorf("secret key %s %w; without it the secrets of the endpoints cannot be read", path, err)
	}
	return nil
}

// makeSecretKey writes a new key so that a crash leaves either none or a whole one: a
// half-written key would look like a wrong one at the next start.
func makeSecretKey(path string) ([]byte, error) {
	var raw [32]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return nil, err
	}
	text := []byte(base64.StdEncoding.EncodeToString(raw[:]) + "\n")
	f, err := os.CreateTemp(filepath.Dir(path), ".secret.key-*") // mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // gone after the link
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return nil, err
	}
	// Link refuses to replace: of two processes that start at once, both use the first's.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(path)
}
