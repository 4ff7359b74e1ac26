package ingest

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hookline/hookline/ingest/event"
)

// Config is everything about ingest that an operator may set.
type Config struct {
	// Addr is where the listener binds, host:port.
	Addr string
	// APIKeys are the keys that may publish: "tenant:key", "tenant:sha256=HEX" or "@FILE"
	// with one of those per line. An item may also hold several, separated by commas. A key
	// may be followed by a limit of its own: "tenant:key rate=100 burst=500".
	APIKeys []string
	// Limit is that of each key which names none.
	Limit Limit
	// Sources are the third-party providers that may post webhooks.
	Sources []SourceConfig
	// MaxBody is the largest body of an event in bytes, after inflating.
	MaxBody int
	// MaxBacklogAge is the age of the dispatchers' backlog above which a publish is
	// answered with 429. 0 never does.
	MaxBacklogAge time.Duration

	// AckTimeout is how long a request waits for the broker once its event was handed to
	// the producer. With it a 504 comes within two seconds.
	AckTimeout time.Duration
	// StallAfter is the age of the oldest unacknowledged event above which nothing more
	// is taken.
	StallAfter time.Duration
	// MaxBufferedBytes bounds the events that wait for the broker. Above 80 % of it
	// nothing more is taken.
	MaxBufferedBytes int
	// MaxConnections bounds the open client connections; each one holds a read buffer of
	// 16 KiB and, while it sends, its body.
	MaxConnections int
	// MaxConnectionsPerAddress bounds those of one client address (of IPv6, its first 64
	// bits). 0 does not: a proxy in front is one address.
	MaxConnectionsPerAddress int

	// ReadTimeout covers a request's headers and body, from its first byte.
	ReadTimeout time.Duration
	// IdleTimeout closes a kept connection that sends nothing.
	IdleTimeout time.Duration
	// WriteTimeout covers the answer.
	WriteTimeout time.Duration

	// LeaveDelay is how long a stopping server still takes requests while /readyz says no,
	// so that a load balancer can look away first.
	LeaveDelay time.Duration
	// DrainTimeout is how long a stopping server waits for the requests it has taken.
	DrainTimeout time.Duration
}

// DefaultConfig returns the defaults. APIKeys has none: a server without keys does not start.
func DefaultConfig() Config {
	return Config{
		Addr:             "127.0.0.1:8080",
		MaxBody:          256 << 10,
		AckTimeout:       1800 * time.Millisecond,
		StallAfter:       time.Second,
		MaxBufferedBytes: 128 << 20,
		MaxConnections:   8192,

		MaxConnectionsPerAddress: 2048,

		ReadTimeout:  10 * time.Second,
		IdleTimeout:  60 * time.Second,
		WriteTimeout: 10 * time.Second,
		DrainTimeout: 15 * time.Second,
	}
}

// maxMaxBody keeps one request from being a memory problem of its own.
const maxMaxBody = 64 << 20

// Validate returns every fault at once, each beginning with the setting's name.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, _, err := net.SplitHostPort(c.Addr); err != nil {
		bad("addr: %q is not host:port", c.Addr)
	}
	if err := c.Limit.validate(); err != nil {
		bad("limit: %w", err)
	} else if _, err := parseKeys(c.APIKeys, c.Limit); err != nil {
		bad("api_keys: %w", err)
	}
	if c.MaxBody < 1 || c.MaxBody > maxMaxBody {
		bad("max_body: %d is not from 1 to %d", c.MaxBody, maxMaxBody)
	}
	if least := 4 * (c.MaxBody + event.HeaderRoom); c.MaxBufferedBytes < least {
		bad("max_buffered_bytes: %d is less than four events of the largest size (%d)", c.MaxBufferedBytes, least)
	}
	if c.MaxConnections < 1 {
		bad("max_connections: %d is not at least 1", c.MaxConnections)
	}
	if c.MaxConnectionsPerAddress < 0 {
		bad("max_connections_per_address: %d is below 0", c.MaxConnectionsPerAddress)
	}
	for name, d := range map[string]time.Duration{
		"ack_timeout": c.AckTimeout, "stall_after": c.StallAfter, "read_timeout": c.ReadTimeout, "idle_timeout": c.IdleTimeout,
		"write_timeout": c.WriteTimeout, "drain_timeout": c.DrainTimeout,
	} {
		if d <= 0 {
			bad("%s: %s is not above 0", name, d)
		}
	}
	for name, d := range map[string]time.Duration{"max_backlog_age": c.MaxBacklogAge, "leave_delay": c.LeaveDelay} {
		if d < 0 {
			bad("%s: %s is below 0", name, d)
		}
	}
	if c.StallAfter > maxStall {
		bad("stall_after: %s is above %s", c.StallAfter, maxStall)
	}
	return errors.Join(errs...)
}
