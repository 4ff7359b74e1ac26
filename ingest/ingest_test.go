package ingest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event"
)

const goodBody = `{"event":"message.delivered","message_id":"01HZY8Q3M6","status":"delivered","occurred_at":"2026-07-19T09:15:25Z"}`

// room is a running server with a client of its own.
type room struct {
	t      testing.TB
	server *Server
	addr   string
	http   *http.Client
	stop   func() error // cancels Run and returns what it returned; may be called again
	reg    *prometheus.Registry
}

func testConfig(change ...func(*Config)) Config {
	cfg := DefaultConfig()
	cfg.Addr = "127.0.0.1:0"
	cfg.APIKeys = []string{"dev:secret", "acme:other"}
	for _, fn := range change {
		fn(&cfg)
	}
	return cfg
}

// launch runs a server until the test ends and returns without waiting for it to be ready.
func launch(t testing.TB, opts []kgo.Opt, prefix string, change ...func(*Config)) *room {
	t.Helper()
	return launchWith(t, testConfig(change...), Deps{Kafka: opts, Prefix: prefix})
}

// launchWith is launch with dependencies of the test.
func launchWith(t testing.TB, cfg Config, deps Deps) *room {
	t.Helper()
	r := &room{t: t, reg: prometheus.NewRegistry(), http: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	deps.Metrics = r.reg
	var err error
	if r.server, err = New(cfg, deps); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	var ran error
	go func() {
		ran = r.server.Run(ctx)
		close(ended)
	}()
	r.stop = func() error {
		cancel()
		<-ended
		return ran
	}
	t.Cleanup(func() {
		r.http.CloseIdleConnections()
		if err := r.stop(); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
	eventually(t, func() bool { return r.server.Addr() != "" })
	r.addr = r.server.Addr()
	return r
}

// start is launch on a broker with the events topic, waiting until the server is ready.
func start(t testing.TB, change ...func(*Config)) (*room, *brokertest.Broker) {
	t.Helper()
	b := brokertest.Start(t)
	b.CreateTopics(t, event.EventsTopic(4))
	r := launch(t, b.Opts, b.Prefix, change...)
	r.ready()
	return r, b
}

// startFake is start on a broker of its own whose answers the test decides about.
func startFake(t testing.TB, change ...func(*Config)) (*room, *kfake.Cluster) {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "fault.events"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	r := launch(t, []kgo.Opt{kgo.SeedBrokers(fake.ListenAddrs()...)}, "fault.", change...)
	r.ready()
	return r, fake
}

func (r *room) ready() {
	r.t.Helper()
	eventually(r.t, func() bool { return r.server.Ready() == nil })
}

func eventually(t testing.TB, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for !done() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("did not happen within 30 s")
		}
	}
}

// answer is a response as the tests look at it.
type answer struct {
	status int
	header http.Header
	body   []byte
	// Members of the body, whichever it has.
	Type, Title, Code, Field, Detail string
	Status                           int
	ID                               string
	MessageID                        string `json:"message_id"`
	Partition                        int32
	Offset                           int64
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, a.body) }

func answerOf(t testing.TB, resp *http.Response) answer {
	t.Helper()
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, body: body, Partition: -1, Offset: -1}
	if strings.Contains(resp.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(body, &a); err != nil && len(body) > 0 {
			t.Fatalf("answer is not JSON: %q", body)
		}
	}
	return a
}

// post publishes a body with the key of tenant dev; headers are pairs, an empty value
// removes one.
func (r *room) post(body string, headers ...string) answer {
	r.t.Helper()
	return r.do("POST", PathEvents, body, headers...)
}

func (r *room) do(method, path, body string, headers ...string) answer {
	r.t.Helper()
	req, err := http.NewRequest(method, "http://"+r.addr+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer secret")
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
		} else {
			req.Header.Add(headers[i], headers[i+1])
		}
	}
	resp, err := r.http.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	a := answerOf(r.t, resp)
	checkAnswer(r.t, method, path, a)
	return a
}

// raw sends bytes as they are and returns the answers until the server closes or has given n.
func (r *room) raw(n int, text string) []answer {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	go func() { _, _ = conn.Write([]byte(text)) }()
	br := bufio.NewReader(conn)
	var out []answer
	for range n {
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			r.t.Fatalf("read answer %d: %v", len(out)+1, err)
		}
		out = append(out, answerOf(r.t, resp))
	}
	return out
}

// request is the bytes of a good publish with other headers added.
func request(body string, headers ...string) string {
	return "POST /v1/events HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer secret\r\nContent-Type: application/json\r\n" +
		strings.Join(append(headers, ""), "\r\n") + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
}

// fetch reads one record of the events topic.
func fetch(t testing.TB, b *brokertest.Broker, partition int32, offset int64) *kgo.Record {
	t.Helper()
	topic := event.EventsTopic(0).Name(b.Prefix)
	cl := b.Client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(offset)}}))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		fetches := cl.PollRecords(ctx, 1)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		if records := fetches.Records(); len(records) > 0 {
			if !bytes.Equal(records[0].Key, nil) && records[0].Offset != offset {
				t.Fatalf("got offset %d, want %d", records[0].Offset, offset)
			}
			return records[0]
		}
	}
}

func (r *room) metric(name string, labels ...string) float64 {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			match := true
			for i, l := range m.GetLabel() {
				match = match && 2*i+1 < len(labels) && l.GetName() == labels[2*i] && l.GetValue() == labels[2*i+1]
			}
			if match {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	r.t.Fatalf("no metric %s %v", name, labels)
	return 0
}
