package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/dispatcher/ledger"
	"github.com/hookline/hookline/retrytiers/tier"
)

// Config is what an operator may set. Start from DefaultConfig.
type Config struct {
	// InstanceID makes the process a static member of the group: a restart within the
	// session gets its lanes back without a rebalance. Two live processes must not share
	// one. Empty = dynamic.
	InstanceID string
	// KeepMembership makes a clean stop keep the lanes for the same instance to come back.
	KeepMembership bool
	// Worker names this process in attempt records. Defaults to InstanceID.
	Worker string

	InFlight int // permits: attempts under way in the process
	// EndpointInFlight is how many attempts at once an endpoint gets at first; what its
	// answers say moves it between 1 and its own max_in_flight.
	EndpointInFlight int
	WindowOffsets    int64         // per stream of a lane
	WindowBytes      int64         // per stream of a lane
	ProcessBytes     int64         // open slots of the process
	DrainTimeout     time.Duration // how long a revoke or a stop waits for attempts under way

	// OnlyTenant owns the records of events that name none; nil, or "" when there are several,
	// makes them poison. It is called for each such record, from any goroutine.
	OnlyTenant func() string

	// IdempotencyAge and IdempotencyIDs bound window A, per partition of events.
	IdempotencyAge time.Duration
	IdempotencyIDs int

	Ladder tier.Ladder

	// EgressAllow lists private networks that deliveries may reach; EgressHTTP lets
	// endpoints use http://.
	EgressAllow []netip.Prefix
	EgressHTTP  bool
	Keyring     endpoint.Keyring
	UserAgent   string

	// CommitInterval bounds what a crash repeats beyond what was in flight.
	CommitInterval time.Duration
	TrimInterval   time.Duration // of the due topic
	// SegmentInterval is how often window A leaves a segment in dedupe. It bounds how much of
	// events a new owner reads for it.
	SegmentInterval time.Duration
	// StableInterval is how often it is asked whether a transaction holds a lane up, and
	// StableAlarm for how long one may before that is logged as an error.
	StableInterval, StableAlarm time.Duration
}

// DefaultConfig is DESIGN section 12.
func DefaultConfig() Config {
	return Config{
		InFlight: 8192,

		EndpointInFlight: 8,
		WindowOffsets:    ledger.DefaultOffsets,
		WindowBytes:      ledger.DefaultBytes,
		ProcessBytes:     512 << 20,
		DrainTimeout:     5 * time.Second,
		IdempotencyAge:   time.Hour,
		IdempotencyIDs:   200_000,
		Ladder:           tier.DefaultLadder(),
		UserAgent:        "hookline/dev",
		CommitInterval:   100 * time.Millisecond,
		TrimInterval:     time.Minute,

		SegmentInterval: 10 * time.Second,
		StableInterval:  5 * time.Second,
		StableAlarm:     time.Minute, // Kafka's default transaction.timeout.ms: an honest transaction is over
	}
}

// maxWindowOffsets is what the bitmap in the commit metadata can tell: 3,050 bytes in base64.
// A larger window would have it cut, and a crash would repeat more than is promised.
const maxWindowOffsets = 24_000

// Validate returns all faults joined.
func (c *Config) Validate() error {
	var errs []error
	positive := func(name string, n int64) {
		if n <= 0 {
			errs = append(errs, fmt.Errorf("dispatcher.%s must be above 0, is %d", name, n))
		}
	}
	positive("in_flight", int64(c.InFlight))
	positive("endpoint_in_flight", int64(c.EndpointInFlight))
	positive("window_offsets", c.WindowOffsets)
	positive("window_bytes", c.WindowBytes)
	positive("process_bytes", c.ProcessBytes)
	positive("drain_timeout", int64(c.DrainTimeout))
	positive("idempotency_age", int64(c.IdempotencyAge))
	positive("idempotency_ids", int64(c.IdempotencyIDs))
	positive("commit_interval", int64(c.CommitInterval))
	positive("trim_interval", int64(c.TrimInterval))
	positive("segment_interval", int64(c.SegmentInterval))
	positive("stable_interval", int64(c.StableInterval))
	positive("stable_alarm", int64(c.StableAlarm))
	if c.WindowOffsets > maxWindowOffsets {
		errs = append(errs, fmt.Errorf("dispatcher.window_offsets must be at most %d, is %d", maxWindowOffsets, c.WindowOffsets))
	}
	if len(c.Ladder.Steps()) == 0 {
		errs = append(errs, errors.New("dispatcher.ladder is empty"))
	}
	return errors.Join(errs...)
}

// Deps is what the main builds once for all rooms.
type Deps struct {
	Kafka   []kgo.Opt // base client options
	Prefix  string    // of topics and groups
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// Sender makes the attempts; nil = the HTTP transport. Tests inject faults here.
	Sender Sender
	// Disabled writes the audit record of an endpoint that this room has disabled; nil = nobody
	// wants to know. The change stands whatever it returns.
	Disabled func(ctx context.Context, before, after *endpoint.Endpoint) error
}
