package ingest

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/ingest/source"
)

// Outcomes of a request to a source.
const (
	outcomeAccepted  = "accepted"
	outcomeReplayed  = "replayed"
	outcomeHandshake = "handshake"
	outcomeSignature = source.CodeBadSignature
	outcomeTimestamp = source.CodeStaleTimestamp
	outcomeForbidden = codeForbidden
	outcomeMapping   = "mapping"
	outcomeFailed    = "failed"
	outcomeRefused   = "refused"
)

var sourceOutcomes = []string{outcomeAccepted, outcomeReplayed, outcomeHandshake, outcomeSignature, outcomeTimestamp, outcomeForbidden, outcomeMapping, outcomeFailed, outcomeRefused}

// outcomeOf is the outcome of a request that was refused.
func outcomeOf(p *problem) string {
	switch p.code {
	case source.CodeBadSignature, source.CodeStaleTimestamp, codeForbidden:
		return p.code
	case event.CodeInvalidJSON, event.CodeInvalidField, event.CodeMissingField, event.CodeEmptyBody:
		return outcomeMapping
	}
	if p.status >= 500 {
		return outcomeFailed
	}
	return outcomeRefused
}

// registerSources makes the metrics of the sources. Their names are the operator's, so the
// label is bounded.
func (s *Server) registerSources(reg prometheus.Registerer) error {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "hookline_ingest_source_requests_total",
		Help: "Requests to a source, by outcome: accepted, replayed (answered as before, not published again), handshake, bad_signature, stale_timestamp, " +
			"forbidden (address), mapping (a field is missing or wrong), failed (5xx), refused (the rest)."}, []string{"source", "outcome"})
	errs := []error{reg.Register(requests)}
	s.metrics.source = func(name, outcome string) { requests.WithLabelValues(name, outcome).Inc() }
	for name, src := range s.sources {
		for _, outcome := range sourceOutcomes {
			requests.WithLabelValues(name, outcome)
		}
		labels := prometheus.Labels{"source": name}
		errs = append(errs,
			reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "hookline_ingest_source_remembered_requests", ConstLabels: labels,
				Help: "Requests that would be taken for replays."}, func() float64 { return float64(src.Replays.Len()) })),
			reg.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "hookline_ingest_source_forgotten_requests_total", ConstLabels: labels,
				Help: "Requests that were forgotten before their time, because there were too many. The dispatcher's window still knows their event ids."},
				func() float64 { return float64(src.Replays.Evicted()) })))
	}
	return errors.Join(errs...)
}
