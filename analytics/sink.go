package analytics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/lane"
	"github.com/hookline/hookline/dispatcher/sequence"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

// Deps are what the main builds once for all rooms.
type Deps struct {
	Kafka   []kgo.Opt // seeds, TLS, SASL, client id, logger, hooks
	Prefix  string    // of topics and groups, ends in a dot
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// ClickHouse is the connection pool, made with clickhouse.Open for at least
	// Config.Inserts + 1 connections. The caller closes it after Run.
	ClickHouse driver.Conn
	// OnlyTenant owns the records of events that name none, as for the dispatcher; nil or "" =
	// there are several, and such a record gives no row.
	OnlyTenant func() string
}

// role names the consumer group and the part of the log lines.
const role = "analytics"

// spareAfter is how long a member without partitions counts as joining; after it, it is a spare.
const spareAfter = 20 * time.Second

// lagInterval is how often the ends of the logs are asked for.
const lagInterval = 5 * time.Second

// Sink moves records from Kafka to ClickHouse. Make it with New; Run it once.
type Sink struct {
	cfg    Config
	deps   Deps
	log    *slog.Logger
	met    *metrics
	limits limits

	server  *server
	memory  *memory
	slots   *slots
	limiter *rate.Limiter
	pools   map[string]*pool         // by suffix of the topic
	inserts map[string]*atomic.Int64 // by table, of this process

	// Set by Run before any callback can come.
	client    *kgo.Client // for requests without a group
	adm       *kadm.Client
	reader    *lane.Reader
	member    *lane.Member
	committer *committer
	sequences *sequence.Bases
	stop      context.CancelCauseFunc
	working   context.Context // of the feeds
	wg        sync.WaitGroup

	readerMu sync.Mutex // held while commands to the reader are queued
	mu       sync.Mutex // guards feeds
	feeds    map[place]*feed

	started  atomic.Int64 // Unix ms, 0 = not running
	assigned atomic.Bool  // partitions were assigned at least once

	badLog, commitLog, insertLog, openLog throttle

	hook func(point) // tests die here
}

// point is a place between two steps whose order matters.
type point string

const (
	pointBeforeIntent point = "before-intent"
	pointBeforeInsert point = "before-insert"
	pointBeforeCommit point = "before-commit"
	pointAfterCommit  point = "after-commit"
)

func (s *Sink) point(p point) {
	if s.hook != nil {
		s.hook(p)
	}
}

// New checks the configuration and registers the metrics. It starts nothing.
func New(cfg Config, deps Deps) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("check analytics config: %w", err)
	}
	if deps.ClickHouse == nil {
		return nil, errors.New("analytics needs a ClickHouse connection")
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	s := &Sink{
		cfg: cfg, deps: deps, log: deps.Log.With("role", role), met: newMetrics(),
		limits: limits{rows: cfg.BatchRows, bytes: cfg.BatchBytes},
		memory: newMemory(cfg.MemoryBytes), slots: newSlots(cfg.Inserts),
		limiter: rate.NewLimiter(rate.Limit(cfg.InsertRate), max(1, int(cfg.InsertRate))),
		pools: map[string]*pool{
			attempt.Suffix:     newPool(attempts{}, cfg.Inserts),
			event.EventsSuffix: newPool(&events{only: deps.OnlyTenant}, cfg.Inserts),
			tier.DeadSuffix:    newPool(dead{}, cfg.Inserts),
		},
		inserts: make(map[string]*atomic.Int64), feeds: make(map[place]*feed),
	}
	for _, t := range tables {
		s.inserts[t] = &atomic.Int64{}
	}
	s.server = newServer(deps.ClickHouse, &s.cfg, s.met, s.log)
	if deps.Metrics != nil {
		if err := s.met.register(deps.Metrics, gauges{s}); err != nil {
			return nil, fmt.Errorf("register analytics metrics: %w", err)
		}
	}
	return s, nil
}

