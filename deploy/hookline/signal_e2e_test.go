package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A second signal does not wait for the delivery that hangs, and loses nothing: the next
// start makes the same attempt again.
func TestE2ESecondSignalExitsAtOnce(t *testing.T) {
	i := install(t)
	release := make(chan struct{})
	var requests atomic.Int64
	var last atomic.Value
	shop := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		last.Store(r.Header.Get("Webhook-Id") + "/" + r.Header.Get("Webhook-Attempt"))
		if requests.Add(1) == 1 {
			<-release
		}
	}))
	defer shop.Close()
	defer close(release)
	d := i.startDev()
	i.must(fmt.Sprintf("endpoints: [{id: slow, url: %q, timeout: 15s}]", shop.URL), "endpoints", "apply", "-f", "-", "--yes")
	e := post(t, d.ingest, `{"event":"message.sent","message_id":"m"}`)
	poll(t, func() bool { return requests.Load() == 1 })
	for range 2 {
		if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		// The first is seen before the second comes: readiness ends with it.
		poll(t, func() bool { return !d.running() || !isReady(d.admin) })
	}
	start := time.Now()
	<-d.done
	if code := d.cmd.ProcessState.ExitCode(); code != exitFailed || time.Since(start) > 2*time.Second {
		t.Errorf("exit code %d after %s", code, time.Since(start))
	}
	again := i.startDev()
	poll(t, func() bool { return requests.Load() == 2 })
	if got := last.Load(); got != e.ID+"/1" {
		t.Errorf("second start sent %v, want %s/1", got, e.ID)
	}
	if code, _ := again.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

func isReady(admin string) bool {
	resp, err := http.Get(admin + "/readyz")
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
