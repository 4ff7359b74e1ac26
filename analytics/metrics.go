package analytics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are all numbers of this room. Counters are bumped where things happen; gauges are read
// when they are scraped.
type metrics struct {
	rows      *prometheus.CounterVec // by table, as what follows
	batchRows *prometheus.HistogramVec
	batchSize *prometheus.HistogramVec
	seconds   *prometheus.HistogramVec
	retries   *prometheus.CounterVec // by table and code
	replayed  *prometheus.CounterVec
	bad       *prometheus.CounterVec
	clamped   *prometheus.CounterVec
	other     *prometheus.CounterVec
	beyond    *prometheus.CounterVec
	gaps      *prometheus.CounterVec // by table and kind

	commits, commitErr prometheus.Counter
	metadata           prometheus.Counter
	serverErr          *prometheus.CounterVec // by class
	exactlyOnce        prometheus.Gauge
}

func newMetrics() *metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "hookline", Subsystem: "analytics", Name: name, Help: help}
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts(opts(name, help)))
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts(opts(name, help)), labels)
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "hookline", Subsystem: "analytics", Name: name, Help: help, Buckets: buckets,
		}, []string{"table"})
	}
	return &metrics{
		rows:        vec("rows_inserted_total", "Rows of successful inserts. A repeated one that the server drops counts again.", "table"),
		batchRows:   histogram("batch_rows", "Rows of an insert.", prometheus.ExponentialBuckets(1, 4, 10)),
		batchSize:   histogram("batch_bytes", "Bytes of an insert, uncompressed.", prometheus.ExponentialBuckets(256, 4, 10)),
		seconds:     histogram("insert_seconds", "Time of a successful insert.", []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}),
		retries:     vec("insert_retries_total", "Inserts that failed and are repeated, by the server's code.", "table", "code"),
		replayed:    vec("intents_replayed_total", "Batches that an earlier owner had announced and that were inserted again.", "table"),
		bad:         vec("bad_records_total", "Records that cannot be understood; they give no row.", "table"),
		clamped:     vec("times_clamped_total", "Rows whose time was too far from that of their record.", "table"),
		other:       vec("words_replaced_total", "Words that were too long or outside their vocabulary.", "table"),
		beyond:      vec("tokens_beyond_window_total", "Repeated inserts older than what the server remembers; their rows were looked for.", "table"),
		gaps:        vec("log_gaps_total", "Partitions whose log did not have what was to be read, by kind: trimmed, lost, recreated.", "table", "kind"),
		commits:     counter("commits_total", "Commits acknowledged."),
		commitErr:   counter("commit_failures_total", "Commits refused or not answered; each is repeated."),
		metadata:    counter("commit_metadata_failures_total", "Commit metadata that could not be read; a batch that it announced may be counted twice."),
		serverErr:   vec("server_failures_total", "Looks at ClickHouse that found it not fit, by class: retry, stop.", "class"),
		exactlyOnce: prometheus.NewGauge(prometheus.GaugeOpts(opts("exactly_once", "1 when the probe has shown that a repeated insert counts once, rollups included."))),
	}
}

// register registers everything; gauges is the collector over the feeds. Known labels start at 0, so
// that a first increase is seen.
func (m *metrics) register(r prometheus.Registerer, gauges prometheus.Collector) error {
	for _, table := range tables {
		for _, v := range []*prometheus.CounterVec{m.rows, m.replayed, m.bad, m.clamped, m.other, m.beyond} {
			v.WithLabelValues(table)
		}
		for _, kind := range []string{gapTrimmed, gapLost, gapRecreated} {
			m.gaps.WithLabelValues(table, kind)
		}
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.rows, m.batchRows, m.batchSize, m.seconds, m.retries, m.replayed, m.bad, m.clamped, m.other, m.beyond, m.gaps,
		m.commits, m.commitErr, m.metadata, m.serverErr, m.exactlyOnce, gauges,
	} {
		errs = append(errs, r.Register(c))
	}
	return errors.Join(errs...)
}

// tables are the values of the label table.
var tables = []string{"attempts", "events", "dead_letters"}

// Values of the label kind.
const (
	gapTrimmed   = "trimmed"
	gapLost      = "lost"
	gapRecreated = "recreated"
)

