package main

import (
	"errors"
	"time"
)

// ingestLimitSettings are what protects the ingest listener.
func ingestLimitSettings() []setting {
	return []setting{
		{key: "ingest.rate_per_second", env: "HOOKLINE_INGEST_RATE_PER_SECOND", dev: "0", run: "0",
			help: "events a second that a key may publish unless it says rate=N itself; 0 = no limit",
			set:  func(c *Config, v any) (err error) { c.Ingest.Limit.PerSecond, err = asFloat(v, 0, 1e9); return err }},
		{key: "ingest.burst", env: "HOOKLINE_INGEST_BURST", dev: "0", run: "0", help: "events that may come at once after a pause; 0 = those of one second",
			set: setInt(func(c *Config) *int { return &c.Ingest.Limit.Burst }, 0, 1<<30)},
		{key: "ingest.max_connections", env: "HOOKLINE_INGEST_MAX_CONNECTIONS", dev: "8192", run: "8192", help: "open client connections",
			set: setInt(func(c *Config) *int { return &c.Ingest.MaxConnections }, 1, 1<<20)},
		{key: "ingest.max_connections_per_address", env: "HOOKLINE_INGEST_MAX_CONNECTIONS_PER_ADDRESS", dev: "2048", run: "2048",
			help: "those of one client address; 0 = no bound, for a listener behind a proxy",
			set:  setInt(func(c *Config) *int { return &c.Ingest.MaxConnectionsPerAddress }, 0, 1<<20)},
		{key: "ingest.read_timeout", env: "HOOKLINE_INGEST_READ_TIMEOUT", dev: "10s", run: "10s", help: "time for a whole request to arrive, and for a TLS handshake",
			set: func(c *Config, v any) (err error) {
				if c.Ingest.ReadTimeout, err = asDuration(v); err == nil && (c.Ingest.ReadTimeout < 100*time.Millisecond || c.Ingest.ReadTimeout > 5*time.Minute) {
					err = errors.New("must be from 100ms to 5m")
				}
				return err
			}},
		{key: "ingest.tls.cert", env: "HOOKLINE_INGEST_TLS_CERT", help: "PEM file of the listener's certificate and those above it; with it the listener speaks TLS only",
			set: setText(func(c *Config) *string { return &c.Ingest.TLS.Cert })},
		{key: "ingest.tls.key", env: "HOOKLINE_INGEST_TLS_KEY", help: "PEM file of its key",
			set: setText(func(c *Config) *string { return &c.Ingest.TLS.Key })},
		{key: "ingest.tls.client_ca", env: "HOOKLINE_INGEST_TLS_CLIENT_CA", help: "PEM file of authorities; clients must show a certificate of one of them",
			set: setText(func(c *Config) *string { return &c.Ingest.TLS.ClientCA })},
	}
}
