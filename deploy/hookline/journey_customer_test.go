package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// hook is one request as a customer's server saw it.
type hook struct {
	path   string
	at     time.Time
	header http.Header
	body   []byte
	status int // what was answered
}

func (h *hook) id() string { return h.header.Get("Webhook-Id") }

func (h *hook) attempt(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(h.header.Get("Webhook-Attempt"))
	if err != nil {
		t.Errorf("Webhook-Attempt: %v", err)
	}
	return n
}

// customer is a server of customers: /healthy answers 200, /flaky fails three times an event
// and then recovers, /dead always answers 422: tried again as its endpoint's
// settings say, and no reason for a breaker to open, which has tests of its own. It is written without any part of hookline.
type customer struct {
	*httptest.Server
	mu    sync.Mutex // guards hooks
	hooks []*hook
}

func startCustomer(t *testing.T) *customer {
	t.Helper()
	c := &customer{}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.Close)
	return c
}

func (c *customer) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	h := &hook{path: r.URL.Path, at: time.Now(), header: r.Header.Clone(), body: body, status: http.StatusOK}
	c.mu.Lock()
	earlier := 0
	for _, other := range c.hooks {
		if other.path == h.path && other.id() == h.id() {
			earlier++
		}
	}
	if err != nil || h.path == "/dead" || h.path == "/flaky" && earlier < 3 {
		h.status = http.StatusUnprocessableEntity
	}
	c.hooks = append(c.hooks, h)
	c.mu.Unlock()
	w.WriteHeader(h.status)
}

// count is the number of requests to a path; "" = all.
func (c *customer) count(path string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, h := range c.hooks {
		if path == "" || h.path == path {
			n++
		}
	}
	return n
}

// chain returns the requests for one event at a path, in arrival order.
func (c *customer) chain(path, id string) []*hook {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*hook
	for _, h := range c.hooks {
		if h.path == path && h.id() == id {
			out = append(out, h)
		}
	}
	slices.SortStableFunc(out, func(a, b *hook) int { return a.at.Compare(b.at) })
	return out
}

// verify checks a signature with the official library, which also checks the timestamp
// against the clock, and that another secret does not fit.
func (h *hook) verify(t *testing.T, secret, other string) {
	t.Helper()
	for s, fits := range map[string]bool{secret: true, other: false} {
		wh, err := standardwebhooks.NewWebhook(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := wh.Verify(h.body, h.header); (err == nil) != fits {
			t.Errorf("%s %s: the official library says %v, want valid %t", h.path, h.id(), err, fits)
		}
	}
}