func (m *metrics) inserted(table string, rows int, bytes int64, took time.Duration) {
	m.rows.WithLabelValues(table).Add(float64(rows))
	m.batchRows.WithLabelValues(table).Observe(float64(rows))
	m.batchSize.WithLabelValues(table).Observe(float64(bytes))
	m.seconds.WithLabelValues(table).Observe(took.Seconds())
}

func (m *metrics) count(table string, c counts) {
	if c.clamped > 0 {
		m.clamped.WithLabelValues(table).Add(float64(c.clamped))
	}
	if c.other > 0 {
		m.other.WithLabelValues(table).Add(float64(c.other))
	}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("hookline", "analytics", name), help, labels, nil)
}

// Capacity stands beside current, so that an alert needs no copy of the configuration.
var (
	descPartitions = desc("partitions", "Partitions owned.", "table")
	descOpening    = desc("partitions_opening", "Partitions owned and not read yet.", "table")
	descTrouble    = desc("partitions_failing", "Partitions whose insert does not succeed, by who heals it: retry = time, stop = an operator.", "table", "class")
	descLag        = desc("lag_records", "Offsets between what is in ClickHouse and the end of the log, of the partitions owned.", "table")
	descAge        = desc("oldest_uninserted_seconds", "Age of the oldest record that was read and is not in ClickHouse.", "table")
	descBytes      = desc("memory_bytes", "Bytes of the rows in memory.")
	descBytesLimit = desc("memory_bytes_limit", "Bound of memory_bytes; at it nothing is fetched.")
	descStalled    = desc("partitions_waiting_for_memory", "Partitions that are not fetched because memory_bytes is at its bound.")
	descInserts    = desc("inserts_running", "Slots for inserts in use.")
	descInsertsMax = desc("inserts_running_limit", "Bound of inserts_running.")
)

// gauges reads the feeds at a scrape.
type gauges struct{ s *Sink }

// Describe implements prometheus.Collector.
func (g gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descPartitions, descOpening, descTrouble, descLag, descAge, descBytes, descBytesLimit, descStalled, descInserts, descInsertsMax,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (g gauges) Collect(ch chan<- prometheus.Metric) {
	put := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for table, n := range g.s.snapshot(time.Now()) {
		put(descPartitions, float64(n.partitions), table)
		put(descOpening, float64(n.opening), table)
		put(descTrouble, float64(n.retrying), table, "retry")
		put(descTrouble, float64(n.stopped), table, "stop")
		put(descLag, float64(n.lag), table)
		put(descAge, n.age.Seconds(), table)
	}
	used, waiting := g.s.memory.inUse()
	put(descBytes, float64(used))
	put(descBytesLimit, float64(g.s.cfg.MemoryBytes))
	put(descStalled, float64(waiting))
	put(descInserts, float64(g.s.slots.busy()))
	put(descInsertsMax, float64(g.s.cfg.Inserts))
}

// numbers are what the gauges show of one table.
type numbers struct {
	partitions, opening, retrying, stopped int
	lag                                    int64
	age                                    time.Duration
}

func (s *Sink) snapshot(now time.Time) map[string]*numbers {
	out := make(map[string]*numbers, len(tables))
	for _, t := range tables {
		out[t] = &numbers{}
	}
	for _, f := range s.owned() {
		f.report(out[f.table], now)
	}
	return out
}

// report adds the numbers of one feed.
func (f *feed) report(n *numbers, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n.partitions++
	if !f.opened || f.reopen != nil {
		n.opening++
	}
	switch {
	case f.trouble == nil:
	case mustStop(f.trouble):
		n.stopped++
	default:
		n.retrying++
	}
	n.lag += max(0, f.logEnd-f.done)
	oldest := int64(0)
	switch {
	case f.holding != nil && f.holding.some():
		oldest = f.holding.firstMs
	case f.open != nil && f.open.some():
		oldest = f.open.firstMs
	case f.opened && f.logEnd > f.next:
		oldest = f.lastMs // at least as old as the one after it is not
	}
	if oldest > 0 {
		n.age = max(n.age, now.Sub(time.UnixMilli(oldest)))
	}
}
