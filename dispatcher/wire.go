package dispatcher

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hookline/hookline/dispatcher/signature"
)

const headerTrace = "traceparent" // written as it is: the W3C form is lower case

// phases are the times of one attempt, in nanoseconds since its start, 0 = not reached. The
// transport's goroutines write them, some after the attempt has ended.
type phases struct {
	start time.Time

	dnsStart, dnsDone         atomic.Int64
	connectStart, connectDone atomic.Int64
	tlsStart, tlsDone         atomic.Int64
	gotConn, wrote, firstByte atomic.Int64
}

type phasesKey struct{}

// phasesOf returns the marks of the call that ctx belongs to; without one, marks that
// nobody reads.
func phasesOf(ctx context.Context) *phases {
	if ph, ok := ctx.Value(phasesKey{}).(*phases); ok {
		return ph
	}
	return &phases{start: time.Now()}
}

func (ph *phases) mark(at *atomic.Int64) { at.Store(max(1, int64(time.Since(ph.start)))) }

func (ph *phases) reset() {
	for _, at := range []*atomic.Int64{
		&ph.dnsStart, &ph.dnsDone, &ph.connectStart, &ph.connectDone, &ph.tlsStart, &ph.tlsDone,
		&ph.gotConn, &ph.wrote, &ph.firstByte,
	} {
		at.Store(0)
	}
}

// between is the time from one mark to a later one, 0 when either is missing.
func between(from, to *atomic.Int64) time.Duration {
	a, b := from.Load(), to.Load()
	if a == 0 || b < a {
		return 0
	}
	return time.Duration(b - a)
}

// call is everything of one attempt that can be used again: the header map with its values,
// the body's reader, the marks and the hooks. Reuse is allowed only when the transport is
// known to be done with all of it, see reusable.
type call struct {
	target *target
	req    *Request
	wall   func() time.Time // of the signature

	header http.Header
	values [fixedHeaders]string // backing of the one-element values in header
	keys   [maxActiveKeys]signature.Key
	sig    []byte
	second int64 // of the signature
	signs  int   // keys in use

	phases phases
	trace  httptrace.ClientTrace
	body   bodyReader
	again  func() (io.ReadCloser, error)

	conn      atomic.Pointer[heardConn] // of the last try; nil when it is none of ours
	reused    bool                      // the connection had carried a request before
	stale     atomic.Bool               // the answer was there before the request was written
	idle      bool                      // and it lay idle: no dial was begun for this attempt
	keepAlive bool                      // the answer was read to its clean end
	drained   []byte
}

// Places of the fixed headers in call.values.
const (
	valueID = iota
	valueTimestamp
	valueSignature
	valueAttempt
	valueSequence
	valueContentType
	valueTrace
	fixedHeaders
)

const drainBuffer = 4 << 10

func newCall(wall func() time.Time) *call {
	c := &call{wall: wall, header: make(http.Header, 16), drained: make([]byte, drainBuffer)}
	c.again = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.req.Body)), nil }
	c.trace = httptrace.ClientTrace{
		TLSHandshakeStart:    func() { c.phases.mark(&c.phases.tlsStart) },
		TLSHandshakeDone:     func(tls.ConnectionState, error) { c.phases.mark(&c.phases.tlsDone) },
		GotConn:              c.gotConn,
		WroteRequest:         c.wroteRequest,
		GotFirstResponseByte: c.gotFirstByte,
	}
	return c
}

// gotConn runs on the goroutine of RoundTrip, before the headers are written: a signature
// that grew old while the connection was made is made again here.
func (c *call) gotConn(info httptrace.GotConnInfo) {
	c.reused, c.idle = info.Reused, info.WasIdle
	conn := heardOf(info.Conn)
	if conn != nil {
		conn.begin()
	}
	c.conn.Store(conn)
	c.phases.mark(&c.phases.gotConn)
	c.sign()
}

// gotFirstByte runs on the goroutine that reads the connection, before it reads on.
func (c *call) gotFirstByte() {
	if conn := c.conn.Load(); conn != nil && !conn.answered() {
		c.stale.Store(true)
	}
	c.phases.mark(&c.phases.firstByte)
}

func (c *call) wroteRequest(info httptrace.WroteRequestInfo) {
	if info.Err == nil {
		c.phases.mark(&c.phases.wrote)
	}
}

// reusable reports whether the transport holds nothing of the call any more. HTTP/1.1 only:
// its write loop has then told that the request is written, and the connection lay idle
// before, so no dial in the background can still note times.
func (c *call) reusable(version int) bool {
	return version == 1 && c.keepAlive && c.reused && c.idle && c.phases.wrote.Load() != 0
}

// prepare fills a fresh or a used call. The signature is made now and, if a second has
// passed by then, again in gotConn.
func (c *call) prepare(t *target, req *Request, start time.Time) {
	c.target, c.req = t, req
	c.phases.reset()
	c.phases.start = start
	c.reused, c.idle, c.keepAlive = false, false, false
	c.conn.Store(nil)
	c.stale.Store(false)
	c.second, c.signs = 0, 0
	clear(c.header)
	for name, value := range t.header {
		c.header[name] = value
	}
	c.set(signature.HeaderID, valueID, req.EventID)
	c.set("Webhook-Attempt", valueAttempt, strconv.Itoa(req.Attempt))
	c.set("Webhook-Sequence", valueSequence, strconv.FormatUint(req.Seq, 10))
	c.set("Content-Type", valueContentType, contentType(req.ContentType))
	if req.Traceparent != "" && isVisible(req.Traceparent, maxTraceparent) {
		c.set(headerTrace, valueTrace, req.Traceparent)
	}
	c.set(signature.HeaderTimestamp, valueTimestamp, "")
	c.set(signature.HeaderSignature, valueSignature, "")
	c.signs = t.activeKeys(&c.keys, c.wall())
	c.sign()
	c.body.reset(req.Body)
}

func (c *call) set(name string, place int, value string) {
	c.values[place] = value
	c.header[name] = c.values[place : place+1 : place+1]
}

func (c *call) sign() {
	second := c.wall().Unix()
	if second == c.second {
		return
	}
	c.second = second
	c.sig = signature.AppendSign(c.sig[:0], c.keys[:c.signs], c.req.EventID, second, c.req.Body)
	c.values[valueSignature] = string(c.sig)
	c.values[valueTimestamp] = strconv.FormatInt(second, 10)
}

// release drops what must not be kept alive by the pool.
func (c *call) release() {
	c.target, c.req = nil, nil
	c.conn.Store(nil)
	clear(c.keys[:])
	c.body.reset(nil)
}

// drain reads a body to its end or to the limit and reports whether the end was clean.
func (c *call) drain(body io.Reader) (n int, err error) {
	for n <= maxAnswerBody {
		k, err := body.Read(c.drained)
		n += k
		if err == io.EOF { // bare by the contract of io.Reader
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	return n, errBodyTooLarge
}

var errBodyTooLarge = errors.New("body over the read limit")

// bodyReader gives the body to the transport once. It keeps no place for a copy: the bytes
// are the Kafka record's.
type bodyReader struct {
	r      bytes.Reader
	closed atomic.Bool
}

func (b *bodyReader) reset(body []byte) {
	b.r.Reset(body)
	b.closed.Store(false)
}

func (b *bodyReader) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.r.Read(p)
}

func (b *bodyReader) Close() error {
	b.closed.Store(true)
	return nil
}
