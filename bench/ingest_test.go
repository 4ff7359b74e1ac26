package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/bench/receiver"
	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event"
)

// lyingIngest produces what it is posted as often as treat says, and says 202 in any case.
type lyingIngest struct {
	*httptest.Server
	client *kgo.Client
	topic  string
	treat  func(n int64) int
	n      atomic.Int64
}

func newLyingIngest(t *testing.T, b *brokertest.Broker, treat func(n int64) int) *lyingIngest {
	t.Helper()
	f := &lyingIngest{client: b.Client(t), topic: event.EventsTopic(3).Name(b.Prefix), treat: treat}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/events", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id := f.take(r.Context(), t, body)
		w.WriteHeader(http.StatusAccepted)
		_, _ = fmt.Fprintf(w, `{"id":%q}`, id)
	})
	mux.HandleFunc("POST /v1/events/batch", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var items []string
		for i, line := range bytes.Split(bytes.TrimSpace(body), []byte("\n")) {
			items = append(items, fmt.Sprintf(`{"index":%d,"status":202,"id":%q}`, i, f.take(r.Context(), t, line)))
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = fmt.Fprintf(w, `{"accepted":%d,"rejected":0,"items":[%s]}`, len(items), strings.Join(items, ","))
	})
	f.Server = httptest.NewServer(mux)
	t.Cleanup(f.Close)
	return f
}

func (f *lyingIngest) take(ctx context.Context, t *testing.T, body []byte) string {
	n := f.n.Add(1)
	id := fmt.Sprintf("evt_%d", n)
	e := event.Event{ID: id, Type: "t", MessageID: string(receiver.MessageID(body)), Sequence: -1}
	for range f.treat(n) {
		r := &kgo.Record{Topic: f.topic, Key: []byte(e.MessageID), Value: body, Headers: e.Headers(nil)}
		if err := f.client.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Errorf("produce: %v", err)
		}
	}
	return id
}

func ingestOptions(t *testing.T, b *brokertest.Broker, url string) Options {
	t.Helper()
	o := DefaultOptions()
	o.Scenario, o.Stack = "ingest", Remote{Ingest: url, Key: "k", Brokers: b.Opts, TopicPrefix: b.Prefix}
	o.Duration, o.Warmup, o.Connections, o.NoBaseline, o.Broker = 200*time.Millisecond, 50*time.Millisecond, 4, true, "fake"
	return o
}

func eventsBroker(t *testing.T) *brokertest.Broker {
	t.Helper()
	b := brokertest.Start(t)
	b.CreateTopics(t, event.EventsTopic(3))
	return b
}

// startBare runs ServeBare until the test ends.
func startBare(t *testing.T, b *brokertest.Broker) Bare {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- ServeBare(ctx, b.Opts, b.Prefix, w); _ = w.Close() }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ServeBare: %v", err)
		}
	})
	var bare Bare
	if _, err := fmt.Fscanf(r, "ready bare=%s topic=%s\n", &bare.URL, &bare.Topic); err != nil {
		t.Fatal(err)
	}
	return bare
}

func TestIngestWithItsBaseline(t *testing.T) {
	for _, batch := range []int{0, 50} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			t.Parallel()
			b := eventsBroker(t)
			o := ingestOptions(t, b, newLyingIngest(t, b, func(int64) int { return 1 }).URL)
			var progress bytes.Buffer
			o.NoBaseline, o.Bare, o.Batch, o.Duration, o.Progress = false, startBare(t, b), batch, 2*minRound, &progress
			r := mustRun(t, o)
			if err := r.Err(); err != nil {
				t.Fatal(err)
			}
			if r.Accepted == 0 || r.Delivered != r.Accepted || r.Lost+r.Duplicates+r.Check.BodyChanged != 0 || r.AcceptedPerSecond == 0 || r.PublishMs.P50 <= 0 {
				t.Fatalf("%+v", r)
			}
			if r.Baseline == nil || r.Baseline.PerSecond == 0 || r.Baseline.Lost != 0 || r.Baseline.PublishMs.P50 <= 0 || r.Ratio == nil || *r.Ratio <= 0 || len(r.Rounds) != 2 {
				t.Fatalf("baseline %+v ratio %v rounds %+v", r.Baseline, r.Ratio, r.Rounds)
			}
			if !strings.Contains(progress.String(), "hookline, round 2: ") {
				t.Fatalf("progress: %q", progress.String())
			}
			checkIngestFiles(t, r)
		})
	}
}

