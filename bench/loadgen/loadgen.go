package loadgen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/valyala/fasthttp"
)

// Config of a run. It ends after Duration or Count, whichever comes first.
type Config struct {
	URL           string // of POST /v1/events, http only
	APIKey        string
	EventType     string
	Rate          float64 // events per second, 0 = closed loop
	Connections   int
	Duration      time.Duration // 0 = no limit
	Count         int           // 0 = no limit
	Size          int           // bytes of a body, at least about MinSize
	Messages      int           // distinct message ids, 0 = each event its own
	MessagePrefix string        // keeps the message ids of runs apart
	Keyed         bool          // send an Idempotency-Key with each post
	Batch         int           // events of a post, URL is then of POST /v1/events/batch; 0 = one, not a batch
	Timeout       time.Duration // of one post
}

// DefaultConfig is a closed loop of small events.
func DefaultConfig() Config {
	return Config{
		EventType: "message.delivered", Connections: 64, Duration: 10 * time.Second,
		Size: 256, MessagePrefix: "m-", Timeout: 10 * time.Second,
	}
}

// Validate reports every mistake at once.
func (c Config) Validate() error {
	var errs []error
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" || u.Port() == "" {
		errs = append(errs, fmt.Errorf("url %q: want http://HOST:PORT/PATH", c.URL))
	}
	if c.EventType == "" || c.MessagePrefix == "" {
		errs = append(errs, errors.New("event type and message prefix are required"))
	}
	if c.Connections < 1 || c.Rate < 0 || c.Size < 0 || c.Messages < 0 || c.Count < 0 || c.Batch < 0 || c.Timeout <= 0 {
		errs = append(errs, errors.New("connections and timeout must be positive; rate, size, messages, count and batch not negative"))
	}
	if c.Duration <= 0 && c.Count <= 0 {
		errs = append(errs, errors.New("duration or count is required"))
	}
	return errors.Join(errs...)
}

// Generator is one run. Progress may be read while it runs.
type Generator struct {
	cfg      Config
	client   *fasthttp.HostClient
	bodies   *Bodies
	next     atomic.Uint64
	accepted atomic.Int64
	started  time.Time
}

// New prepares a run and starts nothing.
func New(cfg Config) (*Generator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("load generator: %w", err)
	}
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("load generator: %w", err)
	}
	return &Generator{
		cfg:    cfg,
		bodies: NewBodies(cfg),
		client: &fasthttp.HostClient{
			Addr:                     u.Host,
			MaxConns:                 cfg.Connections,
			ReadTimeout:              cfg.Timeout,
			WriteTimeout:             cfg.Timeout,
			MaxIdleConnDuration:      time.Minute,
			NoDefaultUserAgentHeader: true,
			// One post is one post: a repeat would hide an unknown outcome.
			MaxIdemponentCallAttempts: 1,
			RetryIfErr:                func(*fasthttp.Request, int, error) (bool, bool) { return false, false },
		},
	}, nil
}

// Accepted is the number of 202s so far.
func (g *Generator) Accepted() int64 { return g.accepted.Load() }

// Run publishes until the end of the run or of ctx; an early end is no error. It may be
// called once.
func (g *Generator) Run(ctx context.Context) *Result {
	g.started = time.Now()
	logs := make([]*log, g.cfg.Connections)
	var wg sync.WaitGroup
	for i := range logs {
		logs[i] = newLog()
		w := &worker{g: g, log: logs[i]}
		wg.Go(func() { w.run(ctx) })
	}
	wg.Wait()
	ended := time.Now()
	g.client.CloseIdleConnections()
	return merge(logs, g.started, ended)
}

// worker is one connection.
type worker struct {
	g      *Generator
	log    *log
	body   []byte
	key    []byte
	hashes []uint64 // of the events of a batch
}

func (w *worker) run(ctx context.Context) {
	req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(res)
	req.Header.SetMethod(http.MethodPost)
	req.SetRequestURI(w.g.cfg.URL)
	post, step := w.post, uint64(1)
	req.Header.SetContentType("application/json")
	if w.g.cfg.Batch > 0 {
		post, step = w.postBatch, uint64(w.g.cfg.Batch)
		req.Header.SetContentType("application/x-ndjson")
	}
	req.Header.Set("Authorization", "Bearer "+w.g.cfg.APIKey)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		n := w.g.next.Add(step) - step
		if w.g.cfg.Count > 0 && n >= uint64(w.g.cfg.Count) {
			return
		}
		start, more := w.g.due(n)
		if !more || !sleepUntil(ctx, timer, start) {
			return
		}
		if !post(req, res, n, start) {
			// The server is away: leave it the core it needs to come back.
			if !sleepUntil(ctx, timer, time.Now().Add(20*time.Millisecond)) {
				return
			}
		}
	}
}

// due is the intended start of event n; false when the run is over by then.
func (g *Generator) due(n uint64) (time.Time, bool) {
	at := time.Now()
	if g.cfg.Rate > 0 {
		at = g.started.Add(time.Duration(float64(n) * float64(time.Second) / g.cfg.Rate))
	}
	return at, g.cfg.Duration <= 0 || at.Sub(g.started) < g.cfg.Duration
}

// sleepUntil waits for at and returns false when ctx ended first.
func sleepUntil(ctx context.Context, timer *time.Timer, at time.Time) bool {
	wait := time.Until(at)
	if wait <= 0 {
		return true
	}
	timer.Reset(wait)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// post sends event n and keeps what came of it; false when there was no answer.
func (w *worker) post(req *fasthttp.Request, res *fasthttp.Response, n uint64, start time.Time) bool {
	w.body = w.g.bodies.Append(w.body[:0], n, start)
	req.SetBodyRaw(w.body)
	w.setKey(req, n)
	w.log.sent++
	if err := w.g.client.Do(req, res); err != nil {
		w.log.errors[errorClass(err)]++
		return false
	}
	done := time.Now()
	w.log.byStatus[res.StatusCode()]++
	if res.StatusCode() != http.StatusAccepted {
		return true
	}
	id := cutID(res.Body())
	if len(id) == 0 {
		w.log.errors["no_id"]++
		return true
	}
	w.log.accept(id, entry{n: n, hash: xxhash.Sum64(w.body), start: start.UnixNano(), done: done.UnixNano()})
	w.g.accepted.Add(1)
	return true
}

func (w *worker) setKey(req *fasthttp.Request, n uint64) {
	if w.g.cfg.Keyed {
		w.key = strconv.AppendUint(append(w.key[:0], w.g.cfg.MessagePrefix...), n, 10)
		req.Header.SetBytesV("Idempotency-Key", w.key)
	}
}

var idKey = []byte(`"id":"`)

// cutID returns the id of an answer of POST /v1/events.
func cutID(body []byte) []byte {
	i := bytes.Index(body, idKey)
	if i < 0 {
		return nil
	}
	rest := body[i+len(idKey):]
	return rest[:max(0, bytes.IndexByte(rest, '"'))]
}
