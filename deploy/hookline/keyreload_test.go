package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hookline/hookline/deploy/local/brokertest"
)

// publishAs posts an event with a key and returns the status.
func publishAs(t *testing.T, ingest, key string) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, ingest+"/v1/events", strings.NewReader(`{"event":"a.b","message_id":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// Keys are added, revoked and spoiled in their file under load: a key that stays is never
// refused, a revoked one is within two seconds, and a broken file changes nothing.
func TestKeysAreReloadedUnderLoad(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys")
	replaceFile(t, file, []byte("dev:kept\ndev:old\n"))
	r := startRigWith(t, brokertest.Start(t), flagValues{"ingest.api_keys": "@" + file}, roleIngest)
	url := r.node.ingestURL()
	ctx, cancel := context.WithCancel(context.Background())
	var load sync.WaitGroup
	var sent atomic.Int64
	for range 3 {
		load.Go(func() {
			for ctx.Err() == nil {
				if status := publishAs(t, url, "kept"); status != http.StatusAccepted {
					t.Errorf("the key that stays: %d", status)
					return
				}
				sent.Add(1)
			}
		})
	}
	defer func() {
		cancel()
		load.Wait()
		if sent.Load() == 0 {
			t.Error("there was no load")
		}
	}()
	if status := publishAs(t, url, "old"); status != http.StatusAccepted {
		t.Fatalf("old key: %d", status)
	}
	began := time.Now()
	replaceFile(t, file, []byte("# rotated\ndev:kept\nacme:new rate=1000\n"))
	poll(t, func() bool { return publishAs(t, url, "old") == http.StatusUnauthorized })
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("a revoked key was taken for %s", took)
	}
	if status := publishAs(t, url, "new"); status != http.StatusAccepted {
		t.Errorf("new key: %d", status)
	}
	if got := *r.node.tenants.Load(); len(got) != 2 || got[1] != "acme" {
		t.Errorf("tenants are %v", got)
	}
	for _, bad := range []string{"", "dev:other\nno tenant\n", "dev:other rate=x\n"} {
		replaceFile(t, file, []byte(bad))
		poll(t, func() bool { return r.node.settingFails(t, "ingest.api_keys") })
		if old, newer := publishAs(t, url, "kept"), publishAs(t, url, "other"); old != http.StatusAccepted || newer != http.StatusUnauthorized {
			t.Errorf("with the file %q: kept key %d, key of the file %d", bad, old, newer)
		}
		replaceFile(t, file, []byte("dev:kept\n"))
		poll(t, func() bool { return !r.node.settingFails(t, "ingest.api_keys") })
	}
}

// settingFails says what hookline_settings_reload_failing shows of a setting.
func (n *node) settingFails(t *testing.T, name string) bool {
	t.Helper()
	families, err := n.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "hookline_settings_reload_failing" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == name {
				return m.GetGauge().GetValue() == 1
			}
		}
	}
	t.Fatalf("no such setting: %s", name)
	return false
}

// SIGHUP reads everything again at once, commands too, and ends nothing.
func TestE2EHangupReadsKeysAgain(t *testing.T) {
	i := install(t)
	file := filepath.Join(i.dir, "vault")
	replaceFile(t, file, []byte("dev:first"))
	i.set("HOOKLINE_API_KEYS", fmt.Sprintf("exec:cat %s", file))
	i.set("HOOKLINE_SECRETS_EXEC_INTERVAL", "0")
	d := i.startDev()
	if status := publishAs(t, d.ingest, "first"); status != http.StatusAccepted {
		t.Fatalf("first key: %d", status)
	}
	replaceFile(t, file, []byte("dev:second"))
	if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	poll(t, func() bool { return publishAs(t, d.ingest, "second") == http.StatusAccepted })
	if status := publishAs(t, d.ingest, "first"); status != http.StatusUnauthorized {
		t.Errorf("first key after it was replaced: %d", status)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if status := publishAs(t, d.ingest, "second"); status != http.StatusAccepted {
			t.Fatalf("with a vault that is gone: %d", status)
		}
	}
	if code, _ := d.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
