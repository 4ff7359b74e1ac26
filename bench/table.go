package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// row is one line of the table: what is called how, and its texts for hookline and for the
// baseline.
type row struct {
	Name, Value, Baseline string
}

// rows are the figures in the order in which the table and the report show them.
func (r *Result) rows() []row {
	if r.Scenario == "ingest" {
		return r.ingestRows()
	}
	b := r.Baseline
	base := func(text func(b *Baseline) string) string {
		if b == nil {
			return ""
		}
		return text(b)
	}
	rate := func(v float64) string { return fmt.Sprintf("%.1f /s", v) }
	latency := func(q Quantiles) string {
		return fmt.Sprintf("%.2f / %.2f / %.2f / %.2f ms", q.P50, q.P99, q.P999, q.Max)
	}
	out := []row{
		{"accepted", fmt.Sprint(r.Accepted), ""},
		{"accepted per second", rate(r.AcceptedPerSecond), base(func(b *Baseline) string { return rate(b.AcceptedPerSecond) })},
		{"delivered", fmt.Sprint(r.Delivered), ""},
		{"delivered per second", rate(r.DeliveredPerSecond), base(func(b *Baseline) string { return rate(b.PerSecond) })},
		{"lost", fmt.Sprint(r.Lost), base(func(b *Baseline) string { return fmt.Sprint(b.Lost) })},
		{"duplicates", fmt.Sprint(r.Duplicates), ""},
		{"publish p50 / p99 / p99.9 / max", latency(r.PublishMs), base(func(b *Baseline) string { return latency(b.PublishMs) })},
		{"end to end p50 / p99 / p99.9 / max", latency(r.E2EMs), base(func(b *Baseline) string { return latency(b.E2EMs) })},
	}
	if r.DueErrorMs != nil {
		out = append(out, row{"due error p50 / p99 / p99.9 / max", latency(*r.DueErrorMs), ""})
	}
	out = append(out,
		row{"CPU per 10k delivered, all", fmt.Sprintf("%.3f s", r.CPUSecondsPer10k), ""},
		row{"peak RSS, all", fmt.Sprintf("%.1f MB", r.PeakRSSMB), ""},
	)
	if r.StackCPUSecondsPer10k > 0 {
		out = append(out,
			row{"CPU per 10k delivered, stack", fmt.Sprintf("%.3f s", r.StackCPUSecondsPer10k), ""},
			row{"peak RSS, stack", fmt.Sprintf("%.1f MB", r.StackPeakRSSMB), ""},
		)
	}
	if r.Ratio != nil {
		out = append(out, row{"ratio to the baseline", fmt.Sprintf("%.3f", *r.Ratio), "1"})
	}
	return out
}

// setup says in one line what was run and where.
func (r *Result) setup() string {
	c, m := r.Config, r.Machine
	loop := "closed loop"
	if c.Loop == "open" {
		loop = fmt.Sprintf("open loop at %g/s", c.Rate)
	}
	s := fmt.Sprintf("%s: %s, %d connections, %g s after %g s of warm-up, %d-byte bodies",
		r.Scenario, loop, c.Connections, c.DurationSeconds, c.WarmupSeconds, c.Size)
	switch {
	case r.Scenario != "ingest":
		s += fmt.Sprintf(", %d endpoint(s)", c.Endpoints)
	case c.Batch > 0:
		s += fmt.Sprintf(", batches of %d", c.Batch)
	}
	if c.Broker != "" {
		s += ", broker " + c.Broker
	}
	s += fmt.Sprintf("; %d CPUs", m.CPUs)
	if m.CPUModel != "" {
		s += " (" + m.CPUModel + ")"
	}
	return s + ", " + m.Go
}

// WriteTable writes the figures for people.
func (r *Result) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "\thookline"
	if r.Baseline != nil {
		head += "\tbaseline"
	}
	// A tabwriter keeps the first failure and Flush returns it.
	_, _ = fmt.Fprintln(t, head)
	for _, row := range r.rows() {
		line := row.Name + "\t" + row.Value
		if row.Baseline != "" {
			line += "\t" + row.Baseline
		}
		_, _ = fmt.Fprintln(t, line)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	_, err := fmt.Fprintf(w, "\n%s\n", r.setup())
	for _, fault := range r.Faults {
		if err == nil {
			_, err = fmt.Fprintln(w, "FAULT:", fault)
		}
	}
	if err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}
