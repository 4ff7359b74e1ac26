package ingest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/valyala/fasthttp"

	"github.com/hookline/hookline/ingest/event"
)

// Deps are what the main builds once for all rooms.
type Deps struct {
	// Kafka are the base client options: seeds, TLS, SASL, client id, logger, hooks.
	Kafka []kgo.Opt
	// Prefix begins the names of all topics, with its full stop.
	Prefix string
	Log    *slog.Logger
	// Metrics takes the room's metrics; nil keeps them unseen.
	Metrics prometheus.Registerer
	// Gatherer is what /metrics shows; nil is Metrics if that can be read, else nothing.
	Gatherer prometheus.Gatherer
	// BacklogAge tells how old the oldest event is that no dispatcher has finished. It is
	// asked on each request, so it must only look at a number. nil is never behind.
	BacklogAge func() time.Duration
	// Lookup answers what became of events; nil where nobody keeps it.
	Lookup Lookup
	// Listener is used in place of Config.Addr if it is set. Run closes it.
	Listener net.Listener
	// TLS makes the listener speak TLS; nil is plain HTTP. Its GetConfigForClient may give
	// each connection the certificate of the day.
	TLS *tls.Config
}

// Server takes events over HTTP and puts them into the events topic.
type Server struct {
	cfg        Config
	deps       Deps
	log        *slog.Logger
	topic      string
	keys       atomic.Pointer[keyring]
	inflater   *inflater // of single events
	batches    *batches
	sources    map[string]*provider // by name, never changed
	metrics    *metrics
	gatherer   prometheus.Gatherer
	backlogAge func() time.Duration
	intake     *intake
	routes     routeTable
	under      map[string]route // of routes, those with a free last segment
	http       *fasthttp.Server
	lookups    lookupGate
	scrapes    scrapes

	lookupFailures throttle

	producer atomic.Pointer[producer] // nil until the topic was seen
	leaving  atomic.Bool              // Run's context is done
	addr     atomic.Pointer[string]   // set once the listener is bound
	guard    atomic.Pointer[guard]    // set once the listener is bound
}

// New returns a server that does nothing yet.
func New(cfg Config, deps Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("check ingest settings: %w", err)
	}
	keys, err := parseKeys(cfg.APIKeys, cfg.Limit)
	if err != nil {
		return nil, fmt.Errorf("read API keys: %w", err)
	}
	s := &Server{cfg: cfg, deps: deps, log: deps.Log, topic: event.EventsTopic(0).Name(deps.Prefix), backlogAge: deps.BacklogAge, gatherer: deps.Gatherer}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.backlogAge == nil {
		s.backlogAge = func() time.Duration { return 0 }
	}
	reg := deps.Metrics
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	if s.gatherer == nil {
		s.gatherer, _ = reg.(prometheus.Gatherer)
	}
	if s.inflater, err = newInflater(cfg.MaxBody); err != nil {
		return nil, fmt.Errorf("make inflater: %w", err)
	}
	if s.batches, err = newBatches(); err != nil {
		return nil, fmt.Errorf("make inflater of batches: %w", err)
	}
	if s.metrics, err = newMetrics(reg); err != nil {
		return nil, fmt.Errorf("register ingest metrics: %w", err)
	}
	if s.sources, err = newSources(cfg.Sources); err != nil {
		return nil, err
	}
	s.put(keys)
	s.intake = newIntake(cfg)
	s.routes = s.table()
	s.under = s.routes.under()
	s.http = s.newHTTP()
	if err := errors.Join(s.gauges(reg), s.registerSources(reg)); err != nil {
		return nil, fmt.Errorf("register ingest metrics: %w", err)
	}
	return s, nil
}

// bodyPool keeps fasthttp from holding on to the buffers of the few large bodies. The
// setting is one of the process.
var bodyPool = sync.OnceFunc(func() { fasthttp.SetBodySizePoolLimit(bodyPoolLimit, bodyPoolLimit) })

const bodyPoolLimit = 64 << 10

// headerLimit is the size of a connection's read buffer and so of its request line and headers.
const headerLimit = 16 << 10

func (s *Server) newHTTP() *fasthttp.Server {
	bodyPool()
	return &fasthttp.Server{
		Handler:        s.serve,
		HeaderReceived: s.received,
		ErrorHandler:   s.unreadable,
		ExpectHandler:  s.expect,
		Logger:         quiet{s.log},

		ReadTimeout:  s.cfg.ReadTimeout,
		IdleTimeout:  s.cfg.IdleTimeout,
		WriteTimeout: s.cfg.WriteTimeout,
		// After an attack, the goroutines of its connections are not kept longer than a connection would be.
		MaxIdleWorkerDuration: min(10*time.Second, s.cfg.IdleTimeout),
		ReadBufferSize:        headerLimit,
		MaxRequestBodySize:    s.cfg.MaxBody + encodingSlack,
		Concurrency:           2 * s.cfg.MaxConnections, // the guard's bound is reached first: a worker outlives its connection by a moment

		CloseOnShutdown:              true, // a kept connection would hold the stop until its idle timeout
		DisablePreParseMultipartForm: true, // bodies are ours to read, and never forms
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		SecureErrorLogMessage:        true, // a parse error quotes the request
		LazyRequestTime:              true,
	}
}

