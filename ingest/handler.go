package ingest

import (
	"runtime/debug"
	"strconv"
	"time"
	"unsafe"

	"github.com/valyala/fasthttp"

	"github.com/hookline/hookline/ingest/event"
)

// route is one path of the listener.
type route struct {
	methods map[string]func(*fasthttp.RequestCtx)
	allow   string // of a 405
}

// PathEvents is where a producer publishes one event.
const PathEvents = "/v1/events"

// routes is the whole table: exact paths, nothing else is answered.
func (s *Server) routeTable() map[string]route {
	read := func(fn func(*fasthttp.RequestCtx)) route {
		return route{allow: "GET, HEAD", methods: map[string]func(*fasthttp.RequestCtx){"GET": fn, "HEAD": fn}}
	}
	return map[string]route{
		PathEvents:      {allow: "POST", methods: map[string]func(*fasthttp.RequestCtx){"POST": s.publish}},
		"/healthz":      read(s.healthz),
		"/readyz":       read(s.readyz),
		"/metrics":      read(s.scrape),
		"/openapi.json": read(s.openapi),
	}
}

// serve is the handler of every request.
func (s *Server) serve(ctx *fasthttp.RequestCtx) {
	defer s.recoverPanic(ctx)
	handle, p := s.find(ctx)
	if p != nil {
		s.refuse(ctx, p)
		return
	}
	handle(ctx)
}

// find looks up the request in the table by the path as it was sent: fasthttp's own Path
// resolves "/x/../v1/events", and a proxy in front may not have seen it that way.
func (s *Server) find(ctx *fasthttp.RequestCtx) (func(*fasthttp.RequestCtx), *problem) {
	r, ok := s.routes[string(ctx.URI().PathOriginal())]
	if !ok {
		return nil, errNotFound
	}
	handle, ok := r.methods[string(ctx.Method())]
	if !ok {
		return nil, notAllowed(r.allow)
	}
	return handle, nil
}

// publish takes one event: headers, admission, body, fields, produce, answer.
func (s *Server) publish(ctx *fasthttp.RequestCtx) {
	now := time.Now()
	a, p := s.door(ctx)
	if p != nil {
		s.refuse(ctx, p)
		return
	}
	producer, p := s.admit(now)
	if p != nil {
		s.refuse(ctx, p)
		return
	}
	e := event.Event{AcceptedMs: now.UnixMilli()}
	if p := s.read(ctx, &a, &e); p != nil {
		s.refuse(ctx, p)
		return
	}
	at, p := producer.publish(&e, now)
	if p != nil {
		s.refuse(ctx, p)
		return
	}
	s.accept(ctx, &e, at)
	s.metrics.seconds.Observe(time.Since(now).Seconds())
	s.metrics.bodyBytes.Add(float64(len(e.Body)))
}

// admit returns the producer if something may be handed to it now.
func (s *Server) admit(now time.Time) (*producer, *problem) {
	producer := s.producer.Load()
	if producer == nil {
		return nil, errStarting
	}
	if p := producer.admit(now); p != nil {
		return nil, p
	}
	if s.cfg.MaxBacklogAge > 0 && s.backlogAge() > s.cfg.MaxBacklogAge {
		return nil, errBacklog
	}
	return producer, nil
}

// read fills in the event of a publish. Nothing in it aliases the request, whose memory the
// server uses again; its strings alias its body.
func (s *Server) read(ctx *fasthttp.RequestCtx, a *admission, e *event.Event) *problem {
	wire := ctx.Request.Body()
	if len(wire) == 0 {
		return errEmpty
	}
	var body, trace []byte
	if a.encoding == identity {
		if len(wire) > s.cfg.MaxBody {
			return tooLarge(s.cfg.MaxBody)
		}
		// One allocation for both; the event's body must not grow into its neighbour.
		own := make([]byte, 0, len(wire)+len(a.traceparent))
		own = append(append(own, wire...), a.traceparent...)
		body, trace = own[:len(wire):len(wire)], own[len(wire):]
	} else {
		var p *problem
		if body, p = s.inflater.inflate(a.encoding, wire); p != nil {
			return p
		}
		trace = append(trace, a.traceparent...)
	}
	fields, err := event.ParseBody(body)
	if err != nil {
		return badBody(err)
	}
	e.Type, e.MessageID, e.OccurredAt, e.Sequence, e.Schema = fields.Event, fields.MessageID, fields.OccurredAt, fields.Sequence, fields.Schema
	e.Source, e.Tenant, e.ContentType, e.Body = a.caller.source, a.caller.tenant, a.contentType, body
	e.Traceparent = unsafe.String(unsafe.SliceData(trace), len(trace))
	if a.idempotencyKey == nil {
		e.ID = event.NewID()
	} else {
		e.ID = event.DeriveID(e.Tenant, e.Type, e.MessageID, string(a.idempotencyKey))
	}
	return nil
}

// accept answers 202: the event is in the log.
func (s *Server) accept(ctx *fasthttp.RequestCtx, e *event.Event, at ack) {
	var stack [384]byte
	b := append(stack[:0], `{"id":`...)
	b = appendString(b, e.ID)
	b = append(b, `,"message_id":`...)
	b = appendString(b, e.MessageID)
	b = append(b, `,"partition":`...)
	b = strconv.AppendInt(b, int64(at.partition), 10)
	b = append(b, `,"offset":`...)
	b = strconv.AppendInt(b, at.offset, 10)
	b = append(b, '}')
	ctx.SetStatusCode(fasthttp.StatusAccepted)
	ctx.SetContentType("application/json")
	ctx.SetBody(b)
	s.metrics.answered(codeAccepted)
}

func (s *Server) refuse(ctx *fasthttp.RequestCtx, p *problem) {
	p.write(ctx)
	s.metrics.answered(p.code)
}

// recoverPanic answers 500 for a bug. Without it fasthttp would let the process die and with
// it every request in flight.
func (s *Server) recoverPanic(ctx *fasthttp.RequestCtx) {
	cause := recover()
	if cause == nil {
		return
	}
	s.metrics.panics.Inc()
	s.log.Error("request handler panicked", "cause", cause, "stack", string(debug.Stack()))
	s.refuse(ctx, errInternal)
	ctx.SetConnectionClose()
}
