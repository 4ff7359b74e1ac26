package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookline/hookline/deploy/local/brokertest"
)

func TestPublishPrintsWhatWasAccepted(t *testing.T) {
	t.Parallel()
	r := startRig(t, brokertest.Start(t), roleIngest)
	stdout, stderr, code := r.cli(`{"event":"message.sent","message_id":"m1"}`, "events", "publish")
	if code != exitOK || !strings.HasPrefix(stdout, "evt_u") || !strings.Contains(stdout, "message_id=m1") {
		t.Errorf("publish: %d %s %s", code, stdout, stderr)
	}
	file := writeFile(t, "e.json", `{"event":"message.sent","message_id":"m2"}`)
	first, _, _ := r.cli("", "events", "publish", file, "--idempotency-key", "k", "--json")
	second, _, code := r.cli("", "events", "publish", file, "--idempotency-key", "k", "--json")
	id := func(s string) string { _, s, _ = strings.Cut(s, `"id": "`); s, _, _ = strings.Cut(s, `"`); return s }
	if code != exitOK || id(first) != id(second) || !strings.HasPrefix(id(first), "evt_k") {
		t.Errorf("ids %s %s", first, second)
	}
	if _, stderr, code = r.cli(`{"event":"a b","message_id":"m"}`, "events", "publish"); code != exitFailed || !strings.Contains(stderr, "invalid_field") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("bad event: %d %s", code, stderr)
	}
	if _, _, code = r.cli("", "events", "publish"); code != exitUsage {
		t.Errorf("empty event: %d", code)
	}
	if _, stderr, code = r.cli("{}", "events", "publish", "--api-key", "wrong"); code != exitFailed || !strings.Contains(stderr, "credential") {
		t.Errorf("wrong key: %d %s", code, stderr)
	}
}

func TestClientErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	_, stderr, code := command(t, nil, "endpoints", "list", "--admin", "http://127.0.0.1:1")
	if code != exitFailed || !strings.Contains(stderr, "hookline dev") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("nobody there: %d %s", code, stderr)
	}
	if _, stderr, code = command(t, nil, "endpoints", "list", "--admin", "localhost:1"); code != exitUsage {
		t.Errorf("no URL: %d %s", code, stderr)
	}
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	if _, stderr, code = command(t, nil, "endpoints", "list", "--admin", s.URL); code != exitFailed || !strings.Contains(stderr, "is not hookline") {
		t.Errorf("another server: %d %s", code, stderr)
	}
}

func TestClientFindsServersFromSettings(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "h.yaml", "admin: {addr: ':9999', token: fromfile}\ningest: {api_keys: ['a:sha256="+strings.Repeat("0", 64)+"', 'a:plain']}\n")
	a := &app{cli: &cli{Config: file}, environ: []string{"HOOKLINE_INGEST_ADDR=127.0.0.1:7777"}}
	admin, err := a.adminClient(adminFlags{})
	if err != nil || admin.base != "http://127.0.0.1:9999" || admin.token != "fromfile" {
		t.Errorf("%+v %v", admin, err)
	}
	ingest, err := a.ingestClient(ingestFlags{})
	if err != nil || ingest.base != "http://127.0.0.1:7777" || ingest.token != "plain" {
		t.Errorf("%+v %v", ingest, err)
	}
	a.environ = append(a.environ, "HOOKLINE_ADMIN_URL=http://h:1/", "HOOKLINE_ADMIN_TOKEN=fromenv")
	if admin, err = a.adminClient(adminFlags{}); err != nil || admin.base != "http://h:1" || admin.token != "fromenv" {
		t.Errorf("%+v %v", admin, err)
	}
	if admin, err = a.adminClient(adminFlags{Admin: "http://f:1", Token: "flag"}); err != nil || admin.base != "http://f:1" || admin.token != "flag" {
		t.Errorf("%+v %v", admin, err)
	}
}

func TestSecretKeyIsMadeOnceAndKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	first, second := &Config{DataDir: dir}, &Config{DataDir: dir}
	if err := ensureSecretKey(first); err != nil {
		t.Fatal(err)
	}
	if err := ensureSecretKey(second); err != nil || first.SecretKeys[0] != second.SecretKeys[0] {
		t.Errorf("second: %v", err)
	}
	path := filepath.Join(dir, "secret.key")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".secret*")); err != nil || len(left) > 0 {
		t.Errorf("left over: %v %v", left, err)
	}
	if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ensureSecretKey(&Config{DataDir: dir}); err == nil {
		t.Error("a damaged key is replaced: every secret would be lost")
	}
}

func TestPortInUseIsToldPlainly(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	addr := strings.TrimPrefix(s.URL, "http://")
	_, stderr, code := command(t, []string{"HOOKLINE_ADMIN_ADDR=" + addr, "HOOKLINE_DATA_DIR=" + t.TempDir()}, "dev")
	if code != exitFailed || !strings.Contains(stderr, "HOOKLINE_ADMIN_ADDR") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("dev on a port in use: %d %q", code, stderr)
	}
}

func TestServeRefusals(t *testing.T) {
	t.Parallel()
	if _, stderr, code := command(t, nil, "dev", "--admin-addr", "0.0.0.0:1"); code != exitFailed || !strings.Contains(stderr, "admin.addr") {
		t.Errorf("dev on all addresses: %d %s", code, stderr)
	}
	if _, stderr, code := command(t, nil, "run"); code != exitFailed || !strings.Contains(stderr, "admin.token") || !strings.Contains(stderr, "secret_key") || !strings.Contains(stderr, "ingest.api_keys") {
		t.Errorf("run without secrets: %d %s", code, stderr)
	}
	if _, stderr, code := command(t, nil, "run", "--roles", "chef"); code != exitUsage || !strings.Contains(stderr, "dispatcher") {
		t.Errorf("run of no role: %d %s", code, stderr)
	}
}
