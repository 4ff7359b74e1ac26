package ingest

import (
	"bytes"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/hookline/hookline/ingest/event"
)

// CONTRACT: the limits of a batch.
const (
	maxBatchEvents = 1000
	maxBatchBody   = 4 << 20 // inflated
)

// batches is what batches share.
type batches struct {
	inflater *inflater
	scratch  sync.Pool // *batch
}

func newBatches() (*batches, error) {
	inflater, err := newInflater(maxBatchBody)
	if err != nil {
		return nil, err
	}
	b := &batches{inflater: inflater}
	b.scratch.New = func() any { return new(batch) }
	return b, nil
}

// batch is the scratch of one request: what becomes of each of its events, in order. Nothing
// that the producer holds is in it, so that it can be used again.
type batch struct {
	items  []verdict
	answer []byte
	key    []byte // the idempotency key of an item
	keyed  int    // its length without the number

	s     *Server
	a     *admission
	group *group
	trace string
}

// verdict is what becomes of one event.
type verdict struct {
	record  *grouped // of an event that was handed over; holds its id
	id      string
	problem *problem // why it was not accepted; nil while it is under way and when it was
}

// publishBatch takes many events: headers, admission, body, fields of each, one produce group,
// one answer with a verdict for each.
func (s *Server) publishBatch(ctx *fasthttp.RequestCtx) {
	now := time.Now()
	a, p := s.batchDoor(ctx)
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
	body, p := s.batchBody(ctx, &a)
	if p != nil {
		s.refuse(ctx, p)
		return
	}
	b := s.batches.scratch.Get().(*batch)
	defer s.batches.release(b)
	b.begin(s, &a, newGroup(producer, a.caller.share, now))
	if p = b.read(body); p == nil {
		p = a.caller.bucket.charge(now, len(b.items)-1)
	}
	if p == nil {
		p = b.group.reserve()
	}
	if p != nil {
		s.refuse(ctx, p)
		return
	}
	if len(b.group.records) > 0 {
		b.group.publish()
	}
	b.reply(ctx)
	s.metrics.seconds.Observe(time.Since(now).Seconds())
}

// batchBody returns the body, inflated, in memory of its own: all events of the batch alias it.
func (s *Server) batchBody(ctx *fasthttp.RequestCtx, a *admission) ([]byte, *problem) {
	wire := ctx.Request.Body()
	switch {
	case len(wire) == 0:
		return nil, errEmpty
	case a.encoding != identity:
		return s.batches.inflater.inflate(a.encoding, wire, s.inflates(ctx, a.caller.share))
	case len(wire) > maxBatchBody:
		return nil, tooLarge(maxBatchBody)
	case len(wire) >= takenBody:
		return ctx.Request.SwapBody(nil), nil
	}
	return bytes.Clone(wire), nil
}

// takenBody is the size from which a request's buffer becomes the body, instead of a copy of
// it. The server would not use a larger one again anyway (see bodyPool).
const takenBody = bodyPoolLimit

func (b *batch) begin(s *Server, a *admission, g *group) {
	b.s, b.a, b.group = s, a, g
	b.trace = string(a.traceparent)
	if a.idempotencyKey != nil {
		b.key = append(append(b.key[:0], a.idempotencyKey...), '/')
		b.keyed = len(b.key)
	}
}

func (t *batches) release(b *batch) {
	clear(b.items)
	*b = batch{items: b.items[:0], answer: b.answer[:0], key: b.key[:0]}
	t.scratch.Put(b)
}

// read takes all events of the body. A problem of its own refuses the whole batch, before
// anything was handed over; that of an event is its verdict.
func (b *batch) read(body []byte) *problem {
	var p *problem
	if b.a.form == formLines {
		p = b.lines(body)
	} else {
		p = b.array(body)
	}
	if p == nil && len(b.items) == 0 {
		return errNoEvents
	}
	return p
}

