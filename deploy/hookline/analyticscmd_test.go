package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hookline/hookline/deploy/local/enginetest"
)

func TestAnalyticsMigrate(t *testing.T) {
	t.Parallel()
	env := []string{"HOOKLINE_CLICKHOUSE_DSN=" + enginetest.Start(t).DSN()}
	for range 2 { // a dry run changes nothing
		stdout, stderr, code := command(t, env, "analytics", "migrate", "--dry-run")
		if code != exitOK || !strings.HasPrefix(stdout, "-- 0001_") || !strings.Contains(stdout, "CREATE TABLE IF NOT EXISTS hookline.attempts") {
			t.Fatalf("dry run: %d %s%s", code, stdout, stderr)
		}
	}
	if stdout, stderr, code := command(t, env, "analytics", "migrate"); code != exitOK || !strings.HasPrefix(stdout, "applied 0001_") {
		t.Fatalf("%d %s%s", code, stdout, stderr)
	}
	if stdout, _, code := command(t, env, "analytics", "migrate"); code != exitOK || stdout != "the tables are up to date\n" {
		t.Errorf("again: %d %s", code, stdout)
	}
	var out struct{ Steps []any }
	if stdout, _, code := command(t, env, "analytics", "migrate", "--json"); code != exitOK || json.Unmarshal([]byte(stdout), &out) != nil || out.Steps == nil || len(out.Steps) != 0 {
		t.Errorf("as JSON: %d %s", code, stdout)
	}
	if _, stderr, code := command(t, []string{"HOOKLINE_CLICKHOUSE_DSN=off"}, "analytics", "migrate"); code != exitUsage || !strings.Contains(stderr, "HOOKLINE_CLICKHOUSE_DSN") {
		t.Errorf("off: %d %s", code, stderr)
	}
	if _, stderr, code := command(t, []string{"HOOKLINE_CLICKHOUSE_DSN=http://127.0.0.1:1"}, "analytics", "migrate"); code != exitFailed || strings.Count(stderr, "\n") != 1 {
		t.Errorf("nobody there: %d %s", code, stderr)
	}
}
