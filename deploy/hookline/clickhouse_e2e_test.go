package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// The embedded ClickHouse is killed twice while events flow: nobody who publishes or receives notices,
// and afterwards there is one row for each attempt, in the table and in the rollup.
func TestE2EClickHouseCrash(t *testing.T) {
	i := install(t)
	i.withClickHouse()
	var mu sync.Mutex
	got := map[string]int{}
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/story" { // fails once
			if r.Header.Get("Webhook-Attempt") == "1" {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return
		}
		mu.Lock()
		defer mu.Unlock()
		got[r.Header.Get("Webhook-Id")]++
	}))
	defer shop.Close()
	delivered := func() int { mu.Lock(); defer mu.Unlock(); return len(got) }
	d := i.startDev()
	i.must(fmt.Sprintf(`endpoints: [{id: shop, url: %q, events: [message.sent]}, {id: story, url: "%s/story", events: [message.told], retry: {base: 50ms}}]`,
		shop.URL, shop.URL), "endpoints", "apply", "-f", "-", "--yes")

	const events, kills = 300, 2
	pid := 0
	for n := range events {
		if n%(events/(kills+1)) == events/6 && n < events*kills/(kills+1) {
			was := pid
			poll(t, func() bool { pid = engineOf(d.cmd.Process.Pid); return pid != 0 && pid != was })
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		post(t, d.ingest, fmt.Sprintf(`{"event":"message.sent","message_id":"m%d"}`, n))
	}
	poll(t, func() bool { return delivered() == events })
	if !isReady(d.admin) {
		t.Error("not ready because of ClickHouse")
	}
	for _, sql := range []string{
		"SELECT countIf(outcome = 'delivered') FROM hookline.attempts", "SELECT uniqExact(event_id) FROM hookline.attempts",
		"SELECT count() FROM hookline.attempts", "SELECT sum(delivered) FROM hookline.attempts_1m", "SELECT sum(delivered) FROM hookline.attempts_1h",
		"SELECT sum(n) FROM hookline.funnel_1h", "SELECT count() FROM hookline.events",
	} {
		last := ""
		poll(t, func() bool {
			if answer := askClickHouse(d.clickhouse, sql); answer != "" {
				last = answer
			}
			return last == strconv.Itoa(events)
		})
	}
	i.traces(t, post(t, d.ingest, `{"event":"message.told","message_id":"m-story"}`).ID)
	if code, took := d.stop(); code != exitOK {
		t.Errorf("exit code %d after %s: %s", code, took, d.stderr.String())
	}
	poll(t, func() bool { _, err := os.Stat("/proc/" + strconv.Itoa(pid)); return err != nil })
}

// traces looks for the story of an event that failed once: exactly one row per attempt.
func (i *installation) traces(t *testing.T, id string) {
	t.Helper()
	told := ""
	want := "story 1 retry 503; story 2 delivered 200; "
	poll(t, func() bool {
		var trace struct {
			Rows []struct {
				EndpointID string `json:"endpoint_id"`
				Attempt    int    `json:"attempt"`
				Outcome    string `json:"outcome"`
				StatusCode int    `json:"status_code"`
			} `json:"rows"`
		}
		if err := json.Unmarshal([]byte(i.must("", "report", "trace", "--event-id", id, "--format", "json")), &trace); err != nil {
			t.Fatal(err)
		}
		told = ""
		for _, r := range trace.Rows {
			told += fmt.Sprintf("%s %d %s %d; ", r.EndpointID, r.Attempt, r.Outcome, r.StatusCode)
		}
		return len(trace.Rows) >= 2
	})
	if told != want {
		t.Errorf("the trace tells %q, want %q", told, want)
	}
}

// engineOf finds the embedded ClickHouse among the children of a process; 0 while there is none.
func engineOf(parent int) int {
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range dirs {
		line, err := os.ReadFile(path)
		if args := strings.Split(string(line), "\x00"); err != nil || len(args) < 2 || args[1] != engineCommand {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(filepath.Dir(path), "stat"))
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); err != nil || len(f) < 2 || f[0] == "Z" || f[1] != strconv.Itoa(parent) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		return pid
	}
	return 0
}

// askClickHouse returns the one value of a query, "" when there is no answer.
func askClickHouse(dsn, sql string) string {
	resp, err := http.Get(dsn + "/?" + url.Values{"query": {sql}}.Encode())
	if err != nil {
		return ""
	}
	defer resp.Body.Close() //nolint:errcheck // read
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return strings.TrimSpace(string(b))
}
