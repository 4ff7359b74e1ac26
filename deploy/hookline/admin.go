package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/hookline/hookline/dispatcher"
	"github.com/hookline/hookline/dispatcher/endpoint"
)

// admin is the listener for operators: API, health, metrics, profiles, console.
type admin struct {
	gate      tokenGate
	log       *slog.Logger
	store     *endpointStore
	audit     *auditor
	defaults  endpoint.Endpoint // what a new endpoint has without being told
	dead      *deadReader
	health    *health
	gatherer  prometheus.Gatherer
	tenants   func() []string
	ingestURL func() string
	questions *questions                                 // nil without ClickHouse
	healthOf  func(*endpoint.Endpoint) dispatcher.Health // nil without the role dispatcher
	sender    dispatcher.Sender                          // of test deliveries
	server    *http.Server
	listener  net.Listener
}

// adminStopTimeout is how long a stop waits for admin requests under way.
const adminStopTimeout = 5 * time.Second

// routes is the table behind the listener; openapi_test.go holds it against /openapi.json.
func (s *admin) routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /healthz":                              s.healthz,
		"GET /readyz":                               s.readyz,
		"GET /metrics":                              promhttp.HandlerFor(s.gatherer, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelError)}).ServeHTTP,
		"GET /openapi.json":                         s.openapi,
		"GET " + consolePath + "{$}":                s.console,
		"GET /v1/endpoints":                         s.listEndpoints,
		"POST /v1/endpoints":                        s.createEndpoint,
		"GET /v1/endpoints/{id}":                    s.getEndpoint,
		"PUT /v1/endpoints/{id}":                    s.putEndpoint,
		"PATCH /v1/endpoints/{id}":                  s.patchEndpoint,
		"DELETE /v1/endpoints/{id}":                 s.deleteEndpoint,
		"POST /v1/endpoints/{id}/enable":            s.enableEndpoint,
		"POST /v1/endpoints/{id}/disable":           s.disableEndpoint,
		"POST /v1/endpoints/{id}/rotate-secret":     s.rotateSecret,
		"POST /v1/endpoints/{id}/test":              s.testEndpoint,
		"GET /v1/endpoints/{id}/health":             s.endpointHealth,
		"GET /v1/dead-letters":                      s.listDead,
		"GET /v1/dead-letters/{partition}/{offset}": s.showDead,
		"GET /v1/reports/{name}":                    s.showReport,
		"GET /v1/deliveries":                        s.listDeliveries,
	}
}

func (s *admin) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range s.routes() {
		mux.HandleFunc(pattern, h)
	}
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.Handle("GET /{$}", http.RedirectHandler(consolePath, http.StatusFound))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if !s.gate.authorized(r) {
			s.unauthorized(w, r)
			return
		}
		if h, pattern := mux.Handler(r); pattern == "" {
			s.unrouted(w, r, h)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// unrouted answers as a problem what the mux would answer as text.
func (s *admin) unrouted(w http.ResponseWriter, r *http.Request, h http.Handler) {
	var probe statusProbe
	h.ServeHTTP(&probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", probe.Header().Get("Allow"))
		s.writeError(w, r, refuse(http.StatusMethodNotAllowed, "method_not_allowed", "this path takes %s", probe.Header().Get("Allow")))
		return
	}
	s.writeError(w, r, refuse(http.StatusNotFound, "not_found", "there is nothing at this path; see /openapi.json"))
}

// statusProbe takes an answer and keeps only its head.
type statusProbe struct {
	head   http.Header
	status int
}

func (p *statusProbe) Header() http.Header {
	if p.head == nil {
		p.head = http.Header{}
	}
	return p.head
}
func (p *statusProbe) Write(b []byte) (int, error) { return len(b), nil }
func (p *statusProbe) WriteHeader(status int)      { p.status = status }

// serve answers until ctx is done and the requests under way have ended.
func (s *admin) serve(ctx context.Context) error {
	s.server = &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      3 * time.Minute, // a CPU profile or a trace takes what its caller asks
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	done := make(chan error, 1) // the serving goroutine sends once
	go func() { done <- s.server.Serve(s.listener) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve admin: %w", err)
	case <-ctx.Done():
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminStopTimeout)
	defer cancel()
	if err := s.server.Shutdown(stopCtx); err != nil {
		_ = s.server.Close() // whoever still reads is cut; nothing of theirs can be lost
	}
	if err := <-done; err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve admin: %w", err)
	}
	return nil
}
