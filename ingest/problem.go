package ingest

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"github.com/hookline/hookline/ingest/event"
)

// Codes of the problems that ingest answers with, beside those of event.FieldError. CONTRACT:
// clients branch on them, so they are only ever added.
const (
	codeInvalidEncoding = "invalid_encoding"
	codeInvalidRequest  = "invalid_request"
	codeUnauthenticated = "unauthenticated"
	codeForbidden       = "forbidden"
	codeNotFound        = "not_found"
	codeNotAllowed      = "method_not_allowed"
	codeTimeout         = "timeout"
	codeTooLarge        = "too_large"
	codeUnsupported     = "unsupported_media_type"
	codeRateLimited     = "rate_limited"
	codeBacklog         = "backlog"
	codeInternal        = "internal"
	codeUnavailable     = "unavailable"
	codeUnknownOutcome  = "unknown_outcome"
	codeAnalyticsOff    = "analytics_off"
)

// problem is an answer other than success, in the form of RFC 9457.
type problem struct {
	status int
	code   string
	field  string // the member or header at fault, "" = none
	detail string
	// header and value are the one header that the status asks for, "" = none.
	header, value string
}

const problemType = "application/problem+json"

// retryAfter is the pause that a refused client is asked for, in seconds. The door opens as
// soon as the broker answers again, so it is short; clients add their own jitter.
const retryAfter = "1"

var (
	errNotFound     = &problem{status: 404, code: codeNotFound, detail: "there is nothing at this path; paths are matched exactly, see /openapi.json"}
	errUnauthorized = &problem{status: 401, code: codeUnauthenticated, detail: "the Authorization header must be given once, as: Bearer KEY, with a key of this installation",
		header: "WWW-Authenticate", value: `Bearer realm="hookline"`}
	errMediaType  = unsupportedMedia("the Content-Type must be application/json in UTF-8, or application/cloudevents+json; batches go to "+PathBatch, acceptOne)
	errCloudMedia = unsupportedMedia("of the CloudEvents formats only JSON in UTF-8 is taken, application/cloudevents+json; batches of them go to "+PathBatch, acceptOne)
	errCloudData  = unsupportedMedia("the Content-Type of a CloudEvent in binary mode must be a media type, for JSON in UTF-8, of at most 256 printable ASCII characters", acceptOne)
	errBatchMedia = unsupportedMedia("the Content-Type of a batch must be application/x-ndjson, application/json or application/cloudevents-batch+json, in UTF-8", acceptMany)
	errEncoding   = &problem{status: 415, code: codeUnsupported, field: "Content-Encoding", detail: "the Content-Encoding must be one of gzip, zstd or identity",
		header: "Accept-Encoding", value: "gzip, zstd"}
	errFraming        = &problem{status: 400, code: codeInvalidRequest, detail: "the request has both Content-Length and Transfer-Encoding"}
	errLines          = &problem{status: 400, code: codeInvalidRequest, detail: "a header line is folded or does not end in CR LF"}
	errTwoTypes       = &problem{status: 400, code: codeInvalidRequest, field: "Content-Type", detail: "the Content-Type header must be given at most once"}
	errEmpty          = &problem{status: 400, code: event.CodeEmptyBody, detail: "the body is empty"}
	errNoEvents       = &problem{status: 400, code: event.CodeEmptyBody, detail: "the batch has no events"}
	errManyEvents     = &problem{status: 413, code: codeTooLarge, detail: "the batch has more than " + strconv.Itoa(maxBatchEvents) + " events; nothing was accepted"}
	errBatchBuffer    = &problem{status: 413, code: codeTooLarge, detail: "the batch is more than this installation lets wait for the broker; nothing was accepted"}
	errMalformed      = &problem{status: 400, code: codeInvalidRequest, detail: "the request is not well-formed HTTP"}
	errIdempotencyKey = &problem{status: 400, code: event.CodeInvalidField, field: "Idempotency-Key", detail: "the Idempotency-Key header must be given at most once, with 1 to 255 printable ASCII characters"}
	errTimeout        = &problem{status: 408, code: codeTimeout, detail: "the request did not arrive in time"}
	errHeaderTooLarge = &problem{status: 431, code: codeTooLarge, detail: "the request line and headers are over 16 KiB"}
	errBacklog        = &problem{status: 429, code: codeBacklog, detail: "deliveries are further behind than this installation allows; nothing was accepted", header: "Retry-After", value: "5"}
	errInternal       = &problem{status: 500, code: codeInternal, detail: "a fault of this server; what was published may or may not be accepted"}
	errStarting       = unavailable("the broker has not been reached yet; nothing was accepted")
	errStalled        = unavailable("the broker does not acknowledge in time; nothing was accepted")
	errFull           = unavailable("too much waits for the broker; nothing was accepted")
	errShare          = unavailable("the broker is slow, and most of what waits for it is of this key or source; nothing was accepted")
	errIntake         = unavailable("too many large bodies are being read; nothing was accepted")
	errRefused        = unavailable("the broker refused the event; nothing was accepted")
	errUnknown        = &problem{status: 504, code: codeUnknownOutcome, detail: "the broker did not acknowledge in time: the event may or may not be accepted; send it again with the same Idempotency-Key"}
)