func checkIngestFiles(t *testing.T, r *Result) {
	t.Helper()
	dir := t.TempDir()
	if err := r.WriteDir(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"report.html": "in the log", "result.json": `"rounds"`, "publish.hgrm": "Percentile", "baseline-publish.hgrm": "Percentile",
	} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(raw), want) || strings.Contains(string(raw), "NaN") {
			t.Errorf("%s lacks %q or holds NaN: %v\n%.2000s", name, want, err, raw)
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, "result.json"))
	var form map[string]any
	if err != nil || json.Unmarshal(raw, &form) != nil || form["ratio"] == nil || form["baseline"] == nil {
		t.Errorf("%v %s", err, raw)
	}
	var table bytes.Buffer
	if err := r.WriteTable(&table); err != nil || !strings.Contains(table.String(), "found in the log") {
		t.Errorf("%v\n%s", err, table.String())
	}
}

func TestIngestFindsWhatTheLogLacks(t *testing.T) {
	for _, batch := range []int{0, 10} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			t.Parallel()
			b := eventsBroker(t)
			o := ingestOptions(t, b, newLyingIngest(t, b, func(n int64) int {
				switch n { // one is lost, one is there twice: a count of records would be right
				case 5:
					return 0
				case 6:
					return 2
				}
				return 1
			}).URL)
			o.Batch, o.Warmup = batch, 0
			r := mustRun(t, o)
			if r.Lost != 1 || r.Duplicates != 1 || r.Delivered != r.Accepted-1 || len(r.Check.LostSamples) != 1 || r.Check.LostSamples[0] != "evt_5 log" {
				t.Fatalf("%+v", r.Check)
			}
			if err := r.Err(); err == nil || !strings.Contains(err.Error(), "1 lost") || !strings.Contains(err.Error(), "1 twice in the log") {
				t.Fatalf("err %v", err)
			}
		})
	}
}

func TestIngestWithoutAFigureIsAnError(t *testing.T) {
	b := eventsBroker(t)
	away := newLyingIngest(t, b, func(int64) int { return 1 })
	url := away.URL
	away.Close()
	noLog := ingestOptions(t, b, url)
	noLog.Stack = Remote{Ingest: url}
	noBare := ingestOptions(t, b, url)
	noBare.NoBaseline = false
	noTopic := ingestOptions(t, b, url)
	noTopic.Stack = Remote{Ingest: url, Brokers: b.Opts, TopicPrefix: "none."}
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"nothing there": {ingestOptions(t, b, url), "nothing was accepted"},
		"no log":        {noLog, "cannot be read back"},
		"no baseline":   {noBare, "--no-baseline"},
		"no topic":      {noTopic, "none.events"},
	} {
		if r, err := Run(t.Context(), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v %v", name, r, err)
		}
	}
	o := ingestOptions(t, b, url)
	o.Batch = 1001
	if o.Validate() == nil {
		t.Error("1001 in a batch are accepted")
	}
	o.Batch, o.Scenario = 10, "e2e"
	if o.Validate() == nil {
		t.Error("e2e takes a batch")
	}
}

// Bare groups keep a rate like the load generator and count what failed apart.
func TestBareGroupsKeepTheRate(t *testing.T) {
	b := eventsBroker(t)
	bare := startBare(t, b)
	s := &session{opts: ingestOptions(t, b, ""), id: "run"}
	s.opts.Batch, s.opts.Rate, s.opts.Connections = 10, 2000, 3
	load, err := s.groupLoad(bare.URL)(t.Context(), "x", 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	load.each(func(id string, _ uint64) { ids[id] = true })
	if load.accepted != 400 || len(ids) != 400 || load.latency.TotalCount() != 400 || load.info.Sent != 400 {
		t.Fatalf("%+v, %d ids", load, len(ids))
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := median(c.in); got != c.want {
			t.Errorf("median of %v is %v", c.in, got)
		}
	}
}
