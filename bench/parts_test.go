package bench

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func metadataRequest() kmsg.Request {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil // all
	return req
}

// baselineTopics are the topics of an answer that a baseline made.
func baselineTopics(res kmsg.Response, prefix string) (out []string) {
	for _, t := range res.(*kmsg.MetadataResponse).Topics {
		if t.Topic != nil && strings.HasPrefix(*t.Topic, prefix+"bench-") {
			out = append(out, *t.Topic)
		}
	}
	return out
}

func TestParseStat(t *testing.T) {
	line := "4242 (a) b (c) S 17 4242 4242 0 -1 4194304 100 200 0 0 11 22 33 44 20 0 1 0 5 6 7"
	s, ok := parseStat([]byte(line))
	if !ok || s.parent != 17 || s.ticks != 11+22+33+44 {
		t.Fatalf("%+v %v", s, ok)
	}
	for _, bad := range []string{"", "1 (x", "1 (x) S", "1 (x) S a 0 0 0 0 0 0 0 0 0 1 2 3 4", "1 (x) S 1 0 0 0 0 0 0 0 0 0 1 2 3 x"} {
		if _, ok := parseStat([]byte(bad)); ok {
			t.Errorf("accepted %q", bad)
		}
	}
}

// FuzzParseStat: never panics.
func FuzzParseStat(f *testing.F) {
	f.Add([]byte("4242 (a) b (c) S 17 4242 4242 0 -1 4194304 100 200 0 0 11 22 33 44 20 0 1 0 5 6 7"))
	f.Fuzz(func(_ *testing.T, b []byte) { parseStat(b) })
}

func TestUsage(t *testing.T) {
	u := selfUsage()
	if u.CPU <= 0 || u.PeakRSS < 1<<20 || u.PeakRSS > 1<<36 {
		t.Fatalf("%+v", u)
	}
	if got := treeUsage(nil); got != (Usage{}) {
		t.Fatalf("no processes use %+v", got)
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return // nothing more to see on this system
	}
	// A shell that waits for its input, with a child of its own: both are in the tree.
	cmd := exec.Command("sh", "-c", "cat | cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = cmd.Wait() }()
	for deadline := time.Now().Add(10 * time.Second); ; {
		one, all := peakRSS(cmd.Process.Pid), treeUsage([]int{cmd.Process.Pid}).PeakRSS
		if one > 0 && all > one {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("tree of %d bytes, root of %d", all, one)
		}
		<-time.After(10 * time.Millisecond)
	}
	if got := treeUsage([]int{os.Getpid()}); got != (Usage{}) {
		t.Fatalf("this process counts by getrusage, and again by /proc: %+v", got)
	}
}

func TestMachineNamesNoHost(t *testing.T) {
	m := thisMachine()
	if m.OS == "" || m.CPUs < 1 || m.Go == "" {
		t.Fatalf("%+v", m)
	}
}

func TestChartsHoldWhatTheyAreGiven(t *testing.T) {
	for name, c := range map[string]chart{
		"empty":    {Title: "t"},
		"zeroes":   {Lines: []line{{Name: "a", X: []float64{0, 1}, Y: []float64{0, 0}}}},
		"gap":      {Lines: []line{{Name: "a", X: []float64{0, 1, 2}, Y: []float64{1, math.NaN(), 3}}}},
		"<script>": {Title: "<script>", X: "<x>", Lines: []line{{Name: "<a>", X: []float64{1}, Y: []float64{1}}}},
	} {
		svg := string(c.SVG())
		if !strings.HasPrefix(svg, "<svg") || !strings.HasSuffix(svg, "</svg>") ||
			strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") || strings.Contains(svg, "<script>") {
			t.Errorf("%s: %s", name, svg)
		}
	}
	if d := path(line{X: []float64{0, 1, 2}, Y: []float64{1, math.NaN(), 3}}, func(x float64) float64 { return x }, func(y float64) float64 { return y }); strings.Count(d, "M") != 2 {
		t.Errorf("a gap does not break the curve: %s", d)
	}
}

func TestNiceStep(t *testing.T) {
	for limit, want := range map[float64]float64{0: 1, 1: 0.2, 1.9: 0.2, 3: 0.5, 7: 1, 10: 2, 12345: 2000} {
		if got := niceStep(limit); math.Abs(got-want) > 1e-9 {
			t.Errorf("niceStep(%g) = %g, want %g", limit, got, want)
		}
	}
}

func TestTableWithoutBaseline(t *testing.T) {
	due := Quantiles{P50: 1}
	r := &Result{Scenario: "x", DueErrorMs: &due, StackCPUSecondsPer10k: 1, Config: Config{Loop: "open", Rate: 5}}
	var b bytes.Buffer
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	if s := b.String(); strings.Contains(s, "baseline") || !strings.Contains(s, "due error") || !strings.Contains(s, "stack") || !strings.Contains(s, "open loop at 5/s") {
		t.Fatal(s)
	}
}
