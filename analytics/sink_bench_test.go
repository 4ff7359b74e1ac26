package analytics

import (
	"testing"

	"github.com/hookline/hookline/deploy/local/enginetest"
	"github.com/hookline/hookline/dispatcher/attempt"
)

// BenchmarkSink drains a backlog of attempts into the embedded engine, rollups included, from the
// start of the process to the last commit. The engine is what takes the time.
func BenchmarkSink(b *testing.B) {
	const rows = 100_000
	e := enginetest.Start(b)
	for b.Loop() {
		b.StopTimer()
		r := newRig(b, e)
		r.attempts(1, rows)
		b.StartTimer()
		run := r.start(func(cfg *Config, _ *Sink) {
			*cfg = DefaultConfig()
			cfg.Database = r.db
		})
		r.drained(attempt.Suffix)
		b.StopTimer()
		run.end(b)
		b.StartTimer()
	}
	b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