// Run joins the group and streams until ctx is done. Then it lets inserts that run end, at most
// RevokeTimeout, commits them, leaves the group and returns nil. What was collected and not
// inserted is read again by the next owner. Trouble with ClickHouse ends nothing: rows wait in
// Kafka. It returns an error when another process took the instance id or a topic was made anew.
func (s *Sink) Run(ctx context.Context) error {
	intake, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	work, cancelWork := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelWork()
	s.stop, s.working = stop, work
	closeAll, err := s.connect()
	if err != nil {
		return err
	}
	defer closeAll()
	s.started.Store(time.Now().UnixMilli())
	defer s.started.Store(0)
	s.wg.Go(func() {
		if err := s.reader.Run(work); err != nil {
			stop(fmt.Errorf("read the topics of analytics: %w", err))
		}
	})
	s.wg.Go(func() { s.server.run(work) })
	s.wg.Go(func() { s.committer.run(work) })
	s.wg.Go(func() { s.lagLoop(work) })

	err = s.member.Run(intake) // blocks; a clean end has revoked every partition
	s.abandon()
	cancelWork()
	s.wg.Wait()
	if cause := context.Cause(intake); cause != nil && ctx.Err() == nil {
		return errors.Join(cause, err)
	}
	return err
}

// connect makes the clients; the group is joined by member.Run.
func (s *Sink) connect() (closeAll func(), err error) {
	if s.client, err = kgo.NewClient(adminOpts(s.deps.Kafka)...); err != nil {
		return nil, fmt.Errorf("open analytics client: %w", err)
	}
	s.adm = kadm.NewClient(s.client)
	control, eventsTopic := s.deps.Prefix+tier.ControlSuffix, s.deps.Prefix+event.EventsSuffix
	if s.sequences, err = sequence.New(s.deps.Kafka, s.adm, control, eventsTopic, s.log); err != nil {
		s.client.Close()
		return nil, err
	}
	closeAll = func() { s.sequences.Close(); s.client.Close() }
	if s.reader, err = lane.NewReader(readerOpts(s.deps.Kafka, s.cfg.BatchBytes), s.deliver, s.fetchFailed); err == nil {
		s.member, err = lane.NewMember(lane.Config{
			Kafka:          s.deps.Kafka,
			Group:          event.GroupName(s.deps.Prefix, role),
			Topics:         s.topics(),
			InstanceID:     s.cfg.InstanceID,
			KeepMembership: s.cfg.KeepMembership,
			Log:            s.log,
			Assigned:       s.onAssigned,
			Revoked:        s.onRevoked,
			Lost:           s.onLost,
		})
	}
	if err != nil {
		closeAll()
		return nil, err
	}
	s.committer = newCommitter(s.member)
	return closeAll, nil
}

// lagLoop asks for the ends of the logs.
func (s *Sink) lagLoop(ctx context.Context) {
	for sleep(ctx, nil, lagInterval) {
		asked, cancel := context.WithTimeout(ctx, requestTimeout)
		ends, err := s.adm.ListCommittedOffsets(asked, s.topics()...)
		cancel()
		if err != nil {
			continue // the gauge keeps its value; commits and fetches tell of a cluster that is away
		}
		for _, f := range s.owned() {
			if end, ok := ends.Lookup(f.topic, f.partition); ok && end.Err == nil {
				f.ends(end.Offset)
			}
		}
	}
}

// Leads says whether this process is the one of its group for what one alone should do: it owns the
// first partition of attempts, or cannot know yet who does.
func (s *Sink) Leads() bool {
	return !s.assigned.Load() || s.feed(s.deps.Prefix+attempt.Suffix, 0) != nil
}

// Ready returns nil while partitions are read. A server that is away is no reason not to be ready,
// since rows wait in Kafka; tables or rights that an operator has to heal are. A member that the
// group gives no partitions is a spare and ready, too.
func (s *Sink) Ready() error {
	started := s.started.Load()
	if started == 0 {
		return errors.New("analytics is not running")
	}
	tried, trouble := s.server.state()
	switch {
	case !tried:
		return errors.New("analytics is looking at ClickHouse")
	case trouble != nil:
		return fmt.Errorf("analytics cannot use ClickHouse: %w", trouble)
	case !s.assigned.Load() && time.Now().UnixMilli()-started < spareAfter.Milliseconds():
		return errors.New("analytics is joining its group")
	}
	for _, f := range s.owned() {
		if err := f.health(); err != nil {
			return err
		}
	}
	return nil
}