// lines reads NDJSON: each line is parsed for itself, and what is around it that JSON does not
// count is not part of its event. Blank lines have no verdict.
func (b *batch) lines(body []byte) *problem {
	for rest := body; len(rest) > 0; {
		line := rest
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			line, rest = rest[:i], rest[i+1:]
		} else {
			rest = nil
		}
		if line = trimBlanks(line); len(line) == 0 {
			continue
		}
		if len(b.items) == maxBatchEvents {
			return errManyEvents
		}
		if len(line) > b.s.cfg.MaxBody {
			b.reject(tooLarge(b.s.cfg.MaxBody))
			continue
		}
		fields, err := event.ParseBody(line)
		b.take(line[:len(line):len(line)], &fields, nil, err)
	}
	return nil
}

// array reads a JSON array of events. A syntax error refuses all of it.
func (b *batch) array(body []byte) *problem {
	var e event.Element
	array := event.NewArray(body, b.a.form == formCloudArray)
	for array.Next(&e) {
		switch {
		case len(b.items) == maxBatchEvents:
			return errManyEvents
		case len(e.Raw) > b.s.cfg.MaxBody:
			b.reject(tooLarge(b.s.cfg.MaxBody))
		case b.a.form == formCloudArray:
			b.take(e.Raw, nil, &e.Cloud, e.Err)
		default:
			b.take(e.Raw, &e.Fields, nil, e.Err)
		}
	}
	if err := array.Err(); err != nil {
		return badBody(err)
	}
	return nil
}

// trimBlanks takes away what JSON calls blank, at both ends.
func trimBlanks(line []byte) []byte {
	blank := func(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }
	for len(line) > 0 && blank(line[0]) {
		line = line[1:]
	}
	for len(line) > 0 && blank(line[len(line)-1]) {
		line = line[:len(line)-1]
	}
	return line
}

// take makes the next event's record, or its verdict if err says that it is none.
func (b *batch) take(body []byte, fields *event.Fields, cloud *event.CloudEvent, err error) {
	if err != nil {
		b.reject(badBody(err))
		return
	}
	a := b.a
	e := event.Event{AcceptedMs: b.group.now.UnixMilli(), Source: a.caller.source, Tenant: a.caller.tenant, ContentType: a.contentType, Traceparent: b.trace, Body: body}
	var key []byte
	if a.idempotencyKey != nil {
		key = strconv.AppendInt(b.key[:b.keyed], int64(len(b.items)), 10)
		b.key = key
	}
	if cloud != nil {
		a.cloud(cloud, &e, string(key))
	} else {
		a.native(fields, &e)
		b.group.newID(&e, key)
	}
	b.items = append(b.items, verdict{record: b.group.add(&e), id: e.ID})
}

func (b *batch) reject(p *problem) { b.items = append(b.items, verdict{problem: p}) }

// reply answers with the verdicts: 202 if all events are in the log, else 207.
func (b *batch) reply(ctx *fasthttp.RequestCtx) {
	accepted, size := 0, 0
	for i := range b.items {
		v := &b.items[i]
		if v.record != nil {
			v.problem = b.group.outcome(v.record)
		}
		if v.problem != nil {
			b.s.metrics.itemEnded(v.problem.code)
			continue
		}
		accepted++
		size += len(v.record.record.Value)
	}
	b.s.metrics.items[codeAccepted].Add(float64(accepted))
	b.s.metrics.bodyBytes.Add(float64(size))
	status, code := fasthttp.StatusAccepted, codeAccepted
	if accepted < len(b.items) {
		status, code = fasthttp.StatusMultiStatus, codePartial
	}
	b.answer = b.appendJSON(b.answer[:0], accepted)
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	ctx.SetBody(b.answer)
	b.s.metrics.answered(code)
}

func (b *batch) appendJSON(dst []byte, accepted int) []byte {
	dst = append(dst, `{"accepted":`...)
	dst = strconv.AppendInt(dst, int64(accepted), 10)
	dst = append(dst, `,"rejected":`...)
	dst = strconv.AppendInt(dst, int64(len(b.items)-accepted), 10)
	dst = append(dst, `,"items":[`...)
	for i := range b.items {
		v := &b.items[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
		if v.problem == nil {
			dst = append(dst, `,"status":202,"id":"`...)
			dst = append(dst, v.id...) // nothing in an id of ours wants an escape
			dst = append(dst, `"}`...)
			continue
		}
		dst = append(dst, ',')
		dst = v.problem.appendMembers(dst)
		dst = append(dst, '}')
	}
	return append(dst, `]}`...)
}
