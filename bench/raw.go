package bench

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"strconv"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// histograms by file name.
func (r *Result) histograms() map[string]*hdrhistogram.Histogram {
	out := map[string]*hdrhistogram.Histogram{
		"publish": r.Series.Publish, "e2e": r.Series.E2E,
		"baseline-publish": r.Series.BaselinePublish, "baseline-e2e": r.Series.BaselineE2E,
	}
	maps.DeleteFunc(out, func(_ string, h *hdrhistogram.Histogram) bool { return h == nil })
	return out
}

// writeHistogram writes the percentile form that HdrHistogram's own plotters read, in
// milliseconds.
func writeHistogram(w io.Writer, h *hdrhistogram.Histogram) error {
	if _, err := h.PercentilesPrint(w, 5, 1000); err != nil {
		return fmt.Errorf("write histogram: %w", err)
	}
	return nil
}

// writeTimeline writes the curves over time.
func (r *Result) writeTimeline(w io.Writer) error {
	c := csv.NewWriter(w)
	s := r.Series
	rows := [][]string{{"seconds", "accepted", "delivered", "e2e_p99_ms"}}
	for i := range s.Accepted {
		rows = append(rows, []string{
			strconv.FormatFloat(float64(i)*s.Bucket.Seconds(), 'f', 1, 64),
			strconv.Itoa(s.Accepted[i]), strconv.Itoa(s.Delivered[i]),
			strconv.FormatFloat(s.E2EP99Ms[i], 'f', 3, 64),
		})
	}
	if err := c.WriteAll(rows); err != nil {
		return fmt.Errorf("write timeline: %w", err)
	}
	return nil
}
