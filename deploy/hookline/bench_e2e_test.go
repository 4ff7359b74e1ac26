package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/hookline/hookline/bench"
)

// The whole of a bench in its processes: broker, hookline, the bare ingest and the load.
func TestE2EBenchIngest(t *testing.T) {
	cmd := exec.Command(buildBinary(t), "bench", "ingest", "--duration", "1s", "--connections", "8", "--json")
	cmd.Dir = t.TempDir()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var r bench.Result
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if r.Accepted == 0 || r.Delivered != r.Accepted || r.Lost+r.Duplicates != 0 || r.StackCPUSecondsPer10k <= 0 {
		t.Fatalf("%s", out)
	}
	if r.Ratio == nil || *r.Ratio <= 0 || r.Baseline == nil || r.Baseline.StackCPUSecondsPer10k <= 0 {
		t.Fatalf("no comparison: %s", out)
	}
}
