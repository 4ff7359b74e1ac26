package dispatcher

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"sync"
	"time"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/endpoint"
)

// drainGrace is how long an answer whose status is already a success may keep its slot for
// the rest of its body. The deadline of the attempt ends it too.
const drainGrace = time.Second

// Sender makes one attempt. Send blocks until the outcome is known or ctx or the attempt's
// own deadline ends it; it is safe for concurrent use.
type Sender interface {
	Send(ctx context.Context, req *Request) Result
}

// Request is one attempt of one delivery. Body is read by the transport's goroutines, maybe
// still after Send has returned: it must never be written to or used again.
type Request struct {
	Endpoint    *endpoint.Endpoint // a version from a Snapshot; not nil
	EventID     string
	Attempt     int // from 1
	Seq         uint64
	ContentType string // empty = application/json
	Traceparent string // empty = none
	Body        []byte
	Timeout     time.Duration // over everything; 0 = the endpoint's
}

// Result is what one attempt showed.
type Result struct {
	// Status is the final HTTP status, 0 = none. 2xx is a delivery whatever happened to the
	// body afterwards.
	Status int
	// Err is set when there is no usable status. Its text is ErrorText.
	Err error
	// ErrorClass is one of the classes of dispatcher/attempt, empty for a delivery.
	ErrorClass string
	// ErrorText is the class and what can be told beside it: at most 512 bytes, without
	// path, query, user or secret, and without a byte of what the endpoint answered.
	ErrorText string
	// RetryAfter is what the endpoint asked for with a failure, 0 = nothing; at most 24 h.
	RetryAfter time.Duration
	// Anomaly is the class of a fault behind a success: the body was cut, stalled or too
	// large. It changes nothing about the outcome.
	Anomaly string

	DNS, Connect, TLS time.Duration // of a connection made for this attempt
	TTFB              time.Duration // connection ready to first byte of the answer
	Total             time.Duration
	Reused            bool
	HTTPVersion       string // "1.0", "1.1", "2"; empty = no answer
	RequestBytes      uint32 // of the body
	ResponseBytes     uint32 // of the body, as far as it was read
}

// Success reports whether the attempt ended the delivery.
func (r *Result) Success() bool { return r.Status >= 200 && r.Status <= 299 }

// Ours reports that the attempt failed on our side, by our stop or for lack of a local
// resource: it says nothing about the endpoint and should not count as an attempt.
func (r *Result) Ours() bool {
	return r.ErrorClass == attempt.Cancelled || r.ErrorClass == attempt.Internal
}

// SendConfig is what a Deliverer needs.
type SendConfig struct {
	InFlight    int            // attempts under way in the process: so many connections may lie idle per host
	EgressAllow []netip.Prefix // private networks that may be reached
	EgressDeny  []netip.Prefix // public ones that may not: our own broker, ingest, admin
	EgressHTTP  bool           // http:// URLs may be sent to
	UserAgent   string
	Resolver    Resolver       // nil = the system's configuration, read by the pure Go resolver
	Roots       *x509.CertPool // nil = the system's
}

// Deliverer is the Sender that speaks HTTP. It starts no goroutine of its own.
type Deliverer struct {
	http       bool
	targets    *targets
	transports *transports
	calls      sync.Pool // *call
	// pick chooses the transport of a host, wall tells the time of a signature; tests put
	// their own here.
	pick func(host string, now time.Time) http.RoundTripper
	wall func() time.Time
}

// NewDeliverer makes a Deliverer.
func NewDeliverer(cfg SendConfig) *Deliverer {
	guard := NewGuard(cfg.EgressAllow, cfg.EgressDeny, cfg.Resolver)
	d := &Deliverer{
		http:       cfg.EgressHTTP,
		targets:    newTargets(cfg.UserAgent),
		transports: newTransports(guard.DialContext, cfg.Roots, max(cfg.InFlight, 1)),
	}
	d.pick, d.wall = d.transports.pick, time.Now
	d.calls.New = func() any { return newCall(d.wall) }
	return d
}

// Close ends the idle connections. Attempts under way go on.
func (d *Deliverer) Close() { d.transports.close() }

// Send makes one attempt: one POST, never repeated by itself but where the transport knows
// that not a byte of it was sent.
func (d *Deliverer) Send(ctx context.Context, req *Request) Result {
	start := time.Now()
	t := d.targets.of(req.Endpoint)
	if t.err != nil {
		return ourFault(start, t.err)
	}
	if t.base.URL.Scheme != "https" && !d.http {
		return refusal(start, &Blocked{Reason: "http is switched off"})
	}
	timeout := req.Timeout
	if timeout <= 0 {
		timeout = time.Duration(req.Endpoint.Timeout)
	}
	within, cancel := context.WithDeadline(ctx, start.Add(timeout))
	defer cancel()

	c := d.calls.Get().(*call)
	c.prepare(t, req, start)
	if c.signs == 0 {
		return ourFault(start, errors.New("every signing key has ended"))
	}
	answer, err := d.pick(t.base.URL.Host, start).RoundTrip(c.request(within))
	if err != nil {
		return c.failed(ctx, err)
	}
	result := c.read(answer, cancel, start)
	if c.reusable(answer.ProtoMajor) {
		c.release()
		d.calls.Put(c)
	}
	return result
}

