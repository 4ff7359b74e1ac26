package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event"
)

func options(s Stack) Options {
	o := DefaultOptions()
	o.Stack, o.Duration, o.Warmup, o.Drain = s, 300*time.Millisecond, 100*time.Millisecond, 10*time.Second
	o.Connections, o.Size, o.NoBaseline, o.Broker, o.Version = 4, 300, true, "fake", "v0"
	return o
}

func mustRun(t *testing.T, o Options) *Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestE2EWithItsBaseline(t *testing.T) {
	broker := brokertest.Start(t)
	broker.CreateTopics(t, event.EventsTopic(3))
	f := newFakeStack(t)
	f.kafka, f.prefix = broker.Opts, broker.Prefix
	o := options(f)
	var progress bytes.Buffer
	o.NoBaseline, o.Endpoints, o.Drain, o.Progress, o.Duration = false, 2, 20*time.Second, &progress, 1100*time.Millisecond
	r := mustRun(t, o)
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	if r.Accepted == 0 || r.Delivered != 2*r.Accepted || r.Lost+r.Duplicates != 0 || r.AcceptedPerSecond == 0 || r.DeliveredPerSecond == 0 {
		t.Fatalf("%+v", r)
	}
	if r.Baseline == nil || r.Baseline.PerSecond == 0 || r.Baseline.Lost != 0 || r.Ratio == nil || *r.Ratio <= 0 {
		t.Fatalf("baseline %+v ratio %v", r.Baseline, r.Ratio)
	}
	if r.PublishMs.P50 <= 0 || r.E2EMs.P999 < r.E2EMs.P50 || r.Baseline.E2EMs.P50 <= 0 || r.CPUSecondsPer10k <= 0 || r.PeakRSSMB <= 0 {
		t.Fatalf("%+v", r)
	}
	if len(f.endpoints) != 0 || len(f.removed) != 2 {
		t.Fatalf("endpoints left: %v, removed %v", f.endpoints, f.removed)
	}
	if !strings.Contains(progress.String(), "e2e   1 s  accepted ") {
		t.Fatalf("progress: %q", progress.String())
	}
	topics, err := broker.Client(t).Request(t.Context(), metadataRequest())
	if err != nil {
		t.Fatal(err)
	}
	if left := baselineTopics(topics, broker.Prefix); len(left) > 0 {
		t.Fatalf("topics left: %v", left)
	}
	checkFiles(t, r)
}

// checkFiles writes everything and looks at what a reader would look at.
func checkFiles(t *testing.T, r *Result) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := r.WriteDir(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"report.html": "<svg", "result.json": `"ratio"`, "timeline.csv": "seconds,accepted", "e2e.hgrm": "Percentile",
		"publish.hgrm": "Percentile", "baseline-e2e.hgrm": "Percentile", "baseline-publish.hgrm": "Percentile",
	} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(raw), want) || strings.Contains(string(raw), "NaN") {
			t.Errorf("%s lacks %q or holds NaN:\n%.2000s", name, want, raw)
		}
		if name == "report.html" && (strings.Contains(string(raw), "src=") || strings.Contains(string(raw), "href=")) {
			t.Error("the report needs other files")
		}
	}
	var table bytes.Buffer
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"delivered per second", "ratio to the baseline", "closed loop", "broker fake"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
}

func TestJSONForm(t *testing.T) {
	r := mustRun(t, options(newFakeStack(t)))
	var buf bytes.Buffer
	if err := r.WriteJSON(&buf); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(buf.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"scenario", "accepted", "accepted_per_second", "delivered", "delivered_per_second", "lost", "duplicates",
		"publish_ms", "e2e_ms", "cpu_seconds_per_10k", "peak_rss_mb", "baseline", "ratio", "config", "machine",
	} {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	for _, name := range []string{"publish_ms", "e2e_ms"} {
		for _, q := range []string{"p50", "p99", "p999"} {
			if v, ok := got[name].(map[string]any)[q].(float64); !ok || v <= 0 {
				t.Errorf("%s.%s is %v", name, q, got[name])
			}
		}
	}
	if got["baseline"] != nil || got["ratio"] != nil {
		t.Errorf("skipped, but %v %v", got["baseline"], got["ratio"])
	}
	if faults, ok := got["faults"].([]any); !ok || len(faults) != 0 {
		t.Errorf("faults %v", got["faults"])
	}
}

func TestLostAndDuplicatesComeFromIds(t *testing.T) {
	f := newFakeStack(t)
	f.treat = func(n int) int {
		switch { // one is lost, one comes twice: a count of requests would be right
		case n == 30:
			return 0
		case n == 31:
			return 2
		case n > 32 && n < 38:
			return -1
		}
		return 1
	}
	o := options(f)
	o.Warmup, o.Drain = 0, 600*time.Millisecond
	r := mustRun(t, o)
	if r.Lost != 1 || r.Duplicates != 1 || r.Check.Dead != 5 || r.Delivered != r.Accepted-6 {
		t.Fatalf("%+v", r.Check)
	}
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "1 lost") {
		t.Fatalf("err %v", err)
	}
	if len(r.Check.LostSamples) != 1 || !strings.HasPrefix(r.Check.LostSamples[0], "evt_30 ") {
		t.Fatalf("%v", r.Check.LostSamples)
	}
	var table bytes.Buffer
	if err := r.WriteTable(&table); err != nil || !strings.Contains(table.String(), "FAULT: 1 lost") {
		t.Fatalf("%v\n%s", err, table.String())
	}
}

func TestBadSignaturesAreAFault(t *testing.T) {
	f := newFakeStack(t)
	f.unsafe = true
	r := mustRun(t, options(f))
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "bad signatures") {
		t.Fatalf("err %v", err)
	}
}

func TestOpenLoopKeepsTheRate(t *testing.T) {
	o := options(newFakeStack(t))
	o.Rate, o.Duration = 200, 500*time.Millisecond
	r := mustRun(t, o)
	if r.Accepted != 100 || r.Config.Loop != "open" {
		t.Fatalf("%d accepted, loop %s", r.Accepted, r.Config.Loop)
	}
}

func TestRunWithoutAFigureIsAnError(t *testing.T) {
	lossy := newFakeStack(t)
	lossy.treat = func(int) int { return 0 }
	refusing := newFakeStack(t)
	refusing.refused = "422"
	away := newFakeStack(t)
	away.Close()
	lossyOptions := options(lossy)
	lossyOptions.Drain = 300 * time.Millisecond
	noBroker := options(newFakeStack(t))
	noBroker.NoBaseline = false
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"warm-up loses":      {lossyOptions, "warm-up"},
		"endpoint refused":   {options(refusing), "refused_url"},
		"nothing there":      {options(away), "create endpoint"},
		"no broker":          {noBroker, "--no-baseline"},
		"options not valid":  {Options{Scenario: "x"}, "no hookline"},
		"scenario not known": {Options{Scenario: "x"}, "want one of e2e"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Run(t.Context(), c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v %v", r, err)
			}
		})
	}
}

func TestCancelledRunCleansUp(t *testing.T) {
	f := newFakeStack(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.treat = func(n int) int {
		if n == 20 {
			cancel()
		}
		return 1
	}
	o := options(f)
	o.Duration = time.Minute
	if _, err := Run(ctx, o); err == nil {
		t.Fatal("a cancelled run has a figure")
	}
	if len(f.removed) != 1 {
		t.Fatalf("removed %v", f.removed)
	}
}
