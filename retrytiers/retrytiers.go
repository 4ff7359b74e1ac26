package retrytiers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/lane"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

// Deps are what the main builds once for all rooms.
type Deps struct {
	Kafka   []kgo.Opt // seeds, TLS, SASL, client id, logger, hooks
	Prefix  string    // of topics and groups, ends in a dot
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// Now is the clock that due times are compared with. Nil = time.Now.
	Now func() time.Time
}

// role names the consumer group and the part of the log lines.
const role = "retrytiers"

// spareAfter is how long a member without slots counts as joining; after it, it is a spare.
const spareAfter = 20 * time.Second

// stuckAfter is how long the loop may fail to come round. It sleeps at most a second.
const stuckAfter = 15 * time.Second

// Mover moves records from the retry topics to due. Make it with New; Run it once.
type Mover struct {
	cfg    Config
	log    *slog.Logger
	base   []kgo.Opt
	prefix string
	now    func() time.Time
	met    *metrics

	// Set by Run before any callback can come.
	reader         *lane.Reader
	member         *lane.Member
	producer       *kgo.Client
	adm            *kadm.Client
	deadPartitions int32

	commitMu sync.Mutex // held over a commit and while revoke ends ownership
	readerMu sync.Mutex // held while commands to the reader are queued
	mu       sync.Mutex // guards board and everything in it; never held over I/O
	board    *board

	wake chan struct{} // capacity 1; tells the loop that the board has changed
	stop context.CancelCauseFunc
	work context.Context // of everything that outlives the intake; set by Run
	wg   sync.WaitGroup  // goroutines of work

	started  atomic.Int64 // Unix ms, 0 = not running
	assigned atomic.Bool  // slots were assigned at least once
	lastPass atomic.Int64 // Unix ms

	produceLog, commitLog, trimLog, openLog throttle
}

// New checks the configuration and registers the metrics. It starts nothing.
func New(cfg Config, deps Deps) (*Mover, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("check retrytiers config: %w", err)
	}
	m := &Mover{
		cfg: cfg, log: deps.Log, base: deps.Kafka, prefix: deps.Prefix, now: deps.Now,
		met: newMetrics(), wake: make(chan struct{}, 1),
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	m.log = m.log.With("role", role)
	if m.now == nil {
		m.now = time.Now
	}
	if deps.Metrics != nil {
		if err := m.met.register(deps.Metrics, gauges{m}); err != nil {
			return nil, fmt.Errorf("register retrytiers metrics: %w", err)
		}
	}
	return m, nil
}

// Run joins the group and moves records until ctx is done. Then it stops admitting, waits at
// most FlushTimeout for what is with the producer, commits, leaves the group and returns
// nil. It returns an error when the topics do not fit the ladder, when a log ends before its
// commit, or when another process took the instance id.
func (m *Mover) Run(ctx context.Context) error {
	intake, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	work, cancelWork := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelWork()
	m.stop, m.work = stop, work

	if err := m.connect(); err != nil {
		return err
	}
	defer m.producer.Close()
	partitions, err := m.checkTopics(intake)
	if ctx.Err() != nil {
		return nil // stopped while the cluster was not reachable yet
	}
	if err != nil {
		return err
	}
	m.deadPartitions = partitions[tier.DeadSuffix]
	m.mu.Lock()
	m.board = newBoard(partitions[tier.DueSuffix], m.cfg.WheelRecords, m.cfg.WheelBytes)
	m.mu.Unlock()
	if err := m.openGroup(); err != nil {
		return err
	}

	m.started.Store(m.now().UnixMilli())
	defer m.started.Store(0)
	m.lastPass.Store(m.now().UnixMilli())
	m.wg.Go(func() {
		if err := m.reader.Run(work); err != nil {
			stop(fmt.Errorf("read slots: %w", err))
		}
	})
	m.wg.Go(func() { m.loop(work) })
	m.wg.Go(func() { m.commitLoop(work) })
	m.wg.Go(func() { m.trimLoop(work) })

	err = m.member.Run(intake) // blocks; a clean end has revoked every slot
	m.abandon()
	cancelWork()
	m.wg.Wait()
	if cause := context.Cause(intake); cause != nil && ctx.Err() == nil {
		return errors.Join(cause, err)
	}
	return err
}