// request builds the HTTP request of a prepared call.
func (c *call) request(ctx context.Context) *http.Request {
	trace := &c.trace
	if httptrace.ContextClientTrace(ctx) != nil {
		own := c.trace // WithClientTrace would chain the caller's hooks into ours for good
		trace = &own
	}
	ctx = context.WithValue(ctx, phasesKey{}, &c.phases)
	r := c.target.base.WithContext(httptrace.WithClientTrace(ctx, trace))
	r.Header = c.header
	if len(c.req.Body) == 0 {
		r.Body = http.NoBody
		return r
	}
	r.ContentLength = int64(len(c.req.Body))
	r.Body = &c.body
	// Lets the transport try another connection when the one it took from the pool turned
	// out closed before a byte was written. A POST is not sent twice for it.
	r.GetBody = c.again
	return r
}

// read takes the answer in, as far as its limits go.
func (c *call) read(answer *http.Response, cancel context.CancelFunc, start time.Time) Result {
	r := c.result()
	r.Status = answer.StatusCode
	r.HTTPVersion = httpVersion(answer.ProtoMajor, answer.ProtoMinor)
	switch {
	case answer.ProtoMajor == 1 && c.stale.Load():
		_ = answer.Body.Close()
		_ = c.conn.Load().Close() // what comes on it next is the answer to this request
		r.Status = 0
		fail(&r, attempt.Protocol, "the answer was there before the request", errNotOurs)
	case r.Status < 100: // net/http takes any three digits
		_ = answer.Body.Close()
		r.Status = 0
		fail(&r, attempt.Protocol, "the answer has no status", errNoStatus)
	case r.Status < 200:
		// 101 hands the connection over; its body would never end. Others do not come here.
		_ = answer.Body.Close()
	default:
		c.readBody(answer, &r, cancel)
	}
	if !r.Success() && r.Err == nil {
		r.ErrorClass = classOfStatus(r.Status)
		r.ErrorText = statusText(r.ErrorClass, r.Status)
		r.RetryAfter = retryAfter(answer.Header["Retry-After"], time.Now())
	}
	r.Total = time.Since(start)
	return r
}

var errNotOurs = errors.New("bytes left over from an earlier answer")

var errNoStatus = errors.New("answer without a status")

func (c *call) readBody(answer *http.Response, r *Result, cancel context.CancelFunc) {
	if r.Success() && answer.Body != http.NoBody {
		timer := time.AfterFunc(drainGrace, cancel)
		defer timer.Stop()
	}
	n, err := c.drain(answer.Body)
	r.ResponseBytes = uint32(n)
	c.keepAlive = err == nil
	_ = answer.Body.Close() // before the end of the body this ends the connection
	if err != nil && r.Success() {
		r.Anomaly = anomalyOf(err)
	}
}

// result is what the marks of a call tell.
func (c *call) result() Result {
	ph := &c.phases
	r := Result{Reused: c.reused, RequestBytes: uint32(len(c.req.Body)), TTFB: between(&ph.gotConn, &ph.firstByte)}
	if !c.reused {
		r.DNS = between(&ph.dnsStart, &ph.dnsDone)
		r.Connect = between(&ph.connectStart, &ph.connectDone)
		r.TLS = between(&ph.tlsStart, &ph.tlsDone)
	}
	return r
}

// failed is the result of an attempt without an answer. The call is not used again: the
// transport may still hold it.
func (c *call) failed(parent context.Context, err error) Result {
	r := c.result()
	class, detail := classify(parent, err, &c.phases, c.target.base.URL.Host)
	fail(&r, class, detail, err)
	r.Total = time.Since(c.phases.start)
	return r
}

func ourFault(start time.Time, err error) Result {
	r := Result{Total: time.Since(start)}
	fail(&r, attempt.Internal, err.Error(), err)
	return r
}

func refusal(start time.Time, blocked *Blocked) Result {
	r := Result{Total: time.Since(start)}
	fail(&r, attempt.BlockedSSRF, blocked.Error(), blocked)
	return r
}

func httpVersion(major, minor int) string {
	switch {
	case major == 2:
		return "2"
	case major == 1 && minor == 0:
		return "1.0"
	default:
		return "1.1"
	}
}
