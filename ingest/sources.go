package ingest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
	"unsafe"

	"github.com/valyala/fasthttp"

	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/ingest/source"
)

// PathSources is where third-party providers post, with the name of the source in place of
// the braces.
const PathSources = sourcesHead + "{name}"

const sourcesHead = "/v1/sources/"

// SourceConfig is one third-party source.
type SourceConfig struct {
	Spec    source.Spec
	Secrets source.Secrets
	// VerifyToken is the token of Spec.VerifyToken, nil without one.
	VerifyToken source.Secrets
}

// provider is a source with its limit. Only a request that it has signed takes a token, and only
// once, so that nobody else can use them up.
type provider struct {
	*source.Source
	bucket *bucket // nil = no limit
	share  *share
}

// newSources makes the sources by name.
func newSources(list []SourceConfig) (map[string]*provider, error) {
	out := map[string]*provider{}
	for _, c := range list {
		src, err := source.New(c.Spec, c.Secrets, c.VerifyToken)
		if err != nil {
			return nil, fmt.Errorf("make source: %w", err)
		}
		if out[src.Name()] != nil {
			return nil, fmt.Errorf("source %s is there twice", src.Name())
		}
		limit := Limit{PerSecond: c.Spec.Rate, Burst: c.Spec.Burst}
		if err := limit.validate(); err != nil {
			return nil, fmt.Errorf("source %s: %w", src.Name(), err)
		}
		out[src.Name()] = &provider{src, newBucket(limit), &share{}}
	}
	return out, nil
}

// sourceRoute is the route of PathSources.
func (s *Server) sourceRoute() route {
	wrap := func(serve func(*fasthttp.RequestCtx, *provider)) operation {
		door := func(ctx *fasthttp.RequestCtx) *problem {
			_, p := s.sourceDoor(ctx)
			return p
		}
		return operation{door: door, serve: func(ctx *fasthttp.RequestCtx) {
			src, p := s.sourceDoor(ctx)
			if p != nil {
				s.refuseWebhook(ctx, src, p)
				return
			}
			serve(ctx, src)
		}}
	}
	return route{"POST": wrap(s.webhook), "GET": wrap(s.challenge), "OPTIONS": wrap(s.invitation)}
}

// sourceDoor finds the source of a request and checks what else the headers tell. The source
// is nil if there is none of this name.
func (s *Server) sourceDoor(ctx *fasthttp.RequestCtx) (*provider, *problem) {
	h := &ctx.Request.Header
	src := s.sources[string(lastSegment(ctx))]
	if src == nil {
		return nil, errNoSource
	}
	if !src.Allows(peerOf(ctx.RemoteAddr()), texts(h.PeekAll(fasthttp.HeaderXForwardedFor))) {
		return src, errForbidden
	}
	if value, ok := single(h, fasthttp.HeaderContentEncoding); !ok || encodingOf(value) != identity {
		return src, errSourceEncoding
	}
	if len(h.ContentType()) > event.MaxContentType || !printableText(h.ContentType()) {
		return src, errSourceType
	}
	if p := framing(h); p != nil {
		return src, p
	}
	if h.ContentLength() > s.cfg.MaxBody {
		return src, tooLarge(s.cfg.MaxBody)
	}
	return src, nil
}

// webhook takes one event of a provider: signature, replay, mapping, produce, answer.
func (s *Server) webhook(ctx *fasthttp.RequestCtx, src *provider) {
	now := time.Now()
	wire := ctx.Request.Body()
	r := sourceRequest(ctx, wire)
	proof, p := s.proof(src, r, now)
	if p != nil {
		s.refuseWebhook(ctx, src, p)
		return
	}
	if challenge, ok := src.SlackChallenge(r); ok {
		s.shake(ctx, src, challenge)
		return
	}
	e := s.webhookEvent(ctx, r, now)
	if err := src.Map(r, e); err != nil {
		s.refuseWebhook(ctx, src, badBody(err))
		return
	}
	claim := src.Replays.Claim(proof.Key(e), now)
	if claim.First() {
		defer claim.Settle(false, now) // has no effect after the one below
	} else if claim.Taken(s.cfg.AckTimeout) {
		s.takeWebhook(ctx, src, outcomeReplayed)
		return
	}
	producer, p := s.admit(now, src.share)
	if p == nil {
		p = src.bucket.take(now)
	}
	if p == nil {
		_, p = producer.publish(e, make([]byte, 0, eventText), src.share, now)
	}
	if p != nil {
		s.refuseWebhook(ctx, src, p)
		return
	}
	if claim.First() {
		claim.Settle(true, now)
	}
	s.takeWebhook(ctx, src, outcomeAccepted)
	s.metrics.seconds.Observe(time.Since(now).Seconds())
	s.metrics.bodyBytes.Add(float64(len(e.Body)))
}

// proof verifies a request over the bytes as they came.
func (s *Server) proof(src *provider, r *source.Request, now time.Time) (source.Proof, *problem) {
	if len(r.Body) == 0 {
		return source.Proof{}, errEmpty
	}
	if len(r.Body) > s.cfg.MaxBody {
		return source.Proof{}, tooLarge(s.cfg.MaxBody)
	}
	proof, err := src.Verify(r, now)
	return proof, notBelieved(err)
}

