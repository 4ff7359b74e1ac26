package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"github.com/twmb/franz-go/plugin/kslog"
)

// kafkaBase makes the client options that every role shares. Rooms add their own.
type kafkaBase struct {
	cfg   kafkaConfig
	tls   *tls.Config
	log   *slog.Logger
	reg   prometheus.Registerer
	hooks map[string]kgo.Hook
}

func newKafkaBase(cfg kafkaConfig, log *slog.Logger, reg prometheus.Registerer) (*kafkaBase, error) {
	b := &kafkaBase{cfg: cfg, log: log, reg: reg, hooks: map[string]kgo.Hook{}}
	if cfg.TLS.Enabled {
		t, err := clientTLS(cfg.TLS)
		if err != nil {
			return nil, err
		}
		b.tls = t
	}
	return b, nil
}

// clientID tells roles and processes apart: in quotas, in broker logs, and for the admin API,
// which asks whether the dispatchers of the group are its own process's.
func (b *kafkaBase) clientID(role string) string { return "hookline-" + role + "-" + clientName() }

// options returns the base options for one role.
func (b *kafkaBase) options(role string) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(b.cfg.Brokers...),
		kgo.ClientID(b.clientID(role)),
		kgo.MetadataMinAge(250 * time.Millisecond), // a new leader is found at once, not after the default's 5 s
		kgo.DisableClientMetrics(),                 // else closing a client whose broker died takes 5 s
		kgo.SoftwareNameAndVersion("hookline", softwareVersion()),
		kgo.WithLogger(kslog.New(b.log.With("role", role))),
	}
	if b.tls != nil {
		opts = append(opts, kgo.DialTLSConfig(b.tls.Clone()))
	}
	switch auth := b.cfg.SASL; auth.Mechanism {
	case "PLAIN":
		opts = append(opts, kgo.SASL(plain.Auth{User: auth.User, Pass: auth.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		opts = append(opts, kgo.SASL(scram.Auth{User: auth.User, Pass: auth.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		opts = append(opts, kgo.SASL(scram.Auth{User: auth.User, Pass: auth.Password}.AsSha512Mechanism()))
	}
	if b.reg != nil {
		if b.hooks[role] == nil {
			b.hooks[role] = newKafkaMetrics(role, b.reg)
		}
		opts = append(opts, kgo.WithHooks(b.hooks[role]))
	}
	return opts
}

func clientTLS(c tlsConfig) (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("read kafka.tls.ca: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read kafka.tls.ca: %s holds no certificate", c.CA)
		}
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("read kafka.tls.cert and kafka.tls.key: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// reachTimeout bounds how long a start waits for the brokers.
const reachTimeout = 30 * time.Second

// reachBrokers returns once a broker answers, or an error that says what to look at.
func reachBrokers(ctx context.Context, cl *kgo.Client, cfg kafkaConfig) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	retry := newBackoff(100*time.Millisecond, 2*time.Second)
	for {
		err := cl.Ping(ctx)
		if err == nil {
			return nil
		}
		if waitErr := retry.wait(ctx); waitErr != nil {
			if errors.Is(waitErr, context.Canceled) {
				return waitErr
			}
			return fmt.Errorf("no answer from Kafka at %v within %s; check kafka.brokers, TLS and SASL: %w", cfg.Brokers, reachTimeout, err)
		}
	}
}
