package ingest

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// unreadable answers a request that fasthttp could not read to its end. The connection is
// closed afterwards.
func (s *Server) unreadable(ctx *fasthttp.RequestCtx, err error) {
	defer s.recoverPanic(ctx)
	var small *fasthttp.ErrSmallBuffer
	var netErr net.Error
	if conn, ok := ctx.Conn().(*tls.Conn); ok && !conn.ConnectionState().HandshakeComplete {
		s.metrics.handshakes.Inc()
		return // there is no channel to answer on
	}
	large := s.intake.leave(&ctx.Request.Header)
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		p := s.beforeBody(ctx)
		if p == nil {
			p = large.p
		}
		if p == nil && large.limit == 0 {
			_, large.limit, _ = s.sender(&ctx.Request.Header, time.Now())
		}
		if p == nil {
			p = tooLarge(large.limit)
		}
		swallow(ctx.Conn(), ctx.Request.Header.ContentLength())
		s.refuse(ctx, p)
	case errors.As(err, &small):
		swallow(ctx.Conn(), -1)
		s.refuse(ctx, errHeaderTooLarge)
	case errors.As(err, &netErr) && netErr.Timeout():
		s.refuse(ctx, errTimeout)
	default:
		s.refuse(ctx, errMalformed)
	}
}

// beforeBody is what the headers alone say of a request, so that a stranger with a large
// body is told 401 and not 413. After a chunked body that was too large fasthttp has reset
// the headers, which an empty host tells: a request without one is refused before.
func (s *Server) beforeBody(ctx *fasthttp.RequestCtx) *problem {
	if len(ctx.Request.Header.Host()) == 0 {
		return nil
	}
	op, p := s.find(ctx)
	if p != nil || op.door == nil {
		return p
	}
	return op.door(ctx)
}

// pathOf is the path of a request target as it was sent, in origin or absolute form.
func pathOf(target []byte) []byte {
	if i := bytes.IndexAny(target, "?#"); i >= 0 {
		target = target[:i]
	}
	if len(target) > 0 && target[0] == '/' {
		return target
	}
	if _, rest, ok := bytes.Cut(target, []byte("://")); ok {
		return rest[max(0, bytes.IndexByte(rest, '/')):]
	}
	return target
}

// expect decides about a body that its sender holds back ("Expect: 100-continue"), by the
// headers alone. fasthttp sends what is in the response, although it only asks for a status.
func (s *Server) expect(ctx *fasthttp.RequestCtx) int {
	if s.continues(ctx) {
		return fasthttp.StatusContinue
	}
	return ctx.Response.StatusCode()
}

func (s *Server) continues(ctx *fasthttp.RequestCtx) (yes bool) {
	defer s.recoverPanic(ctx)
	p := s.beforeBody(ctx)
	if p == nil {
		p = s.intake.refused(&ctx.Request.Header)
	}
	if p == nil {
		return true
	}
	s.intake.leave(&ctx.Request.Header) // no handler runs
	s.refuse(ctx, p)
	return false
}

const (
	swallowMost = 2 * maxBatchBody
	swallowTime = 500 * time.Millisecond
	swallowIdle = 100 * time.Millisecond
)

// swallow reads on, within bounds, what a client is still sending. Closing a connection with
// unread bytes in it resets it, and the client may then never see the answer. length is the
// declared length of the body, negative if unknown; part of it may already be read.
func swallow(conn net.Conn, length int) {
	end := time.Now().Add(swallowTime)
	buf := make([]byte, 16<<10)
	for total := 0; total < swallowMost && (length < 0 || total < length); {
		idle := time.Now().Add(swallowIdle)
		if idle.After(end) {
			idle = end
		}
		if conn.SetReadDeadline(idle) != nil {
			return
		}
		n, err := conn.Read(buf)
		total += n
		if err != nil {
			return
		}
	}
}