const (
	acceptOne  = event.DefaultContentType + ", " + mediaCloudEvent
	acceptMany = mediaLines + ", " + event.DefaultContentType + ", " + mediaCloudEvents
)

func unsupportedMedia(detail, accept string) *problem {
	return &problem{status: 415, code: codeUnsupported, field: "Content-Type", detail: detail, header: "Accept-Post", value: accept}
}

// Answers of the guard, to connections and not to requests.
var (
	errConnections      = unavailable("too many connections are open; nothing was accepted")
	errConnectionsOfOne = &problem{status: 429, code: codeRateLimited, detail: "too many connections from this address are open; nothing was accepted", header: "Retry-After", value: retryAfter}
)

func unavailable(detail string) *problem {
	return &problem{status: 503, code: codeUnavailable, detail: detail, header: "Retry-After", value: retryAfter}
}

func tooLarge(limit int) *problem {
	return &problem{status: 413, code: codeTooLarge, detail: "the body is over the limit of " + strconv.Itoa(limit) + " bytes"}
}

func notAllowed(allow string) *problem {
	return &problem{status: 405, code: codeNotAllowed, detail: "this path takes only " + allow, header: "Allow", value: allow}
}

func invalidEncoding(name string) *problem {
	return &problem{status: 400, code: codeInvalidEncoding, field: "Content-Encoding", detail: "the body is not one complete " + name + " stream"}
}

// write makes p the answer.
func (p *problem) write(ctx *fasthttp.RequestCtx) {
	ctx.Response.Reset()
	ctx.SetStatusCode(p.status)
	ctx.SetContentType(problemType)
	if p.header != "" {
		ctx.Response.Header.Set(p.header, p.value)
	}
	var stack [512]byte
	ctx.SetBody(p.appendJSON(stack[:0]))
}

// wire is p as a whole response, for a connection on which no request was read.
func (p *problem) wire() []byte {
	body := p.appendJSON(nil)
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s: %s\r\nConnection: close\r\n\r\n%s",
		p.status, fasthttp.StatusMessage(p.status), problemType, len(body), p.header, p.value, body)
}

func (p *problem) appendJSON(b []byte) []byte {
	b = append(b, `{"type":"about:blank","title":`...)
	b = appendString(b, fasthttp.StatusMessage(p.status))
	b = append(b, ',')
	return append(p.appendMembers(b), '}')
}

// appendMembers appends what a problem says that is neither its type nor its title: all of it
// for an event of a batch.
func (p *problem) appendMembers(b []byte) []byte {
	b = append(b, `"status":`...)
	b = strconv.AppendInt(b, int64(p.status), 10)
	b = append(b, `,"code":`...)
	b = appendString(b, p.code)
	if p.field != "" {
		b = append(b, `,"field":`...)
		b = appendString(b, p.field)
	}
	b = append(b, `,"detail":`...)
	return appendString(b, p.detail)
}

// appendString appends s as a JSON string. s is ours, a message id, or a name of the settings,
// which may be in any script.
func appendString(b []byte, s string) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		case c < utf8.RuneSelf:
			b = append(b, c)
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r) // U+FFFD for what is no UTF-8
			i += n - 1
		}
	}
	return append(b, '"')
}
