package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hookline/hookline/deploy/local/brokertest"
)

const applyFile = `
endpoints:
  - id: a
    url: http://127.0.0.1:9/a
    events: [message.*]
    timeout: 5000ms        # the default, written otherwise
    headers: {X-Env: prod}
  - id: b
    url: http://127.0.0.1:9/b
    retry: {max_attempts: 3, cap: 60s}
`

func TestApplyShowsThenChanges(t *testing.T) {
	t.Parallel()
	r := startRig(t, brokertest.Start(t))
	file := writeFile(t, "e.yaml", applyFile)
	stdout, stderr, code := r.cli("", "endpoints", "apply", "-f", file)
	if code != exitOK || !strings.Contains(stdout, "+ a") || !strings.Contains(stdout, "--yes") || len(r.node.store.all()) != 0 {
		t.Errorf("first look: %d %s %s", code, stdout, stderr)
	}
	stdout, stderr, code = r.cli("", "endpoints", "apply", "-f", file, "--yes")
	if code != exitOK || strings.Count(stdout, "whsec_") != 2 || len(r.node.store.all()) != 2 {
		t.Fatalf("create: %d %s %s", code, stdout, stderr)
	}
	if stdout, _, _ = r.cli("", "endpoints", "apply", "-f", file, "--yes"); !strings.Contains(stdout, "no changes") {
		t.Errorf("again: %s", stdout)
	}
	changed := strings.Replace(applyFile, "cap: 60s", "cap: 2m", 1)
	stdout, _, code = r.cli(changed, "endpoints", "apply", "-f", "-", "--yes")
	if code != exitOK || !strings.Contains(stdout, `retry.cap: "1m" -> "2m"`) || strings.Count(stdout, "~ ") != 1 {
		t.Errorf("change: %d %s", code, stdout)
	}
	stdout, _, _ = r.cli("", "endpoints", "list")
	if !strings.Contains(stdout, "http://127.0.0.1:9/b") {
		t.Errorf("list: %s", stdout)
	}
	if stdout, _, code = r.cli("", "endpoints", "set", "a", "retry.cap=7m", "enabled=false"); code != exitOK || !strings.Contains(stdout, `"cap": "7m"`) {
		t.Errorf("set: %d %s", code, stdout)
	}
	for _, args := range [][]string{{"endpoints", "enable", "a"}, {"endpoints", "disable", "a"}, {"endpoints", "get", "a"}, {"endpoints", "delete", "a"}} {
		if _, stderr, code := r.cli("", args...); code != exitOK {
			t.Errorf("%v: %d %s", args, code, stderr)
		}
	}
	if _, stderr, code := r.cli("", "endpoints", "get", "a"); code != exitFailed || strings.Count(stderr, "\n") != 1 {
		t.Errorf("get of nothing: %d %q", code, stderr)
	}
}

func TestApplyPrunesCarefully(t *testing.T) {
	t.Parallel()
	r := startRig(t, brokertest.Start(t))
	var all strings.Builder
	all.WriteString("endpoints:\n")
	for i := range 20 {
		fmt.Fprintf(&all, "  - {id: e%02d, url: 'http://127.0.0.1:9/'}\n", i)
	}
	if _, stderr, code := r.cli(all.String(), "endpoints", "apply", "-f", "-", "--yes"); code != exitOK {
		t.Fatal(stderr)
	}
	without := func(n int) string {
		lines := strings.SplitAfter(strings.TrimSpace(all.String())+"\n", "\n")
		return strings.Join(lines[:21-n], "")
	}
	stdout, _, code := r.cli(without(3), "endpoints", "apply", "-f", "-", "--yes")
	if code != exitOK || !strings.Contains(stdout, "3 endpoints are not in the file and stay") || len(r.node.store.all()) != 20 {
		t.Errorf("without --prune: %d %s", code, stdout)
	}
	_, stderr, code := r.cli(without(3), "endpoints", "apply", "-f", "-", "--yes", "--prune")
	if code != exitFailed || !strings.Contains(stderr, "--force") || len(r.node.store.all()) != 20 {
		t.Errorf("3 of 20: %d %s", code, stderr)
	}
	if _, stderr, code = r.cli(without(2), "endpoints", "apply", "-f", "-", "--yes", "--prune"); code != exitOK || len(r.node.store.all()) != 18 {
		t.Errorf("2 of 20: %d %s", code, stderr)
	}
	if _, stderr, code = r.cli(without(9), "endpoints", "apply", "-f", "-", "--yes", "--prune", "--force"); code != exitOK || len(r.node.store.all()) != 11 {
		t.Errorf("7 of 18 with --force: %d %s", code, stderr)
	}
}

func TestApplyFileFaults(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty":         "",
		"other name":    "endpoint: []",
		"not a list":    "endpoints: {}",
		"unknown field": "endpoints: [{id: a, url: x, bogus: 1}]",
		"no id":         "endpoints: [{url: x}]",
		"twice":         "endpoints: [{id: a}, {id: a}]",
		"scalar":        "endpoints: [5]",
		"broken":        "endpoints: [\n  secret: \"tok",
	} {
		if _, err := parseEndpointFile([]byte(text)); err == nil {
			t.Errorf("%s is accepted", name)
		} else if strings.Contains(err.Error(), "tok") {
			t.Errorf("%s: the error quotes the file: %v", name, err)
		}
	}
}

// FuzzEndpointFile checks that no file panics the reader.
func FuzzEndpointFile(f *testing.F) {
	f.Add([]byte(applyFile))
	f.Add([]byte("endpoints: [5, null, {id: 1}]"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		wanted, err := parseEndpointFile(raw)
		if err != nil {
			return
		}
		if _, _, err := planApply(wanted, map[string]map[string]any{}); err != nil {
			t.Errorf("a file that was read has no plan: %v", err)
		}
	})
}
