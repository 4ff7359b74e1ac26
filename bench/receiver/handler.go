package receiver

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/valyala/fasthttp"

	"github.com/hookline/hookline/dispatcher/signature"
)

// serve is the hot path: record, then answer.
func (r *Receiver) serve(ctx *fasthttp.RequestCtx) {
	p := r.lookup(ctx.Path())
	if p == nil || !ctx.IsPost() {
		r.strays.Add(1)
		ctx.SetStatusCode(fasthttp.StatusNotFound)
		return
	}
	req, answer := r.record(p, ctx)
	if r.cfg.OnRequest != nil {
		full := req.request()
		r.cfg.OnRequest(&full)
	}
	if answer.Delay > 0 && !r.pause(answer.Delay) {
		ctx.SetConnectionClose()
	}
	switch {
	case answer.Hang:
		ctx.HijackSetNoResponse(true)
		ctx.Hijack(r.hang)
	case answer.Reset:
		reset(ctx.Conn())
	default:
		ctx.SetStatusCode(int(req.status))
		if answer.RetryAfter != "" {
			ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, answer.RetryAfter)
		}
		ctx.SetBodyString(answer.Body)
	}
}

// record checks the request, decides its answer and keeps it.
func (r *Receiver) record(p *path, ctx *fasthttp.RequestCtx) (stored, *Answer) {
	body := ctx.PostBody()
	h := &ctx.Request.Header
	id, message := h.Peek(signature.HeaderID), MessageID(body)
	req := stored{path: p, bodyHash: xxhash.Sum64(body)}
	attempt, okA := digits(h.Peek("Webhook-Attempt"))
	timestamp, okT := digits(h.Peek(signature.HeaderTimestamp))
	sequence, okS := digits(h.Peek("Webhook-Sequence"))
	req.attempt, req.timestamp, req.sequence = uint16(attempt), int64(timestamp), sequence
	now := time.Now()
	if keys := p.keys.Load(); keys != nil {
		req.check = Valid
		if signatureLines(h) != 1 || signature.Verify(*keys, signature.Signed{
			ID: string(id), Timestamp: string(h.Peek(signature.HeaderTimestamp)),
			Signature: string(h.Peek(signature.HeaderSignature)), Body: body,
		}, now, signature.Tolerance) != nil {
			req.check = Invalid
			p.badSignature.Add(1)
		}
		if !okA || !okT || !okS || attempt == 0 || len(h.ContentType()) == 0 {
			p.badHeaders.Add(1)
		}
	}
	if r.cfg.KeepBodies {
		req.body = bytes.Clone(body)
	}
	s := p.script.Load()
	sh := r.store.shardOf(message, id)
	sh.mu.Lock()
	req.id, req.message = sh.keepLocked(id), sh.keepLocked(message)
	nth := 0
	if s.counts() {
		nth = sh.nthLocked(p, req.id)
	}
	answer := s.pick(req.id, nth, now)
	if !answer.Hang && !answer.Reset {
		req.status = uint16(answer.Status)
		if answer.Status == 0 {
			req.status = fasthttp.StatusOK
		}
	}
	req.at = time.Now().UnixNano() // under the lock: one message's arrivals are in order
	sh.appendLocked(req)
	sh.mu.Unlock()
	p.requests.Add(1)
	if req.status/100 == 2 {
		p.ok.Add(1)
	}
	return req, answer
}

// signatureLines counts header lines: the reference libraries read only the first.
func signatureLines(h *fasthttp.RequestHeader) int { return len(h.PeekAll(signature.HeaderSignature)) }

// pause waits for d and returns false when the receiver closes first.
func (r *Receiver) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.closing:
		return false
	}
}

// hang keeps a connection without answering until the peer or the receiver closes it.
func (r *Receiver) hang(c net.Conn) {
	if u, ok := c.(interface{ UnsafeConn() net.Conn }); ok {
		c = u.UnsafeConn() // Close of the wrapper does nothing before this function returns
	}
	if !r.track(c) {
		return
	}
	defer r.untrack(c)
	_, _ = io.Copy(io.Discard, c)
}

// reset makes the kernel send RST instead of FIN. The server then fails to write its
// answer and drops the connection.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

var messageIDKey = []byte(`"message_id":"`)

// MessageID cuts the message id out of a body as the load generator writes it: no space
// after the colon, nothing escaped. Other bodies give nil.
func MessageID(body []byte) []byte {
	i := bytes.Index(body, messageIDKey)
	if i < 0 {
		return nil
	}
	rest := body[i+len(messageIDKey):]
	end := bytes.IndexByte(rest, '"')
	if end < 0 {
		return nil
	}
	return rest[:end]
}

func digits(b []byte) (uint64, bool) {
	if len(b) == 0 || b[0] == '+' || b[0] == '-' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b), 10, 64)
	return n, err == nil
}
