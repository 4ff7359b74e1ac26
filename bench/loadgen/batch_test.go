package loadgen

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// batchIngest answers batches; verdict says the status of item i.
func batchIngest(t *testing.T, verdict func(line int) int, hashes *sync.Map) *httptest.Server {
	t.Helper()
	var n int
	var mu sync.Mutex
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/events/batch" || r.Header.Get("Content-Type") != "application/x-ndjson" {
			http.Error(w, "bad", http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		var items []string
		status := http.StatusAccepted
		for i, line := range bytes.Split(bytes.TrimSuffix(raw, []byte("\n")), []byte("\n")) {
			n++
			if code := verdict(n); code != http.StatusAccepted {
				status = http.StatusMultiStatus
				items = append(items, fmt.Sprintf(`{"index":%d,"status":%d,"code":"x"}`, i, code))
				continue
			}
			hashes.Store(fmt.Sprintf("evt_%d", n), xxhash.Sum64(line))
			items = append(items, fmt.Sprintf(`{"index":%d,"status":202,"id":"evt_%d"}`, i, n))
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"items":[%s]}`, strings.Join(items, ","))
	}))
	t.Cleanup(s.Close)
	return s
}

func TestBatchKeepsTheVerdictOfEachItem(t *testing.T) {
	var hashes sync.Map
	s := batchIngest(t, func(n int) int {
		if n == 7 || n == 30 {
			return http.StatusBadRequest
		}
		return http.StatusAccepted
	}, &hashes)
	cfg := DefaultConfig()
	cfg.URL, cfg.APIKey, cfg.Connections, cfg.Batch, cfg.Count, cfg.Duration = s.URL+"/v1/events/batch", "k", 3, 10, 95, 0
	r := run(t, cfg)
	if r.Sent != 95 || r.Accepted != 93 || r.ByStatus[202] != 93 || r.ByStatus[400] != 2 || r.Refused() != 2 || r.Unknown() != 0 {
		t.Fatalf("%+v", r)
	}
	r.Each(func(a Accepted) bool {
		if want, ok := hashes.Load(a.ID); !ok || want != a.BodyHash {
			t.Errorf("%s: hash %x, sent %x", a.ID, a.BodyHash, want)
		}
		return true
	})
}

func TestBatchAnswerThatDoesNotAddUp(t *testing.T) {
	for _, answer := range []string{``, `{"items":[]}`, `{"items":[{"id":"a"},{"id":""}]}`, `{"items":[{"id":"a"}]}`, `{"items":[{"id":"a"},{"id":"b"},{"id":"c"}]}`} {
		for _, status := range []int{http.StatusAccepted, http.StatusMultiStatus} {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				_, _ = io.WriteString(w, answer)
			}))
			cfg := DefaultConfig()
			cfg.URL, cfg.APIKey, cfg.Connections, cfg.Batch, cfg.Count, cfg.Duration = s.URL+"/v1/events/batch", "k", 1, 2, 2, 0
			if r := run(t, cfg); r.Accepted != 0 || r.Unknown() != 2 || r.Errors["bad_batch_answer"] != 2 {
				t.Errorf("%d %s: %+v", status, answer, r)
			}
			s.Close()
		}
	}
}

// FuzzBatchAnswer: whatever the answer, there is a verdict for each item or for none.
func FuzzBatchAnswer(f *testing.F) {
	f.Add([]byte(`{"items":[{"index":0,"status":202,"id":"a"},{"index":1,"status":400}]}`))
	f.Add([]byte(`"id":"a","id":"b`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, read := range []func([]byte, int, func(int, int, []byte)) bool{eachAccepted, eachVerdict} {
			next := 0
			ok := read(body, 2, func(i, _ int, _ []byte) {
				if i != next {
					t.Fatalf("item %d after %d", i, next)
				}
				next++
			})
			if ok && next != 2 || !ok && next != 0 {
				t.Fatalf("%v after %d verdicts", ok, next)
			}
		}
	})
}
