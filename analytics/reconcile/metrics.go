package reconcile

import (
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics have labels of bounded sets only: partitions of events, states, ages of hours.
type metrics struct {
	unaccounted *prometheus.GaugeVec // by partition
	byAge       *prometheus.GaugeVec // by age of the hour
	worst       prometheus.Gauge
	states      *prometheus.GaugeVec
	rounds      *prometheus.CounterVec
	complete    atomic.Int64 // Unix ms of the last complete round, or of the start
	proven      atomic.Int64 // Unix ms
}

// ages are the buckets of an hour's age, and their upper ends.
var ages = []struct {
	label string
	below time.Duration
}{{"0-1h", time.Hour}, {"1-6h", 6 * time.Hour}, {"6-24h", 24 * time.Hour}, {"over 24h", 1 << 62}}

func newMetrics(reg prometheus.Registerer, now func() time.Time) (*metrics, error) {
	vec := func(name, help, label string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "hookline_analytics_" + name, Help: help}, []string{label})
	}
	m := &metrics{
		unaccounted: vec("unaccounted_deliveries", "Deliveries of accepted events that are neither final nor provably on their way. Above 0 is a loss, in the pipeline or in ClickHouse: page.", "partition"),
		byAge:       vec("unaccounted_by_age_deliveries", "The same by the age of the hour in which the event was accepted.", "hour_age"),
		worst: prometheus.NewGauge(prometheus.GaugeOpts{Name: "hookline_analytics_unaccounted_worst_hour_deliveries",
			Help: "The most that is unaccounted for of one hour."}),
		states: vec("reconciled_deliveries", "Deliveries of the window by what became of them; accepted is the sum of all others.", "state"),
		rounds: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "hookline_analytics_reconcile_rounds_total",
			Help: "Rounds of the reconciliation: complete, late (somebody was behind), failed."}, []string{"outcome"}),
	}
	for _, o := range []string{"complete", "late", "failed"} {
		m.rounds.WithLabelValues(o)
	}
	m.complete.Store(now().UnixMilli())
	since := func(name, help string, at *atomic.Int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "hookline_analytics_" + name, Help: help}, func() float64 {
			return now().Sub(time.UnixMilli(at.Load())).Seconds()
		})
	}
	m.proven.Store(now().UnixMilli())
	var errs []error
	for _, c := range []prometheus.Collector{m.unaccounted, m.byAge, m.worst, m.states, m.rounds,
		since("reconcile_age_seconds", "Time since the last complete round, or since the start.", &m.complete),
		since("reconcile_proof_age_seconds", "Age of the proof by which waiting deliveries are judged: what should have ended since is not missed yet. About an hour while retries wait that long.", &m.proven)} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

func (m *metrics) provenAt(t time.Time) { m.proven.Store(t.UnixMilli()) }

func (m *metrics) show(t *Totals, now time.Time) {
	for p, n := range t.ByPartition {
		m.unaccounted.WithLabelValues(strconv.Itoa(int(p))).Set(float64(n))
	}
	byAge := map[string]uint64{}
	for at, n := range t.ByHour {
		for _, a := range ages {
			if now.Sub(at.Add(time.Hour)) < a.below {
				byAge[a.label] += n
				break
			}
		}
	}
	for _, a := range ages {
		m.byAge.WithLabelValues(a.label).Set(float64(byAge[a.label]))
	}
	_, worst := t.worst()
	m.worst.Set(float64(worst))
	for state, n := range map[string]uint64{
		"accepted": t.All.Accepted, "delivered": t.All.Delivered, "dead": t.All.Dead, "unrouted": t.All.Unrouted,
		"dropped": t.All.Dropped, "pending": t.All.Pending, "unaccounted": t.All.Unaccounted,
	} {
		m.states.WithLabelValues(state).Set(float64(n))
	}
	m.complete.Store(now.UnixMilli())
}

// hide takes the numbers away when it is another process's turn to count.
func (m *metrics) hide(now time.Time) {
	m.unaccounted.Reset()
	m.byAge.Reset()
	m.states.Reset()
	m.worst.Set(0)
	m.complete.Store(now.UnixMilli())
	m.proven.Store(now.UnixMilli())
}
