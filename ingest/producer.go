package ingest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event"
)

// kafka is the part of *kgo.Client that a publish uses.
type kafka interface {
	TryProduce(ctx context.Context, r *kgo.Record, promise func(*kgo.Record, error))
}

// producer hands events to Kafka and waits for the acknowledgement, each in the goroutine
// of its request.
type producer struct {
	client   kafka
	topic    string
	timeout  time.Duration
	maxBytes int64 // what the client buffers
	maxWait  int64 // bytes that may wait, 80 % of it
	// stallAfter is the age of the oldest event at which the door is shut.
	stallAfter time.Duration

	wire    *wire
	stall   *stall
	waiting atomic.Int64 // bytes handed over and not finished
	metrics *metrics
	log     *slog.Logger
	muted   throttle
	waiters sync.Pool
}

func newProducer(cl kafka, topic string, cfg Config, m *metrics, log *slog.Logger) *producer {
	p := &producer{client: cl, topic: topic, timeout: cfg.AckTimeout, maxBytes: int64(cfg.MaxBufferedBytes), maxWait: int64(waitLimit(cfg)),
		wire: &wire{}, stall: newStall(cfg.StallAfter), stallAfter: cfg.StallAfter, metrics: m, log: log}
	p.waiters.New = func() any { return newWaiter(p) }
	return p
}

// ack is where the broker put an event.
type ack struct {
	partition int32
	offset    int64
}

// outgoing is one allocation for a record and its headers. It is never reused: the client
// may still hold a record of a request that failed.
type outgoing struct {
	record  kgo.Record
	headers [event.MaxHeaders]kgo.RecordHeader
}

// eventText is the room for what a record aliases beside body and trace context: the values of
// headers that are written out, and an id.
const eventText = event.HeaderText + 40

// recordOverhead is what an event takes in the client beside its body, for the admission. It
// is more than the headers of any event, and producerOptions bounds the records by it: what
// the admission lets through has room in the client.
const recordOverhead = 2 << 10

// admit says why nothing more may be handed over now, nil if it may. It must be called
// before each publish (see stall).
func (p *producer) admit(now time.Time, who *share) *problem {
	if p.waiting.Load() > p.maxWait {
		return errFull
	}
	if p.stall.stalled(now) {
		return errStalled
	}
	if p.greedy(who, now) {
		p.metrics.greedy.Inc()
		return errShare
	}
	return nil
}

// publish hands e to the producer and returns where the broker acknowledged it, or why not.
// It takes ownership of e.Body, of the memory of e's strings and of that behind text, to which
// it appends. The context of a request
// has no business here: a client that hangs up does not take its event back, and a cancelled
// record would break the sequence of the idempotent producer.
func (p *producer) publish(e *event.Event, text []byte, who *share, now time.Time) (ack, *problem) {
	out := &outgoing{}
	headers, _ := e.HeadersIn(out.headers[:0], text)
	out.record = kgo.Record{Topic: p.topic, Key: e.Key(), Value: e.Body, Headers: headers}
	w := p.waiters.Get().(*waiter)
	w.begin(now, who, int64(len(e.Body))+recordOverhead)
	p.client.TryProduce(context.Background(), &out.record, w.promise)
	a, err := w.wait(p.timeout)
	if err != nil {
		p.trouble(err)
		return ack{}, problemOf(err)
	}
	p.metrics.ackSeconds.Observe(time.Since(now).Seconds())
	return a, nil
}

// errNoAck is the error of a wait that ended before its promise was called.
var errNoAck = errors.New("no acknowledgement in time")

// trouble logs at most once a second: when a broker is away every request has the same news.
func (p *producer) trouble(err error) {
	if n, ok := p.muted.pass(time.Now()); ok {
		p.log.Warn("event was not acknowledged", "error", err, "topic", p.topic, "like_it_since_last", n)
	}
}

// throttle lets one of many equal log lines a second through. Safe for concurrent use.
type throttle struct {
	next  atomic.Int64 // Unix nanoseconds
	muted atomic.Int64
}

