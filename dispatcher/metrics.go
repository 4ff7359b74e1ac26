package dispatcher

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/circuit"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

// metrics are all series of the room. Labels are bounded: topics by their suffix, outcomes
// and reasons by their closed lists; never an id or a URL.
type metrics struct {
	outcomes        *prometheus.CounterVec
	dead            *prometheus.CounterVec
	parks           *prometheus.CounterVec
	breakers        *prometheus.CounterVec
	attemptSeconds  prometheus.Histogram
	produceFailures *prometheus.CounterVec
	recordsGone     *prometheus.CounterVec
	forwarded       prometheus.Counter
	unstableSeconds *prometheus.GaugeVec
	unstableRecords *prometheus.GaugeVec
	commitFailures  prometheus.Counter
	badMetadata     prometheus.Counter
	badRows         prometheus.Counter
	lanesStuck      prometheus.Gauge
	feedback        *prometheus.CounterVec
	feedbackLost    prometheus.Counter
	gone            *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, d *Dispatcher) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "hookline_dispatcher_" + name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "hookline_dispatcher_" + name, Help: help}, []string{label})
	}
	gauges := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "hookline_dispatcher_" + name, Help: help}, []string{"topic"})
	}
	gauge := func(name, help string, fn func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "hookline_dispatcher_" + name, Help: help}, fn)
	}
	m := &metrics{
		outcomes: vec("outcomes_total", "Deliveries by the outcome of an attempt, park or verdict, once durable.", "outcome"),
		dead:     vec("dead_letters_total", "Deliveries that ended undelivered, by reason.", "reason"),
		parks:    vec("parks_total", "Deliveries that left their slot without an attempt, by cause.", "cause"),
		breakers: vec("breaker_changes_total", "Breakers of endpoints that opened or closed by what this process saw.", "state"),
		attemptSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "hookline_dispatcher_attempt_seconds", Help: "Duration of attempts, all outcomes.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15},
		}),
		produceFailures: vec("produce_failures_total", "Produces that failed and are tried again while they hold their slot: page when it grows.", "topic"),
		recordsGone:     vec("records_expired_total", "Offsets that left the log before they were delivered: page on any.", "topic"),
		forwarded:       counter("records_forwarded_total", "Records of events that a producer put into the wrong partition, sent on to the right one: find the producer when it grows."),
		unstableSeconds: gauges("open_transaction_age_seconds", "How long the last stable offset of a lane's topic has not moved although records lie behind it, the worst lane: page above 60."),
		unstableRecords: gauges("open_transaction_records", "Offsets behind the last stable offset of the owned lanes: nobody may read them before their transaction ends."),
		commitFailures:  counter("commit_failures_total", "Offset commits that failed and are tried again."),
		badMetadata:     counter("commit_metadata_errors_total", "Commit metadata that could not be read: finished work repeated."),
		badRows:         counter("attempt_record_errors_total", "Attempt records that could not be read at a takeover."),
		feedback:        vec("feedback_events_total", "Events that told a tenant about its deliveries and endpoints, by type.", "type"),
		gone:            vec("gone_answers_total", "Answers of 410 by what they led to: look for a proxy when suspended grows, at the endpoints topic when failed does.", "result"),
		feedbackLost:    counter("feedback_events_lost_total", "Events about a breaker that could not be sent. They are hints; those about dead letters are never left out."),
		lanesStuck: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hookline_dispatcher_lanes_stuck_lanes", Help: "Lanes that cannot start until an operator acts: page when above 0.",
		}),
	}
	collectors := []prometheus.Collector{
		m.outcomes, m.dead, m.parks, m.breakers, m.attemptSeconds, m.produceFailures, m.recordsGone,
		m.forwarded, m.unstableSeconds, m.unstableRecords,
		m.commitFailures, m.badMetadata, m.badRows, m.lanesStuck, m.feedback, m.feedbackLost, m.gone,
		gauge("permits_in_use_attempts", "Attempts under way, until their record is acked.", func() float64 { return float64(d.permits.inUse()) }),
		gauge("permits_attempts", "Attempts that may be under way.", func() float64 { return float64(d.cfg.InFlight) }),
		gauge("window_age_seconds", "Age of the oldest open slot.", func() float64 { return d.windowAge().Seconds() }),
		gauge("lanes", "Lanes owned by this process.", func() float64 { return float64(len(d.owned())) }),
		gauge("open_bytes", "Bytes of open slots.", func() float64 { return float64(d.openBytes.Load()) }),
	}
	for _, c := range collectors {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	m.fill(d)
	return m, nil
}

// fill makes every series with a bounded label exist from the start: a rate over a series
// that appears with its first event misses that event, and alarms rest on such rates.
func (m *metrics) fill(d *Dispatcher) {
	for o := attempt.Delivered; o <= attempt.Unrouted; o++ {
		m.outcomes.WithLabelValues(o.String())
	}
	for _, r := range tier.Reasons() {
		m.dead.WithLabelValues(string(r))
	}
	for _, kind := range []string{event.DeliveryDead, event.EndpointDisabled, event.EndpointFailing, event.EndpointRecovered} {
		m.feedback.WithLabelValues(kind)
	}
	for _, v := range goneVerdicts {
		m.gone.WithLabelValues(string(v))
	}
	for r := parkLimit; r <= parkLocal; r++ {
		m.parks.WithLabelValues(r.String())
	}
	for _, s := range []circuit.State{circuit.Open, circuit.Closed} {
		m.breakers.WithLabelValues(s.String())
	}
	for _, suffix := range []string{event.EventsSuffix, tier.DueSuffix} {
		m.recordsGone.WithLabelValues(suffix)
		m.unstableSeconds.WithLabelValues(suffix)
		m.unstableRecords.WithLabelValues(suffix)
	}
	m.produceFailures.WithLabelValues(event.EventsSuffix)
	m.produceFailures.WithLabelValues(attempt.Suffix)
	m.produceFailures.WithLabelValues(tier.DeadSuffix)
	for _, step := range d.cfg.Ladder.Steps() {
		m.produceFailures.WithLabelValues(step.Suffix)
	}
}
