package ingest

import (
	"runtime/debug"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/hookline/hookline/ingest/event"
)

// serve is the handler of every request.
func (s *Server) serve(ctx *fasthttp.RequestCtx) {
	defer s.recoverPanic(ctx)
	defer s.intake.leave(&ctx.Request.Header)
	op, p := s.find(ctx)
	if p != nil {
		s.refuse(ctx, p)
		return
	}
	op.serve(ctx)
}

// publish takes one event: headers, admission, body, fields, produce, answer.
func (s *Server) publish(ctx *fasthttp.RequestCtx) {
	now := time.Now()
	a, p := s.eventDoor(ctx)
	if p != nil {
		s.refuse(ctx, p)
		return
	}
	producer, p := s.admit(now, a.caller.share)
	if p == nil {
		p = a.caller.bucket.take(now)
	}
	if p != nil {
		s.refuse(ctx, p)
		return
	}
	e := event.Event{AcceptedMs: now.UnixMilli()}
	text, p := s.read(ctx, &a, &e)
	if p != nil {
		s.refuse(ctx, p)
		return
	}
	at, p := producer.publish(&e, text, a.caller.share, now)
	if p != nil {
		s.refuse(ctx, p)
		return
	}
	s.accept(ctx, &e, at)
	s.metrics.seconds.Observe(time.Since(now).Seconds())
	s.metrics.bodyBytes.Add(float64(len(e.Body)))
}

// admit returns the producer if something may be handed to it now.
func (s *Server) admit(now time.Time, who *share) (*producer, *problem) {
	producer := s.producer.Load()
	if producer == nil {
		return nil, errStarting
	}
	if p := producer.admit(now, who); p != nil {
		return nil, p
	}
	if s.cfg.MaxBacklogAge > 0 && s.backlogAge() > s.cfg.MaxBacklogAge {
		return nil, errBacklog
	}
	return producer, nil
}

// read takes the body of a publish and fills in the event. Nothing in it aliases the request,
// whose memory the server uses again; its strings alias its body. What it returns is for the
// record: memory behind the body that is still free.
func (s *Server) read(ctx *fasthttp.RequestCtx, a *admission, e *event.Event) ([]byte, *problem) {
	body, text, p := s.body(ctx, a)
	if p != nil {
		return nil, p
	}
	e.Source, e.Tenant, e.ContentType, e.Body = a.caller.source, a.caller.tenant, a.contentType, body
	text = append(text, a.traceparent...)
	e.Traceparent = aliased(text)
	if a.form != formJSON {
		return text, a.cloudEvent(&ctx.Request.Header, e)
	}
	fields, err := event.ParseBody(body)
	if err != nil {
		return nil, badBody(err)
	}
	a.native(&fields, e)
	at := len(text)
	if a.idempotencyKey == nil {
		text = event.AppendNewID(text)
	} else {
		text = event.AppendDerivedID(text, e.Tenant, e.Type, e.MessageID, aliased(a.idempotencyKey))
	}
	e.ID = aliased(text[at:])
	return text, nil
}

// native puts what the body of our own form says into the event.
func (a *admission) native(fields *event.Fields, e *event.Event) {
	e.Type, e.MessageID, e.OccurredAt, e.Sequence, e.Schema = fields.Event, fields.MessageID, fields.OccurredAt, fields.Sequence, fields.Schema
}

// body returns the body of one event, inflated, in memory of its own, and empty room behind it
// for what else the record will alias: one allocation for all of it.
func (s *Server) body(ctx *fasthttp.RequestCtx, a *admission) (body, text []byte, p *problem) {
	wire := ctx.Request.Body()
	if len(wire) == 0 {
		return nil, nil, errEmpty
	}
	room := len(a.traceparent) + eventText
	if a.encoding != identity {
		body, p = s.inflater.inflate(a.encoding, wire, s.inflates(ctx, a.caller.share))
		return body, make([]byte, 0, room), p
	}
	if len(wire) > s.cfg.MaxBody {
		return nil, nil, tooLarge(s.cfg.MaxBody)
	}
	own := append(make([]byte, 0, len(wire)+room), wire...)
	return own[:len(wire):len(wire)], own[len(wire):], nil
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