func (t *throttle) pass(now time.Time) (muted int64, ok bool) {
	next := t.next.Load()
	if now.UnixNano() < next || !t.next.CompareAndSwap(next, now.Add(time.Second).UnixNano()) {
		t.muted.Add(1)
		return 0, false
	}
	return t.muted.Swap(0), true
}

// waitLimit is how many bytes may wait for the broker: 80 % of what the client takes.
func waitLimit(cfg Config) int { return cfg.MaxBufferedBytes / 5 * 4 }

// ambiguousError is an error that does not say what became of the record, whatever its cause
// says of the last try.
type ambiguousError struct{ cause error }

func (e ambiguousError) Error() string { return "unknown outcome: " + e.cause.Error() }
func (e ambiguousError) Unwrap() error { return e.cause }

// errNoPlace is the outcome of a record that the broker calls a repeat of one that it has
// forgotten the place of. It should be in the log, but a 202 says where.
var errNoPlace = errors.New("the broker does not say where the event is")

// outcome is the error of a record that was handed over at the mark, as far as it proves
// anything. It is called within the promise, before the client does more.
func (p *producer) outcome(r *kgo.Record, err error, mark int64) error {
	if err == nil && r.Offset < 0 {
		err = ambiguousError{errNoPlace}
	}
	if err == nil || errors.Is(err, kgo.ErrMaxBuffered) || p.wire.once(mark) {
		return err
	}
	return ambiguousError{err}
}

// problemOf is the answer for an event whose outcome is err.
func problemOf(err error) *problem {
	var ambiguous ambiguousError
	switch {
	case errors.Is(err, kgo.ErrMaxBuffered):
		return errFull
	case errors.As(err, &ambiguous):
		return errUnknown
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return &problem{status: 413, code: codeTooLarge, detail: "the broker takes no message of this size; nothing was accepted"}
	case nothingAppended(err):
		return errRefused
	}
	return errUnknown
}

// waiter lets one request wait for one promise. Two hold it, the request and the promise;
// the last to let go puts it back into the pool, so the promise of a request that gave up
// finds its own waiter and not one that serves another request.
type waiter struct {
	p       *producer
	promise func(*kgo.Record, error) // w.finish, bound once
	timer   *time.Timer
	holders atomic.Int32
	done    chan struct{} // finish sends, wait receives; holds one

	// Written by begin, read by finish.
	slot  int64
	bytes int64
	mark  int64
	who   *share
	// Written by finish before it sends, read by wait after it received.
	ack ack
	err error
}

func newWaiter(p *producer) *waiter {
	w := &waiter{p: p, timer: time.NewTimer(time.Hour), done: make(chan struct{}, 1)}
	w.timer.Stop()
	w.promise = w.finish
	return w
}

func (w *waiter) begin(now time.Time, who *share, bytes int64) {
	w.holders.Store(2)
	w.slot, w.bytes, w.who, w.mark = w.p.stall.add(now), bytes, who, w.p.wire.mark()
	w.p.waiting.Add(bytes)
	who.wait(bytes)
}

// finish is the promise. The client calls it exactly once.
func (w *waiter) finish(r *kgo.Record, err error) {
	w.p.stall.done(w.slot)
	w.p.waiting.Add(-w.bytes)
	w.who.wait(-w.bytes)
	w.ack, w.err = ack{r.Partition, r.Offset}, w.p.outcome(r, err, w.mark)
	w.p.metrics.finished(w.err)
	w.done <- struct{}{}
	w.release()
}

// wait returns what finish was told, or errNoAck after the timeout.
func (w *waiter) wait(timeout time.Duration) (ack, error) {
	defer w.release()
	w.timer.Reset(timeout)
	select {
	case <-w.done:
		w.timer.Stop()
		return w.ack, w.err
	case <-w.timer.C:
		return ack{}, errNoAck
	}
}

func (w *waiter) release() {
	if w.holders.Add(-1) > 0 {
		return
	}
	select { // what finish sent after wait had given up
	case <-w.done:
	default:
	}
	w.err = nil
	w.p.waiters.Put(w)
}
