package retrytiers

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are all numbers of this room. Counters are bumped where things happen; gauges are
// read from the board when they are scraped.
type metrics struct {
	read       *prometheus.CounterVec // by tier
	released   *prometheus.CounterVec // by kind
	dueError   prometheus.Histogram
	produceErr *prometheus.CounterVec // by kind
	commits    prometheus.Counter
	commitErr  prometheus.Counter
	trimmed    *prometheus.CounterVec // by tier
	trimErr    prometheus.Counter
	reopened   prometheus.Counter
	belowStart prometheus.Counter
	metadata   prometheus.Counter
}

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "hookline", Subsystem: "retrytiers", Name: name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "hookline", Subsystem: "retrytiers", Name: name, Help: help}, []string{label})
	}
	return &metrics{
		read:     vec("records_read_total", "Records read from the slots of a retry topic and not known to be done.", "tier"),
		released: vec("records_moved_total", "Records whose copy was acknowledged, by where it went: due, lap, poison.", "kind"),
		dueError: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "hookline", Subsystem: "retrytiers", Name: "due_error_seconds",
			Help:    "Time from a record's due time to the acknowledgement of its copy in due.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60, 600},
		}),
		produceErr: vec("produce_failures_total", "Copies that could not be produced; each is held and tried again.", "kind"),
		commits:    counter("commits_total", "Commits acknowledged."),
		commitErr:  counter("commit_failures_total", "Commits refused or not answered; the next one repeats them."),
		trimmed:    vec("trimmed_offsets_total", "Offsets removed from retry topics behind the commits.", "tier"),
		trimErr:    counter("trim_failures_total", "Trims refused or not answered; the next one repeats them."),
		reopened:   counter("slots_reopened_total", "Slots opened again after a fetch error that the client does not retry."),
		belowStart: counter("slots_below_log_start_total", "Slots whose log begins above their commit: records were removed before their release."),
		metadata:   counter("commit_metadata_failures_total", "Commit metadata that could not be read; what it marked is repeated."),
	}
}

// register registers everything; gauges is the collector over the board.
func (m *metrics) register(r prometheus.Registerer, gauges prometheus.Collector) error {
	var errs []error
	for _, c := range []prometheus.Collector{
		m.read, m.released, m.dueError, m.produceErr, m.commits, m.commitErr,
		m.trimmed, m.trimErr, m.reopened, m.belowStart, m.metadata, gauges,
	} {
		errs = append(errs, r.Register(c))
	}
	return errors.Join(errs...)
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("hookline", "retrytiers", name), help, labels, nil)
}

// Capacity stands beside current, so that an alert needs no copy of the configuration.
var (
	descSlots      = desc("slots", "Slots owned.")
	descOpening    = desc("slots_opening", "Slots owned and not read yet.")
	descPaused     = desc("slots_paused", "Slots not fetched because their buffer is full.")
	descWaiting    = desc("waiting_records", "Records read and not matured, in the buffers of the slots.")
	descHeld       = desc("wheel_records", "Records in memory between maturity and acknowledgement.")
	descHeldLimit  = desc("wheel_records_limit", "Bound of wheel_records; at it nothing is admitted.")
	descBytes      = desc("wheel_bytes", "Bytes in memory between maturity and acknowledgement.")
	descBytesLimit = desc("wheel_bytes_limit", "Bound of wheel_bytes; at it nothing is admitted.")
	descInflight   = desc("inflight_records", "Records with the producer.")
	descHeadAge    = desc("head_age_seconds", "Age of the oldest record that is not done, by tier. Near the topic's retention records are lost.", "tier")
	descOverdue    = desc("overdue_seconds", "Time since the due time of the most overdue record in the wheel, or since the maturity of one that waits for room.")
)

// gauges reads the board at a scrape.
type gauges struct{ m *Mover }

// Describe implements prometheus.Collector.
func (g gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descSlots, descOpening, descPaused, descWaiting, descHeld, descHeldLimit, descBytes, descBytesLimit,
		descInflight, descHeadAge, descOverdue,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (g gauges) Collect(ch chan<- prometheus.Metric) {
	s := g.m.snapshot()
	put := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	put(descSlots, float64(s.slots))
	put(descOpening, float64(s.opening))
	put(descPaused, float64(s.paused))
	put(descWaiting, float64(s.waiting))
	put(descHeld, float64(s.held))
	put(descHeldLimit, float64(g.m.cfg.WheelRecords))
	put(descBytes, float64(s.heldBytes))
	put(descBytesLimit, float64(g.m.cfg.WheelBytes))
	put(descInflight, float64(s.inflight))
	put(descOverdue, float64(s.overdueMs)/1000)
	for tier, ms := range s.headAgeMs {
		put(descHeadAge, float64(ms)/1000, tier)
	}
}

// snapshot is what the gauges show.
type snapshot struct {
	slots, opening, paused, waiting, held, inflight int
	heldBytes, overdueMs                            int64
	headAgeMs                                       map[string]int64 // by tier
}

func (m *Mover) snapshot() snapshot {
	now := m.now().UnixMilli()
	m.mu.Lock()
	defer m.mu.Unlock()
	out := snapshot{headAgeMs: make(map[string]int64)}
	for _, s := range m.cfg.Ladder.Steps() {
		out.headAgeMs[s.Suffix] = 0
	}
	if m.board == nil {
		return out
	}
	out.slots, out.held, out.heldBytes = len(m.board.order), m.board.held, m.board.heldBytes
	for _, s := range m.board.order {
		out.waiting += s.buffered()
		out.inflight += s.inflight
		if s.ledger == nil || s.reopen {
			out.opening++
		}
		if s.paused {
			out.paused++
		}
		if ms, ok := s.headMs(); ok {
			out.headAgeMs[s.suffix] = max(out.headAgeMs[s.suffix], now-ms)
		}
		if w := s.first(); w != nil {
			out.overdueMs = max(out.overdueMs, now-w.matureMs)
		}
		for e := s.oldest; e != nil; e = e.next {
			out.overdueMs = max(out.overdueMs, now-e.dueMs)
		}
	}
	return out
}
