package main

import (
	"net/http"
	"sync"
)

// health collects what each part says of itself.
type health struct {
	mu     sync.Mutex // guards the fields below
	checks []check
	stop   bool
}

type check struct {
	name  string
	ready func() error
	shown bool // has no say
}

func (h *health) add(name string, ready func() error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks = append(h.checks, check{name: name, ready: ready})
}

// show adds a part whose state is told and does not count.
func (h *health) show(name string, ready func() error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks = append(h.checks, check{name: name, ready: ready, shown: true})
}

// stopping turns readiness off for good, so that load balancers look elsewhere.
func (h *health) stopping() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stop = true
}

// report returns each part's state in words and whether all are ready.
func (h *health) report() (map[string]string, bool) {
	h.mu.Lock()
	checks, stop := h.checks, h.stop
	h.mu.Unlock()
	out := make(map[string]string, len(checks))
	ok := !stop && len(checks) > 0
	if stop {
		out["process"] = "stopping"
	}
	for _, c := range checks {
		out[c.name] = "ok"
		if err := c.ready(); err != nil {
			out[c.name], ok = err.Error(), ok && c.shown
		}
	}
	return out, ok
}

func (s *admin) healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok", "version": softwareVersion()})
}

func (s *admin) readyz(w http.ResponseWriter, _ *http.Request) {
	parts, ok := s.health.report()
	status := http.StatusOK
	if !ok {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, map[string]any{"ready": ok, "parts": parts})
}
