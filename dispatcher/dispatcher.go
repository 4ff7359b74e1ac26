package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/dispatcher/lane"
	"github.com/hookline/hookline/dispatcher/sequence"
	"github.com/hookline/hookline/dispatcher/table"
	"github.com/hookline/hookline/ingest/event"
)

const (
	// proofAge is how old the proof of the endpoint view may be for targets to be decided.
	proofAge = time.Second
	// staleWindow is the age of an open slot at which the process is not ready any more.
	staleWindow = 60 * time.Second
)

// Dispatcher delivers the events of the lanes that its group assigns to it.
type Dispatcher struct {
	cfg       Config
	deps      Deps
	prefix    string
	log       *slog.Logger
	throttled *throttle
	metrics   *metrics
	registry  *endpoint.Registry
	gates     *gates
	permits   *permits
	sender    Sender
	openBytes atomic.Int64
	notices   chan notice // about breakers
	disabler  disabler

	// Set by Run before anything is assigned.
	topics     topics
	background context.Context // of produces: never cancelled, an outcome must become durable
	workCtx    context.Context // ends after the group was left
	scans      *kgo.Client     // reads for takeovers, admin requests
	copies     *kgo.Client     // retry copies, dead letters, window segments
	rows       *rowWriter
	view       *table.Table
	writer     *table.Writer // of endpoints, with the admin API
	states     *table.Table  // what other dispatchers say of breakers
	sequences  *sequence.Bases
	reader     *lane.Reader
	member     *lane.Member

	commitMu sync.Mutex // held by a commit under way and by whoever ends a lane

	mu    sync.RWMutex // guards lanes
	lanes map[int32]*partition

	running atomic.Bool
}

// New prepares a dispatcher; it starts nothing and opens no connection.
func New(cfg Config, deps Deps) (*Dispatcher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Worker == "" {
		cfg.Worker = cfg.InstanceID
	}
	d := &Dispatcher{
		cfg: cfg, deps: deps, prefix: deps.Prefix, log: deps.Log,
		registry: endpoint.NewRegistry(cfg.Keyring, endpoint.URLPolicy{HTTP: cfg.EgressHTTP, Allow: cfg.EgressAllow}),
		gates:    newGates(cfg.InFlight, cfg.EndpointInFlight), sender: deps.Sender,
		topics: newTopics(deps.Prefix), lanes: make(map[int32]*partition),
		background: context.Background(), notices: make(chan notice, noticeQueue),
	}
	d.throttled = newThrottle(deps.Log, 10*time.Second)
	d.permits = newPermits(cfg.InFlight, d.run)
	if d.sender == nil {
		d.sender = NewDeliverer(SendConfig{
			InFlight: cfg.InFlight, EgressAllow: cfg.EgressAllow, EgressHTTP: cfg.EgressHTTP, UserAgent: cfg.UserAgent,
		})
	}
	m, err := newMetrics(deps.Metrics, d)
	if err != nil {
		return nil, fmt.Errorf("register dispatcher metrics: %w", err)
	}
	d.metrics = m
	d.gates.changed = d.breakerChanged
	return d, nil
}

// Run joins the group and delivers until ctx is done; then it stops the intake, waits for
// what is in flight up to DrainTimeout, commits, leaves and returns nil. It returns
// lane.ErrFenced when another process took over the instance id.
func (d *Dispatcher) Run(ctx context.Context) error {
	workCtx, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	d.workCtx = workCtx
	closeClients, err := d.connect(ctx)
	if err != nil && ctx.Err() != nil {
		return nil // stopped while the cluster was not reachable yet
	}
	if err != nil {
		return err
	}
	defer closeClients()

	work, workCtx := errgroup.WithContext(workCtx)
	work.Go(func() error { return d.view.Run(workCtx) })
	work.Go(func() error { return d.states.Run(workCtx) })
	work.Go(func() error { return d.reader.Run(workCtx) })
	for _, loop := range []func(context.Context){d.commitLoop, d.pumpLoop, d.sweepLoop, d.trimLoop, d.segmentLoop, d.stableLoop, d.noticeLoop} {
		work.Go(func() error { loop(workCtx); return nil })
	}
	memberCtx, leave := context.WithCancel(ctx)
	defer leave()
	context.AfterFunc(workCtx, leave) // a loop that failed ends the membership, too
	d.running.Store(true)
	err = d.member.Run(memberCtx)
	d.running.Store(false)
	d.endAll()
	stopWork()
	return errors.Join(err, work.Wait())
}