// Addr is where the server listens, "" before Run has bound it.
func (s *Server) Addr() string {
	if a := s.addr.Load(); a != nil {
		return *a
	}
	return ""
}

// Ready says why the server takes no events now, nil if it does. A broker that stalls does
// not count: it stalls for all servers alike, and a 503 with its reason says more than a
// load balancer without targets.
func (s *Server) Ready() error {
	switch {
	case s.leaving.Load():
		return errors.New("the server is stopping")
	case s.producer.Load() == nil:
		return errors.New("the broker has not been reached yet")
	}
	return nil
}

// Run serves until ctx is done, then stops taking, answers what it has taken, flushes and
// returns nil. It returns an error at once when the listener fails or when the events topic
// is set to take less than MaxBody; while the broker or the topic is away it waits, not ready.
func (s *Server) Run(ctx context.Context) error {
	ln := s.deps.Listener
	if ln == nil {
		var err error
		if ln, err = net.Listen("tcp", s.cfg.Addr); err != nil {
			return fmt.Errorf("listen for publishers: %w", err)
		}
	}
	addr := ln.Addr().String()
	s.addr.Store(&addr)
	g := newGuard(ln, s.cfg, s.deps.TLS != nil, s.metrics, s.log)
	s.guard.Store(g)
	if ln = g; s.deps.TLS != nil {
		ln = tls.NewListener(g, s.deps.TLS)
	}
	served := make(chan error, 1) // the serving goroutine sends once
	go func() { served <- s.http.Serve(ln) }()

	client, err := s.connect(ctx, served)
	if err == nil && client != nil {
		defer client.Close()
		s.log.Info("ingest is ready", "addr", addr, "topic", s.topic)
		select {
		case <-ctx.Done():
		case err = <-served:
			err = fmt.Errorf("serve publishers: %w", orClosed(err))
		}
	}
	s.stop(ctx, client)
	return err
}

// orClosed is err, or the error of a listener that was closed under the server, which
// fasthttp reports as success.
func orClosed(err error) error {
	if err == nil {
		return net.ErrClosed
	}
	return err
}

// connect waits until the events topic is there and fit, and makes the producer. It returns
// nil and no error if ctx is done first.
func (s *Server) connect(ctx context.Context, served <-chan error) (*kgo.Client, error) {
	// A short age, since the client answers metadata requests from what it has that is younger.
	probe, err := kgo.NewClient(append(append([]kgo.Opt{}, s.deps.Kafka...), kgo.MetadataMinAge(100*time.Millisecond))...)
	if err != nil {
		return nil, fmt.Errorf("make kafka client: %w", err)
	}
	defer probe.Close()
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMaxInterval(2*time.Second), backoff.WithMaxElapsedTime(0))
	var muted throttle
	for {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		maxBatch, err := checkTopic(try, probe, s.topic, s.cfg.MaxBody)
		cancel()
		if errors.Is(err, errTopicTooSmall) {
			return nil, err
		}
		if err == nil {
			return s.produceTo(maxBatch)
		}
		if n, ok := muted.pass(time.Now()); ok && ctx.Err() == nil {
			s.log.Warn("ingest is not ready", "error", err, "like_it_since_last", n)
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case err := <-served:
			return nil, fmt.Errorf("serve publishers: %w", orClosed(err))
		case <-time.After(pause.NextBackOff()):
		}
	}
}

func (s *Server) produceTo(maxBatch int32) (*kgo.Client, error) {
	w := &wire{}
	opts := append(append([]kgo.Opt{}, s.deps.Kafka...), ProducerOptions(s.cfg, maxBatch)...)
	client, err := kgo.NewClient(append(opts, kgo.WithHooks(w))...)
	if err != nil {
		return nil, fmt.Errorf("make producing client: %w", err)
	}
	p := newProducer(client, s.topic, s.cfg, s.metrics, s.log)
	p.wire = w
	s.producer.Store(p)
	return client, nil
}

// flushTimeout is for records whose requests were answered with 504: nobody waits for them.
const flushTimeout = 5 * time.Second

// stop ends the intake, then the requests, then the producer: no request is dropped that was
// read, and none is answered before its event is in the log.
func (s *Server) stop(ctx context.Context, client *kgo.Client) {
	s.leaving.Store(true)
	if ctx.Err() != nil && s.cfg.LeaveDelay > 0 {
		<-time.After(s.cfg.LeaveDelay) // nothing can cut it short: a second signal ends the process
	}
	ctx = context.WithoutCancel(ctx)
	drain, cancel := context.WithTimeout(ctx, s.cfg.DrainTimeout)
	defer cancel()
	if err := s.http.ShutdownWithContext(drain); err != nil {
		s.log.Warn("connections are still open at the end of the drain", "error", err, "open", s.http.GetOpenConnectionsCount())
	}
	if client == nil {
		return
	}
	flush, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := client.Flush(flush); err != nil {
		s.log.Warn("events whose outcome no client was told are given up", "error", err, "events", client.BufferedProduceRecords())
	}
}

// quiet takes what fasthttp logs: connections that broke, none of it ours to act on. Only the
// form of a message is kept, since its parts quote what a client sent, SecureErrorLogMessage or not.
type quiet struct{ log *slog.Logger }

func (q quiet) Printf(format string, _ ...any) {
	q.log.Debug("connection of a publisher", "text", format)
}
