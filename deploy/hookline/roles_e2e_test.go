package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hookline/hookline/deploy/local/brokertest"
)

// startRole starts hookline run with some roles on free ports and waits until it is ready.
func (i *installation) startRole(roles string) (p *proc, ingest, admin string) {
	i.t.Helper()
	return i.startRoleAt(roles, freeAddr(i.t), freeAddr(i.t))
}

// startRoleAt is startRole on given addresses: the process that comes back after a kill.
func (i *installation) startRoleAt(roles, ingest, admin string) (*proc, string, string) {
	i.t.Helper()
	p := i.start("run", "--roles", roles, "--ingest-addr", ingest, "--admin-addr", admin)
	poll(i.t, func() bool {
		resp, err := http.Get("http://" + admin + "/readyz")
		if err != nil {
			if !p.running() {
				i.t.Fatalf("hookline run --roles %s ended: %s", roles, p.stderr.String())
			}
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return p, "http://" + ingest, "http://" + admin
}

// apart is an installation of processes with roles of their own on a broker of the test,
// with one tenant, acme.
func apart(t *testing.T) (*installation, *brokertest.Broker) {
	t.Helper()
	b := brokertest.Start(t)
	i := &installation{t: t, binary: buildBinary(t), dir: t.TempDir(), prefix: b.Prefix}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "HOOKLINE_") {
			i.environ = append(i.environ, kv)
		}
	}
	file := fmt.Sprintf(`
kafka: {brokers: %q, prefix: %q}
topics: {partitions: 6, replication_factor: 1, min_insync_replicas: 0}
egress: {allow: [127.0.0.0/8], http: true}
ingest: {api_keys: ["acme:key"]}
admin: {token: env:TOKEN}
secret_key: file:secret.key
`, strings.Join(b.Seeds, ","), b.Prefix)
	if err := os.WriteFile(i.dir+"/hookline.yaml", []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(i.dir+"/secret.key", []byte(testKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	i.set("TOKEN", "a-token")
	return i, b
}

// Roles in processes of their own, two of them dispatchers: an endpoint that a change was
// answered for gets every event published after it, whichever process owns the lane.
func TestE2ERolesApart(t *testing.T) {
	i, _ := apart(t)
	i.must("", "config", "check")
	if _, err := i.command("", "run"); err == nil || !strings.Contains(err.Error(), "hookline topics create") {
		t.Fatalf("run without topics: %v", err)
	}
	i.must("", "topics", "create")
	i.must("", "topics", "verify")

	mover, _, _ := i.startRole("retrytiers")
	one, _, _ := i.startRole("dispatcher")
	two, _, _ := i.startRole("dispatcher")
	front, ingest, admin := i.startRole("ingest")
	i.set("HOOKLINE_INGEST_URL", ingest)
	i.set("HOOKLINE_ADMIN_URL", admin)

	shop := startCustomer(t)
	start := time.Now()
	i.must(fmt.Sprintf("endpoints: [{id: shop, url: '%s/healthy'}]", shop.URL), "endpoints", "apply", "-f", "-", "--yes")
	took := time.Since(start)
	const events = 30 // over all six partitions, and so over both dispatchers
	for n := range events {
		body := fmt.Sprintf(`{"event":"message.sent","message_id":"m%d"}`, n)
		var a accepted
		if err := json.Unmarshal([]byte(i.must(body, "events", "publish", "--json")), &a); err != nil {
			t.Fatal(err)
		}
	}
	poll(t, func() bool { return shop.count("/healthy") >= events })
	if took > 5*time.Second {
		t.Errorf("the change was answered after %s", took)
	}
	for _, p := range []*proc{front, two, one, mover} {
		if code, took := p.stop(); code != exitOK || took > drainTime {
			t.Errorf("stop: exit code %d after %s: %s", code, took, p.stderr.String())
		}
	}
	if n := shop.count(""); n != events {
		t.Errorf("%d requests for %d events", n, events)
	}
}