// connect opens all clients and looks up the topics.
func (d *Dispatcher) connect(ctx context.Context) (_ func(), err error) {
	var opened []*kgo.Client
	closeAll := func() {
		for _, cl := range opened {
			cl.Close()
		}
	}
	open := func(opts []kgo.Opt) *kgo.Client {
		cl, openErr := kgo.NewClient(opts...)
		if openErr != nil {
			err = errors.Join(err, openErr)
			return nil
		}
		opened = append(opened, cl)
		return cl
	}
	d.scans = open(d.deps.Kafka)
	d.copies = open(producerOpts(d.deps.Kafka, 2*time.Millisecond))
	rows := open(producerOpts(d.deps.Kafka, 3*time.Millisecond))
	if err != nil {
		closeAll()
		return nil, fmt.Errorf("open kafka clients: %w", err)
	}
	adm := kadm.NewClient(d.scans)
	if err := d.topics.load(ctx, adm); err != nil {
		closeAll()
		return nil, err
	}
	d.rows = newRowWriter(d.background, rows, d.topics.attempts, d.topics.attemptsN)
	d.view, err = table.New(table.Config{
		Kafka: d.deps.Kafka, Topic: d.topics.endpoints, Log: d.log, OnChange: d.endpointChanged,
	})
	if err == nil { // the topic's name is the transactional id of all its writers
		d.writer, err = table.NewWriter(table.Config{Kafka: d.deps.Kafka, Topic: d.topics.endpoints, Log: d.log}, d.topics.endpoints)
	}
	if err == nil {
		d.states, err = table.New(table.Config{Kafka: d.deps.Kafka, Topic: d.topics.states, Log: d.log, OnChange: d.advised})
	}
	if err == nil {
		d.sequences, err = sequence.New(d.deps.Kafka, adm, d.topics.control, d.topics.events, d.log)
	}
	if err == nil {
		d.reader, err = lane.NewReader(readerOpts(d.deps.Kafka), d.deliver, d.readFailed)
	}
	if err == nil {
		d.member, err = lane.NewMember(lane.Config{
			Kafka: d.deps.Kafka, Group: event.GroupName(d.prefix, "dispatcher"), Topics: []string{d.topics.events},
			InstanceID: d.cfg.InstanceID, KeepMembership: d.cfg.KeepMembership, Log: d.log,
			Assigned: d.assigned, Revoked: d.revoked, Lost: d.lost,
		})
	}
	if err != nil {
		if d.writer != nil {
			d.writer.Close()
		}
		closeAll()
		return nil, err
	}
	return func() { d.sequences.Close(); d.writer.Close(); closeAll() }, nil
}

// Ready returns nil when every owned lane is being read, the endpoint view is proven and no
// slot is stuck.
func (d *Dispatcher) Ready() error {
	if !d.running.Load() {
		return errors.New("dispatcher is not running")
	}
	if !d.viewProven() {
		return errors.New("the view of the endpoints is not proven current")
	}
	for _, p := range d.owned() {
		p.mu.Lock()
		started, halted := p.started, p.fresh.halted || p.due.halted
		p.mu.Unlock()
		switch {
		case !started:
			return fmt.Errorf("lane %d is still being taken over", p.number)
		case halted:
			return fmt.Errorf("lane %d has lost its position", p.number)
		}
	}
	if age := d.windowAge(); age > staleWindow {
		return fmt.Errorf("a delivery has been open for %s", age.Round(time.Second))
	}
	return nil
}

// WaitApplied returns once this process decides by every change of the endpoints topic below
// the given offset.
func (d *Dispatcher) WaitApplied(ctx context.Context, offset int64) error {
	if !d.running.Load() {
		return errors.New("dispatcher is not running")
	}
	return d.view.WaitApplied(ctx, offset)
}

// endpointChanged is the OnChange of the endpoints' table. What is read before the view was
// first proven is history: an endpoint that was enabled then runs since.
func (d *Dispatcher) endpointChanged(id string, value []byte, offset int64) {
	was := d.registry.Get(id)
	d.registry.Apply(id, value, offset)
	is := d.registry.Get(id)
	if was != nil && is != nil && !was.Enabled && is.Enabled && !d.view.Proven().IsZero() {
		d.gates.enabled(id, time.Now())
	}
}

// viewProven reports whether targets may be decided now.
func (d *Dispatcher) viewProven() bool { return time.Since(d.view.Proven()) < proofAge }

func (d *Dispatcher) partition(number int32) *partition {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.lanes[number]
}

func (d *Dispatcher) owned() []*partition {
	d.mu.RLock()
	defer d.mu.RUnlock()
	out := make([]*partition, 0, len(d.lanes))
	for _, p := range d.lanes {
		out = append(out, p)
	}
	return out
}

func (d *Dispatcher) windowAge() time.Duration {
	now := time.Now()
	var oldest time.Duration
	for _, p := range d.owned() {
		oldest = max(oldest, p.age(now))
	}
	return oldest
}

// readAhead is how many deliveries of a stream may wait for their permit: enough to keep
// every permit busy, and no more, since a slot's deadline runs from when it was read.
func (d *Dispatcher) readAhead() int {
	return max(32, d.cfg.InFlight/max(1, int(d.topics.lanes)))
}

func (d *Dispatcher) addBytes(n int64) { d.openBytes.Add(n) }
func (d *Dispatcher) bytesFree() bool  { return d.openBytes.Load() < d.cfg.ProcessBytes }

// deliver gets polled records from the reader, one call at a time.
func (d *Dispatcher) deliver(topic string, number int32, recs []*kgo.Record) {
	if p := d.partition(number); p != nil {
		p.take(topic, recs)
	}
}
