package dispatcher

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"

	"github.com/hookline/hookline/dispatcher/attempt"
)

// maxErrorText bounds what is kept of a failure.
const maxErrorText = 512

// SendError is a failed attempt. Its text is made of our own words, the class, the host and
// addresses: the texts of net/http quote what the endpoint sent, and an endpoint can echo the
// path of its URL. The cause can be asked for with errors.Is, not read.
type SendError struct {
	Class string
	text  string
	cause error
}

func (e *SendError) Error() string { return e.text }

// Is looks through to the cause.
func (e *SendError) Is(target error) bool { return errors.Is(e.cause, target) }

// fail notes a failure in r.
func fail(r *Result, class, detail string, cause error) {
	text := class + ": " + detail
	if len(text) > maxErrorText {
		text = text[:maxErrorText]
	}
	r.ErrorClass, r.ErrorText = class, text
	r.Err = &SendError{Class: class, text: text, cause: cause}
}

// classify names what went wrong before an answer was there. parent is the context of the
// caller: its cancellation is our stop, the attempt's own deadline is the endpoint's.
func classify(parent context.Context, err error, ph *phases, host string) (class, detail string) {
	var blocked *Blocked
	if errors.As(err, &blocked) {
		return attempt.BlockedSSRF, blocked.Error()
	}
	if errors.Is(parent.Err(), context.Canceled) {
		return attempt.Cancelled, "the attempt was stopped by us"
	}
	if errno, ok := localErrno(err); ok {
		return attempt.Internal, "out of a local resource: " + errno.Error()
	}
	if class, detail, ok := classifyTLS(err, host); ok {
		return class, detail
	}
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return attempt.DNSNotFound, "no address for " + host
	case errors.As(err, &dns):
		return attempt.DNSTimeout, "no usable answer of the resolver for " + host
	case isTimeout(err):
		return classifyTimeout(ph, host)
	case ph.gotConn.Load() != 0:
		return classifyLost(err, ph)
	case ph.tlsStart.Load() != 0:
		return attempt.TLSHandshake, host + " ended the TLS handshake"
	case ph.connectStart.Load() != 0:
		return classifyConnect(err, host)
	case ph.dnsStart.Load() != 0:
		return attempt.DNSTimeout, "no usable answer of the resolver for " + host
	default:
		return attempt.Internal, "the request could not be made"
	}
}

// localErrno finds faults that say nothing about the endpoint.
func localErrno(err error) (syscall.Errno, bool) {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return 0, false
	}
	switch errno {
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL, syscall.EADDRINUSE:
		return errno, true
	}
	return 0, false
}

func classifyTLS(err error, host string) (class, detail string, ok bool) {
	var (
		invalid   x509.CertificateInvalidError
		name      x509.HostnameError
		authority x509.UnknownAuthorityError
		record    tls.RecordHeaderError
		verify    *tls.CertificateVerificationError
		op        *net.OpError
	)
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return attempt.TLSExpired, "the certificate of " + host + " has expired or is not valid yet", true
	case errors.As(err, &name):
		return attempt.TLSName, "the certificate is not for " + host, true
	case errors.As(err, &authority):
		return attempt.TLSHandshake, "the certificate of " + host +
			" is signed by an unknown authority (self-signed, or an intermediate is missing)", true
	case errors.As(err, &invalid), errors.As(err, &verify):
		return attempt.TLSHandshake, "the certificate of " + host + " is not acceptable", true
	case errors.As(err, &record):
		return attempt.TLSHandshake, host + " does not speak TLS", true
	case errors.As(err, &op) && op.Op == "remote error":
		return attempt.TLSHandshake, host + " refused the TLS handshake", true
	}
	return "", "", false
}

func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.ETIMEDOUT) {
		return true
	}
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// classifyTimeout names the phase in which the time ran out.
func classifyTimeout(ph *phases, host string) (class, detail string) {
	switch {
	case ph.firstByte.Load() != 0:
		return attempt.TimeoutTotal, "the headers of the answer did not end in time"
	case ph.wrote.Load() != 0:
		return attempt.TimeoutTTFB, "no answer in time"
	case ph.gotConn.Load() != 0:
		return attempt.TimeoutTotal, "the request could not be written in time"
	case ph.tlsStart.Load() != 0 && ph.tlsDone.Load() == 0:
		return attempt.TLSHandshake, "the TLS handshake with " + host + " did not end in time"
	case ph.dnsStart.Load() != 0 && ph.dnsDone.Load() == 0:
		return attempt.DNSTimeout, "no answer of the resolver for " + host + " in time"
	default:
		return attempt.ConnectTimeout, "no connection to " + host + " in time"
	}
}

// classifyConnect names a failed dial. What has no class of its own counts as refused: the
// host cannot be reached.
func classifyConnect(err error, host string) (class, detail string) {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return attempt.ConnectRefused, host + " refused the connection"
	case errors.Is(err, syscall.ECONNRESET):
		return attempt.ConnectReset, host + " reset the connection"
	default:
		return attempt.ConnectRefused, "no route to " + host
	}
}

// classifyLost names a connection that broke with the request on it.
func classifyLost(err error, ph *phases) (class, detail string) {
	ended := isEnd(err)
	switch {
	case ph.firstByte.Load() != 0 && ended:
		return attempt.ConnectReset, "the connection ended within the headers of the answer"
	case ph.wrote.Load() != 0 && ended:
		return attempt.ConnectReset, "the connection ended before an answer"
	case ended:
		return attempt.WriteReset, "the connection ended while the request was written"
	default:
		return attempt.Protocol, "the answer is not HTTP, or its headers are over the limit"
	}
}

// isEnd reports that the peer ended a connection or an HTTP/2 stream.
func isEnd(err error) bool {
	var stream http2Reset
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.As(err, &stream) ||
		strings.HasSuffix(err.Error(), closedIdle)
}

// closedIdle is an error of net/http that has no other mark: the server ended the connection
// in the moment in which it was taken from the pool.
const closedIdle = "http: server closed idle connection"

// http2Reset has the fields of the stream error that net/http bundles; its As method fills
// any struct of this shape.
type http2Reset struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (http2Reset) Error() string { return "stream reset" }

func classOfStatus(status int) string {
	switch {
	case status == 408:
		return attempt.HTTP408
	case status == 410:
		return attempt.HTTP410
	case status == 429:
		return attempt.HTTP429
	case status == 503:
		return attempt.HTTP503
	case status >= 300 && status <= 399:
		return attempt.HTTP3xx
	case status >= 400 && status <= 499:
		return attempt.HTTP4xx
	case status >= 500 && status <= 599:
		return attempt.HTTP5xx
	default: // 101, 999: a status that HTTP does not have as the end of a request
		return attempt.Protocol
	}
}

// statusTexts holds the common texts, so that a failing endpoint costs no garbage.
var statusTexts = func() (texts [600]string) {
	for status := range texts {
		texts[status] = fmt.Sprintf("%s: answered %d", classOfStatus(status), status)
	}
	return texts
}()

func statusText(class string, status int) string {
	if status >= 0 && status < len(statusTexts) {
		return statusTexts[status]
	}
	return class + ": answered " + strconv.Itoa(status)
}

// anomalyOf names what happened to the body of a success.
func anomalyOf(err error) string {
	switch {
	case errors.Is(err, errBodyTooLarge):
		return attempt.BodyTooLarge
	case isTimeout(err), errors.Is(err, context.Canceled):
		return attempt.TimeoutTotal
	case isEnd(err):
		return attempt.ConnectReset
	default:
		return attempt.Protocol
	}
}
