package dispatcher

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/dispatcher/signature"
)

const (
	maxActiveKeys   = endpoint.MaxKeys
	maxContentType  = 255
	maxTraceparent  = 255
	defaultType     = "application/json"
	unreadableType  = "application/octet-stream"
	headerUserAgent = "User-Agent"
)

// target is one version of an endpoint, made ready for sending once.
type target struct {
	version *endpoint.Endpoint
	base    *http.Request // method, URL and host; copied for each attempt
	header  http.Header   // what is the same in every attempt; its values are shared, never written
	keys    []signature.Key
	ends    []time.Time // of keys[i]; zero = the current key
	err     error       // why nothing can be sent
}

func newTarget(e *endpoint.Endpoint, userAgent string) *target {
	t := &target{version: e}
	if e.Fault != nil {
		t.err = fmt.Errorf("endpoint cannot be used as it is stored: %w", e.Fault)
		return t
	}
	u, err := url.Parse(e.URL)
	if err != nil || u.Host == "" {
		t.err = errors.New("endpoint has no usable URL") // err would quote it
		return t
	}
	t.base = &http.Request{
		Method: http.MethodPost, URL: u, Host: u.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	t.header = make(http.Header, len(e.Headers)+1)
	for name, value := range e.Headers {
		if endpoint.RefusedHeader(name) || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			continue // refused at registration; a record written by hand must not split requests
		}
		t.header[http.CanonicalHeaderKey(name)] = []string{value}
	}
	t.header[headerUserAgent] = []string{userAgent}
	for _, k := range e.Keys {
		key, err := signature.ParseSecret(k.Secret)
		if err != nil {
			t.err = fmt.Errorf("signing key cannot be used: %w", err)
			return t
		}
		t.keys, t.ends = append(t.keys, key), append(t.ends, k.NotAfter)
	}
	if len(t.keys) == 0 {
		t.err = errors.New("endpoint has no signing key")
	}
	return t
}

// activeKeys fills keys with those valid at now, newest first, and returns how many.
func (t *target) activeKeys(keys *[maxActiveKeys]signature.Key, now time.Time) int {
	n := 0
	for i, k := range t.keys {
		if n < len(keys) && (t.ends[i].IsZero() || now.Before(t.ends[i])) {
			keys[n] = k
			n++
		}
	}
	return n
}

// targets keeps the target of the newest version of each endpoint that was sent to. Safe
// for concurrent use.
type targets struct {
	userAgent string

	mu sync.RWMutex
	by map[string]*target // by endpoint id
}

// maxTargets bounds what deleted endpoints leave behind; over it all are made anew.
const maxTargets = 1 << 17

func newTargets(userAgent string) *targets {
	return &targets{userAgent: userAgent, by: make(map[string]*target)}
}

// of returns the target of e. Two versions of one endpoint may be in use at once while a
// change spreads: each gets its own, and the newer one is kept.
func (ts *targets) of(e *endpoint.Endpoint) *target {
	ts.mu.RLock()
	t := ts.by[e.ID]
	ts.mu.RUnlock()
	if t != nil && t.version == e {
		return t
	}
	made := newTarget(e, ts.userAgent)
	if t != nil && t.version.Version > e.Version {
		return made
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if len(ts.by) >= maxTargets {
		clear(ts.by)
	}
	ts.by[e.ID] = made
	return made
}

func contentType(s string) string {
	switch {
	case s == "":
		return defaultType
	case !isVisible(s, maxContentType):
		return unreadableType
	default:
		return s
	}
}

// isVisible reports whether s may stand in a header: a Kafka producer can put anything into
// the headers that these values come from.
func isVisible(s string, limit int) bool {
	if len(s) > limit {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
