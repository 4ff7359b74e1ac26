package ingest

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/ingest/source"
)

// metrics are all metrics of the room. Labels are codes and outcomes of this package, never
// anything that a client sent.
type metrics struct {
	requests   map[string]prometheus.Counter // by code; codeAccepted and codeOK for success
	items      map[string]prometheus.Counter // the same for the events of batches
	seconds    prometheus.Histogram
	bodyBytes  prometheus.Counter
	acked      prometheus.Counter
	failed     prometheus.Counter
	ackSeconds prometheus.Histogram
	panics     prometheus.Counter
	refused    map[string]prometheus.Counter // connections, by reason
	handshakes prometheus.Counter            // that failed
	greedy     prometheus.Counter            // refusals for the sake of others
	source     func(name, outcome string)    // counts a request to a source
}

const (
	codeAccepted = "accepted"
	codePartial  = "partial" // a batch of which not all was accepted
	codeOK       = "ok"
)

// problemCodes are all codes that an answer of this room may carry.
var problemCodes = []string{
	event.CodeEmptyBody, event.CodeInvalidJSON, event.CodeInvalidField, event.CodeMissingField,
	codeInvalidEncoding, codeInvalidRequest, codeUnauthenticated, source.CodeBadSignature, source.CodeStaleTimestamp, codeForbidden, codeNotFound, codeNotAllowed, codeTimeout, codeTooLarge,
	codeUnsupported, codeRateLimited, codeBacklog, codeInternal, codeUnavailable, codeUnknownOutcome, codeAnalyticsOff,
}

// itemCodes are those of them that an event of a batch may have.
var itemCodes = []string{
	event.CodeEmptyBody, event.CodeInvalidJSON, event.CodeInvalidField, event.CodeMissingField, codeTooLarge, codeUnavailable, codeUnknownOutcome,
}

// latencyBuckets are seconds, from a fast broker to the end of AckTimeout.
var latencyBuckets = []float64{.0005, .001, .002, .003, .005, .0075, .01, .015, .025, .05, .1, .25, .5, 1, 2, 5}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "hookline_ingest_requests_total",
		Help: "Requests answered, by code: accepted, partial (a batch), ok (health, metrics, OpenAPI) or the code of the problem."}, []string{"code"})
	items := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "hookline_ingest_batch_events_total",
		Help: "Events of batches that were answered, by code: accepted or the code of the problem."}, []string{"code"})
	m := &metrics{
		requests: map[string]prometheus.Counter{},
		items:    map[string]prometheus.Counter{},
		refused:  map[string]prometheus.Counter{},
		handshakes: prometheus.NewCounter(prometheus.CounterOpts{Name: "hookline_ingest_failed_handshakes_total",
			Help: "TLS handshakes that came to nothing."}),
		greedy: prometheus.NewCounter(prometheus.CounterOpts{Name: "hookline_ingest_share_refusals_total",
			Help: "Requests refused with 503 because their key or source held most of what waited for a slow broker."}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "hookline_ingest_publish_seconds",
			Help: "Time from a complete request to its 202.", Buckets: latencyBuckets}),
		bodyBytes: prometheus.NewCounter(prometheus.CounterOpts{Name: "hookline_ingest_accepted_bytes_total",
			Help: "Bytes of accepted bodies, inflated."}),
		acked: prometheus.NewCounter(prometheus.CounterOpts{Name: "hookline_ingest_acked_events_total",
			Help: "Events that the broker acknowledged, also those whose client was told 504 before."}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{Name: "hookline_ingest_failed_events_total",
			Help: "Events that the producer gave up."}),
		ackSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "hookline_ingest_ack_seconds",
			Help: "Time from a complete request to the broker's acknowledgement of its event.", Buckets: latencyBuckets}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{Name: "hookline_ingest_panics_total",
			Help: "Panics of request handlers. Above 0 is a bug."}),
	}
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "hookline_ingest_refused_connections_total",
		Help: "Connections that were not taken, by reason: total, address (its own bound), system (as for want of file descriptors)."}, []string{"reason"})
	for _, reason := range refusalReasons {
		m.refused[reason] = refused.WithLabelValues(reason)
	}
	for _, code := range append([]string{codeAccepted, codePartial, codeOK}, problemCodes...) {
		m.requests[code] = requests.WithLabelValues(code)
	}
	for _, code := range append([]string{codeAccepted}, itemCodes...) {
		m.items[code] = items.WithLabelValues(code)
	}
	var errs []error
	for _, c := range []prometheus.Collector{requests, items, refused, m.handshakes, m.greedy, m.seconds, m.bodyBytes, m.acked, m.failed, m.ackSeconds, m.panics} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

// gauges registers what is read from the server at each scrape.
func (s *Server) gauges(reg prometheus.Registerer) error {
	gauge := func(name, help string, fn func() float64) error {
		return reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, fn))
	}
	ofProducer := func(fn func(*producer) float64) func() float64 {
		return func() float64 {
			if p := s.producer.Load(); p != nil {
				return fn(p)
			}
			return 0
		}
	}
	return errors.Join(
		gauge("hookline_ingest_waiting_bytes", "Bytes of events that wait for the broker.",
			ofProducer(func(p *producer) float64 { return float64(p.waiting.Load()) })),
		gauge("hookline_ingest_reading_bytes", "Bytes of the large bodies that are being read.", func() float64 { return float64(s.intake.held()) }),
		gauge("hookline_ingest_reading_limit_bytes", "Reading bytes above which large bodies are refused.", func() float64 { return float64(s.intake.most) }),
		gauge("hookline_ingest_waiting_limit_bytes", "Waiting bytes above which nothing more is taken.",
			func() float64 { return float64(waitLimit(s.cfg)) }),
		gauge("hookline_ingest_oldest_unacked_seconds", "Age of the oldest event that the broker has not answered for.",
			ofProducer(func(p *producer) float64 { return p.stall.age(time.Now()).Seconds() })),
		gauge("hookline_ingest_oldest_unacked_limit_seconds", "Age above which nothing more is taken.",
			func() float64 { return s.cfg.StallAfter.Seconds() }),
		gauge("hookline_ingest_open_connections", "Client connections.",
			func() float64 {
				if g := s.guard.Load(); g != nil {
					return float64(g.count())
				}
				return 0
			}),
		gauge("hookline_ingest_open_connections_limit", "Client connections above which new ones are refused.",
			func() float64 { return float64(s.cfg.MaxConnections) }),
	)
}

// answered counts one answer.
func (m *metrics) answered(code string) { m.requests[code].Inc() }

// itemEnded counts one event of a batch.
func (m *metrics) itemEnded(code string) { m.items[code].Inc() }

// finished counts the end of one event in the producer.
func (m *metrics) finished(err error) {
	if err == nil {
		m.acked.Inc()
	} else {
		m.failed.Inc()
	}
}