// connect opens the producer, through which all requests without a group go as well.
func (m *Mover) connect() error {
	producer, err := kgo.NewClient(producerOpts(m.base, m.cfg.WheelRecords)...)
	if err != nil {
		return fmt.Errorf("open retrytiers producer: %w", err)
	}
	m.producer, m.adm = producer, kadm.NewClient(producer)
	return nil
}

// openGroup makes reader and member; neither does anything before its Run.
func (m *Mover) openGroup() (err error) {
	if m.reader, err = lane.NewReader(readerOpts(m.base), m.deliver, m.fetchFailed); err != nil {
		return err
	}
	m.member, err = lane.NewMember(lane.Config{
		Kafka:          m.base,
		Group:          event.GroupName(m.prefix, role),
		Topics:         m.retryTopics(),
		InstanceID:     m.cfg.InstanceID,
		KeepMembership: m.cfg.KeepMembership,
		Log:            m.log,
		Assigned:       m.onAssigned,
		Revoked:        m.onRevoked,
		Lost:           m.onLost,
	})
	return err
}

func (m *Mover) topic(suffix string) string { return m.prefix + suffix }

func (m *Mover) retryTopics() []string {
	var names []string
	for _, t := range m.cfg.Ladder.Topics() {
		names = append(names, t.Name(m.prefix))
	}
	return names
}

// checkTopics waits for the cluster and compares it with the ladder. A partition count that
// differs means that records wait under floors that we do not know.
func (m *Mover) checkTopics(ctx context.Context) (partitions map[string]int32, err error) {
	names := append(m.retryTopics(), m.topic(tier.DueSuffix), m.topic(tier.DeadSuffix))
	var details kadm.TopicDetails
	err = m.retry(ctx, "look up topics", func() error {
		details, err = m.adm.ListTopics(ctx, names...)
		return err
	})
	if err != nil {
		return nil, err
	}
	var errs []error
	partitions = make(map[string]int32)
	count := func(suffix string, want int32) {
		d := details[m.topic(suffix)]
		switch n := int32(len(d.Partitions)); {
		case d.Err != nil:
			errs = append(errs, fmt.Errorf("look up topic %s (run hookline topics create): %w", m.topic(suffix), d.Err))
		case n == 0:
			errs = append(errs, fmt.Errorf("topic %s is not there: run hookline topics create", m.topic(suffix)))
		case want > 0 && n != want:
			errs = append(errs, fmt.Errorf("topic %s has %d partitions, the ladder has %d slots: run hookline topics verify", m.topic(suffix), n, want))
		default:
			partitions[suffix] = n
		}
	}
	for _, t := range m.cfg.Ladder.Topics() {
		count(t.Suffix, t.Partitions)
	}
	count(tier.DueSuffix, 0)
	count(tier.DeadSuffix, 0)
	return partitions, errors.Join(errs...)
}

// Ready returns nil while slots are read and the loop comes round. A member that the group
// gives no slots is a spare and ready, too.
func (m *Mover) Ready() error {
	now := m.now().UnixMilli()
	started := m.started.Load()
	if started == 0 {
		return errors.New("retrytiers is not running")
	}
	if stuck := now - m.lastPass.Load(); stuck > stuckAfter.Milliseconds() {
		return fmt.Errorf("retrytiers loop has not come round for %d ms", stuck)
	}
	if !m.assigned.Load() && now-started < spareAfter.Milliseconds() {
		return errors.New("retrytiers is joining its group")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	opening := slices.IndexFunc(m.board.order, func(s *slot) bool { return s.ledger == nil || s.reopen })
	if opening >= 0 {
		s := m.board.order[opening]
		return fmt.Errorf("retrytiers is opening %s/%d", s.topic, s.partition)
	}
	return nil
}
