package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hookline/hookline/bench/verify"
)

// Result is one run in the form of CONTRACT section 8.
type Result struct {
	Scenario  string    `json:"scenario"`
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`

	Accepted           int        `json:"accepted"`
	AcceptedPerSecond  float64    `json:"accepted_per_second"`
	Delivered          int        `json:"delivered"` // (event, endpoint) pairs
	DeliveredPerSecond float64    `json:"delivered_per_second"`
	Lost               int        `json:"lost"`
	Duplicates         int        `json:"duplicates"`
	PublishMs          Quantiles  `json:"publish_ms"`
	E2EMs              Quantiles  `json:"e2e_ms"`
	DueErrorMs         *Quantiles `json:"due_error_ms,omitempty"` // scenario retry

	CPUSecondsPer10k      float64 `json:"cpu_seconds_per_10k"`       // per 10,000 delivered, everything: stack, load, receiver
	StackCPUSecondsPer10k float64 `json:"stack_cpu_seconds_per_10k"` // 0 when the stack is this process
	PeakRSSMB             float64 `json:"peak_rss_mb"`               // everything, sum of the peaks
	StackPeakRSSMB        float64 `json:"stack_peak_rss_mb"`

	Baseline *Baseline `json:"baseline"` // null without one
	Ratio    *float64  `json:"ratio"`    // delivered_per_second to the baseline's

	Rounds  []Round  `json:"rounds,omitempty"` // figures above are their medians
	Config  Config   `json:"config"`
	Machine Machine  `json:"machine"`
	Load    LoadInfo `json:"load"`
	Check   Check    `json:"check"`
	Faults  []string `json:"faults"` // empty = the run is sound

	// Series are what report.html draws; not part of the JSON form.
	Series Series `json:"-"`
}

// Quantiles of a latency, in milliseconds.
type Quantiles struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Baseline is the bare pipeline under the same load.
type Baseline struct {
	Name              string    `json:"name"`
	PerSecond         float64   `json:"per_second"` // delivered
	AcceptedPerSecond float64   `json:"accepted_per_second"`
	Lost              int       `json:"lost"`
	PublishMs         Quantiles `json:"publish_ms"`
	E2EMs             Quantiles `json:"e2e_ms"`
	// Of scenario ingest: per 10,000 accepted, of the bare process alone.
	StackCPUSecondsPer10k float64 `json:"stack_cpu_seconds_per_10k,omitempty"`
}

// Round is one turn of a scenario that alternates with its baseline.
type Round struct {
	AcceptedPerSecond float64 `json:"accepted_per_second"`
	BaselinePerSecond float64 `json:"baseline_per_second,omitempty"`
	Ratio             float64 `json:"ratio,omitempty"`
	PublishP99Ms      float64 `json:"publish_p99_ms"`
	BaselineP99Ms     float64 `json:"baseline_publish_p99_ms,omitempty"`
	StackCPU          float64 `json:"stack_cpu_seconds_per_10k"`
	BaselineCPU       float64 `json:"baseline_cpu_seconds_per_10k,omitempty"`
}

// Config is what was run.
type Config struct {
	DurationSeconds float64 `json:"duration_seconds"`
	WarmupSeconds   float64 `json:"warmup_seconds"`
	Loop            string  `json:"loop"` // open | closed
	Rate            float64 `json:"rate"`
	Connections     int     `json:"connections"`
	Size            int     `json:"size"`
	Endpoints       int     `json:"endpoints"`
	Messages        int     `json:"messages"`
	Batch           int     `json:"batch,omitempty"`
	Broker          string  `json:"broker"`
}

// LoadInfo is the publisher's side.
type LoadInfo struct {
	Sent     int            `json:"sent"`
	Refused  int            `json:"refused"` // nothing was accepted
	Unknown  int            `json:"unknown"` // may or may not be accepted
	ByStatus map[int]int    `json:"by_status"`
	Errors   map[string]int `json:"errors"`
}

// Check is the verdict by ids, with what only the receiver sees.
type Check struct {
	verify.Report
	Requests     int64 `json:"requests"`
	BadSignature int64 `json:"bad_signature"`
	BadHeaders   int64 `json:"bad_headers"`
}

// Series are the measured load over time and its histograms (microseconds).
type Series struct {
	Bucket    time.Duration
	Accepted  []int     // per bucket
	Delivered []int     // per bucket
	E2EP99Ms  []float64 // per bucket, of the deliveries in it
	Publish   *hdrhistogram.Histogram
	E2E       *hdrhistogram.Histogram
	// Of the baseline; nil without one.
	BaselinePublish *hdrhistogram.Histogram
	BaselineE2E     *hdrhistogram.Histogram
}

// Err is nil for a sound run.
func (r *Result) Err() error {
	if len(r.Faults) == 0 {
		return nil
	}
	return errors.New(r.Scenario + ": " + strings.Join(r.Faults, "; "))
}

// WriteJSON writes the one object of --json.
func (r *Result) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false) // names hold arrows
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

func quantiles(h *hdrhistogram.Histogram) Quantiles {
	if h.TotalCount() == 0 {
		return Quantiles{}
	}
	ms := func(us int64) float64 { return float64(us) / 1000 }
	return Quantiles{
		P50: ms(h.ValueAtQuantile(50)), P99: ms(h.ValueAtQuantile(99)),
		P999: ms(h.ValueAtQuantile(99.9)), Max: ms(h.Max()),
	}
}

// perSecond is n over d, 0 for no time.
func perSecond(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return round(float64(n)/d.Seconds(), 1)
}

// per10k is the cost of ten thousand, 0 for none.
func per10k(d time.Duration, n int) float64 {
	if n == 0 {
		return 0
	}
	return round(d.Seconds()*10_000/float64(n), 3)
}

func megabytes(n int64) float64 { return round(float64(n)/(1<<20), 1) }

func round(v float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(v*p) / p
}
