package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hookline/hookline/deploy/local/brokertest"
)

// rig is a node on a test's broker.
type rig struct {
	t      *testing.T
	node   *node
	client *http.Client
}

// startRig starts a node with the given roles; it stops when the test ends.
func startRig(t *testing.T, b *brokertest.Broker, roles ...string) *rig {
	t.Helper()
	return startRigWith(t, b, nil, roles...)
}

// startRigWith is startRig with settings of the test.
func startRigWith(t *testing.T, b *brokertest.Broker, more flagValues, roles ...string) *rig {
	t.Helper()
	flags := flagValues{
		"kafka.brokers": strings.Join(b.Seeds, ","), "kafka.prefix": b.Prefix, "topics.partitions": "3", "topics.replication_factor": "1",
		"ingest.addr": "127.0.0.1:0", "admin.addr": "127.0.0.1:0", "data_dir": t.TempDir(), "secret_key": testKey,
		"dispatcher.instance_id": "rig-" + shortID(), "retrytiers.instance_id": "rig-" + shortID(),
	}
	maps.Copy(flags, more)
	cfg, problems := decodeFile(t, "{}", nil, flags, dev)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	n := newNode(cfg, roles, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	var err error
	check := func(what string) {
		t.Helper()
		if err != nil {
			cancel()
			n.close()
			t.Fatalf("%s: %v", what, err)
		}
	}
	err = n.listen()
	check("listen")
	n.base, err = newKafkaBase(cfg.Kafka, n.log, n.reg)
	check("kafka options")
	n.cluster, err = openCluster(ctx, cfg, n.base.options("admin"), topicSpecs(cfg), n.log)
	check("open cluster")
	n.onClose(n.cluster.close)
	_, err = n.cluster.create(ctx)
	check("create topics")
	parts, err := n.parts()
	check("make parts")
	done := make(chan error, 1)
	go func() { done <- runParts(ctx, parts, drainTime, n.health.stopping, n.log) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("stop: %v", err)
		}
		n.close()
	})
	wait, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	if !n.waitReady(wait) {
		report, _ := n.health.report()
		t.Fatalf("not ready: %v", report)
	}
	return &rig{t: t, node: n, client: &http.Client{Timeout: time.Minute}}
}

// answer is a response, read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) json(t *testing.T) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(a.body, &m); err != nil {
		t.Fatalf("answer %d is not JSON: %s", a.status, a.body)
	}
	return m
}

// call sends a request to the admin listener with the token; header pairs follow the body.
func (r *rig) call(method, path, body string, header ...string) answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, r.node.adminURL()+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer dev")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			req.Header.Del(header[i])
		}
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	a := answer{resp.StatusCode, resp.Header, raw}
	r.documented(method, path, a)
	return a
}

// want fails the test unless the answer has the status and, for a problem, the code.
func (r *rig) want(a answer, status int, code string) answer {
	r.t.Helper()
	if a.status != status {
		r.t.Errorf("status %d, want %d: %s", a.status, status, a.body)
		return a
	}
	if code != "" {
		if got := a.json(r.t)["code"]; got != code || a.header.Get("Content-Type") != "application/problem+json" {
			r.t.Errorf("code %v (%s), want %s", got, a.header.Get("Content-Type"), code)
		}
	}
	return a
}

// cli runs a client command against the rig.
func (r *rig) cli(stdin string, args ...string) (stdout, stderr string, code int) {
	r.t.Helper()
	var out, errOut bytes.Buffer
	environ := []string{"HOOKLINE_ADMIN_URL=" + r.node.adminURL(), "HOOKLINE_INGEST_URL=" + r.node.ingestURL(), "HOOKLINE_ADMIN_TOKEN=dev", "HOOKLINE_API_KEY=dev"}
	a := &app{stdin: strings.NewReader(stdin), stdout: &out, stderr: &errOut, environ: environ}
	code = a.run(args)
	return out.String(), errOut.String(), code
}