// webhookEvent copies the body out of the request, for r too, and makes the event without
// what the mapping gives.
func (s *Server) webhookEvent(ctx *fasthttp.RequestCtx, r *source.Request, now time.Time) *event.Event {
	h := &ctx.Request.Header
	r.Body = append(make([]byte, 0, len(r.Body)), r.Body...)
	e := &event.Event{AcceptedMs: now.UnixMilli(), Schema: event.DefaultSchema, Sequence: -1, ContentType: string(h.ContentType()), Body: r.Body}
	if e.ContentType == "" {
		e.ContentType = "application/octet-stream" // RFC 9110 of a body without a type
	}
	if value, ok := single(h, event.HeaderTraceparent); ok && event.ValidTraceparent(string(value)) {
		e.Traceparent = string(value)
	}
	return e
}

// challenge answers the GET by which a provider asks whether the URL is ours.
func (s *Server) challenge(ctx *fasthttp.RequestCtx, src *provider) {
	args := ctx.QueryArgs()
	answer, err := src.Challenge(func(name string) (string, int) {
		return string(args.Peek(name)), len(args.PeekMulti(name))
	})
	var refusal *source.Refusal
	switch {
	case errors.As(err, &refusal):
		s.refuseWebhook(ctx, src, notBelieved(err))
	case err != nil:
		s.refuseWebhook(ctx, src, badBody(err))
	default:
		s.shake(ctx, src, answer)
	}
}

// invitation answers the OPTIONS by which a sender of CloudEvents asks whether it may send.
func (s *Server) invitation(ctx *fasthttp.RequestCtx, src *provider) {
	h := &ctx.Request.Header
	origin, ok := single(h, "WebHook-Request-Origin")
	if !ok || origin != nil && !source.EchoableOrigin(string(origin)) {
		s.refuseWebhook(ctx, src, &problem{status: 400, code: event.CodeInvalidField, field: "WebHook-Request-Origin",
			detail: "the header WebHook-Request-Origin must be given once, with 1 to 255 printable ASCII characters"})
		return
	}
	answer := &ctx.Response.Header
	answer.Set(fasthttp.HeaderAllow, "GET, OPTIONS, POST")
	if origin != nil {
		answer.Set("WebHook-Allowed-Origin", string(origin))
		answer.Set("WebHook-Allowed-Rate", "*")
	}
	s.metrics.source(src.Name(), outcomeHandshake)
	s.metrics.answered(codeOK)
}

// shake answers a handshake with its challenge. It is text of a stranger, so no browser may
// take it for anything else.
func (s *Server) shake(ctx *fasthttp.RequestCtx, src *provider, challenge string) {
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.Response.Header.Set("X-Content-Type-Options", "nosniff")
	ctx.SetBodyString(challenge)
	s.metrics.source(src.Name(), outcomeHandshake)
	s.metrics.answered(codeOK)
}

// takeWebhook gives the answer of success: the event is in the log, of this request or of an
// equal one before.
func (s *Server) takeWebhook(ctx *fasthttp.RequestCtx, src *provider, outcome string) {
	success := src.Success()
	ctx.SetStatusCode(success.Status)
	if success.Body != "" {
		ctx.SetContentType(success.ContentType)
		ctx.SetBodyString(success.Body)
	}
	s.metrics.source(src.Name(), outcome)
	s.metrics.answered(codeAccepted)
}

func (s *Server) refuseWebhook(ctx *fasthttp.RequestCtx, src *provider, p *problem) {
	if p == errUnknown {
		p = errUnknownWebhook
	}
	if src != nil {
		s.metrics.source(src.Name(), outcomeOf(p))
	}
	s.refuse(ctx, p)
}

var (
	errNoSource       = &problem{status: 404, code: codeNotFound, detail: "there is no source of this name"}
	errForbidden      = &problem{status: 403, code: codeForbidden, detail: "the source does not take requests from this address"}
	errSourceEncoding = &problem{status: 415, code: codeUnsupported, field: "Content-Encoding", detail: "the body must not be encoded: what is signed are its bytes as sent",
		header: "Accept-Encoding", value: "identity"}
	errSourceType     = &problem{status: 415, code: codeUnsupported, field: "Content-Type", detail: "the Content-Type must be at most 256 printable ASCII characters"}
	errUnknownWebhook = &problem{status: 504, code: codeUnknownOutcome, detail: "the broker did not acknowledge in time: the event may or may not be accepted; send the same request again"}
)

// notBelieved is the answer to a request that source.Verify refused.
func notBelieved(err error) *problem {
	if err == nil {
		return nil
	}
	var refusal *source.Refusal
	if !errors.As(err, &refusal) {
		panic("BUG: error of a signature is no Refusal: " + err.Error())
	}
	return &problem{status: 401, code: refusal.Code, detail: refusal.Detail, header: "WWW-Authenticate", value: `Signature realm="hookline"`}
}

// sourceRequest is the request as a source looks at it. Body and memory are the server's.
func sourceRequest(ctx *fasthttp.RequestCtx, body []byte) *source.Request {
	h := &ctx.Request.Header
	return &source.Request{Method: string(ctx.Method()), Body: body, Header: func(name string) (string, int) {
		switch all := h.PeekAll(name); len(all) {
		case 0:
			return "", 0
		default:
			return unsafe.String(unsafe.SliceData(all[0]), len(all[0])), len(all)
		}
	}}
}

// peerOf is the address at the other end, the zero one if it has none.
func peerOf(addr net.Addr) netip.Addr {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr()
	}
	return netip.Addr{}
}

func texts(list [][]byte) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

func printableText(v []byte) bool {
	for _, c := range v {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}
