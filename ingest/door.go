package ingest

import (
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/hookline/hookline/ingest/event"
)

// admission is what the headers of a publish say, once they are found good.
type admission struct {
	caller         *caller
	form           form
	contentType    string // of each event
	encoding       encoding
	idempotencyKey []byte // aliases the request; nil = none given
	traceparent    []byte // aliases the request; nil = none given or malformed
}

// eventDoor is the door of a publish of one event.
func (s *Server) eventDoor(ctx *fasthttp.RequestCtx) (admission, *problem) {
	return s.door(ctx, oneForm, s.cfg.MaxBody)
}

// batchDoor is the door of a publish of many.
func (s *Server) batchDoor(ctx *fasthttp.RequestCtx) (admission, *problem) {
	return s.door(ctx, manyForm, maxBatchBody)
}

// door checks all of a publish that its headers tell, before anybody looks at the body. The
// body may not have arrived yet. limit bounds it, inflated.
func (s *Server) door(ctx *fasthttp.RequestCtx, forms func(*fasthttp.RequestHeader) (form, string, *problem), limit int) (admission, *problem) {
	h := &ctx.Request.Header
	var a admission
	var p *problem
	if a.form, a.contentType, p = forms(h); p != nil {
		return a, p
	}
	value, ok := single(h, fasthttp.HeaderContentEncoding)
	if a.encoding = encodingOf(value); !ok || a.encoding == unsupported {
		return a, errEncoding
	}
	if p = framing(h); p != nil {
		return a, p
	}
	value, ok = single(h, fasthttp.HeaderAuthorization)
	if a.caller = s.keys.Load().find(value); !ok || a.caller == nil {
		return a, errUnauthorized
	}
	if h.ContentLength() > maxWire(a.encoding, limit) {
		return a, tooLarge(limit)
	}
	if a.idempotencyKey, ok = single(h, headerIdempotencyKey); !ok || a.idempotencyKey != nil && !printable(a.idempotencyKey) {
		return a, errIdempotencyKey
	}
	if value, ok = single(h, event.HeaderTraceparent); ok && event.ValidTraceparent(aliased(value)) {
		a.traceparent = value
	}
	return a, nil
}

const headerIdempotencyKey = "Idempotency-Key"

// maxWire is how many bytes of a request's body are read. A compressed body that does not
// shrink is a little longer than what is in it.
func maxWire(enc encoding, limit int) int {
	if enc == identity {
		return limit
	}
	return limit + encodingSlack
}

const encodingSlack = 4 << 10

// single returns the only value of a header, nil if there is none, and false if there are
// two: two readers of the request might not take the same one.
func single(h *fasthttp.RequestHeader, name string) ([]byte, bool) {
	value := h.Peek(name)
	if value == nil {
		return nil, true
	}
	if all := h.PeekAll(name); len(all) > 1 {
		return nil, false
	}
	return value, true
}

// printable says whether v may be an idempotency key.
func printable(v []byte) bool {
	for _, c := range v {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return len(v) > 0 && len(v) <= 255
}

// equalFold is for ASCII names.
func equalFold(a []byte, b string) bool {
	return len(a) == len(b) && strings.EqualFold(string(a), b)
}
