package bench

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"math"
	"os"
	"path/filepath"
)

//go:embed report.html.tmpl
var reportText string

var reportTemplate = template.Must(template.New("report").Parse(reportText))

// charts are the pictures of the report.
func (r *Result) charts() []template.HTML {
	if r.Scenario == "ingest" {
		return r.ingestCharts()
	}
	s := r.Series
	seconds := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = (float64(i) + 0.5) * s.Bucket.Seconds()
		}
		return x
	}
	rate := func(name string, counts []int) line {
		l := line{Name: name, X: seconds(len(counts))}
		for _, n := range counts {
			l.Y = append(l.Y, float64(n)/s.Bucket.Seconds())
		}
		return l
	}
	tail := line{Name: "p99", X: seconds(len(s.E2EP99Ms))}
	for i, ms := range s.E2EP99Ms {
		if s.Delivered[i] == 0 {
			ms = math.NaN()
		}
		tail.Y = append(tail.Y, ms)
	}
	e2e := []line{percentiles("hookline", s.E2E)}
	publish := []line{percentiles("hookline", s.Publish)}
	if s.BaselineE2E != nil {
		e2e = append(e2e, percentiles("baseline", s.BaselineE2E))
		publish = append(publish, percentiles("baseline", s.BaselinePublish))
	}
	return []template.HTML{
		chart{Title: "Throughput", X: "seconds since the start", Y: "per second",
			Lines: []line{rate("accepted", s.Accepted), rate("delivered", s.Delivered)}}.SVG(),
		chart{Title: "End-to-end latency over time", X: "seconds since the start (at the delivery)", Y: "ms",
			Lines: []line{tail}}.SVG(),
		chart{Title: "End-to-end latency by percentile", X: "share of the deliveries", Y: "ms",
			Lines: e2e, Ticks: percentileTicks}.SVG(),
		chart{Title: "Publish latency by percentile", X: "share of the posts", Y: "ms",
			Lines: publish, Ticks: percentileTicks}.SVG(),
	}
}

// WriteHTML writes one page that needs nothing else.
func (r *Result) WriteHTML(w io.Writer) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	err = reportTemplate.Execute(w, map[string]any{
		"Result": r, "Rows": r.rows(), "Setup": r.setup(), "Charts": r.charts(), "JSON": string(raw),
	})
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// WriteDir writes result.json, report.html and the raw data (raw.go) into dir, which is made
// if need be.
func (r *Result) WriteDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make report directory: %w", err)
	}
	files := map[string]func(io.Writer) error{
		"result.json":  r.WriteJSON,
		"report.html":  r.WriteHTML,
		"timeline.csv": r.writeTimeline,
	}
	for name, h := range r.histograms() {
		files[name+".hgrm"] = func(w io.Writer) error { return writeHistogram(w, h) }
	}
	for name, write := range files {
		if err := writeFile(filepath.Join(dir, name), write); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(name string, write func(io.Writer) error) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("create %s: %w", filepath.Base(name), err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return write(f)
}
