package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/signature"
)

// fakeStack is a hookline of a few lines: it accepts, and delivers at once, signed.
type fakeStack struct {
	*httptest.Server
	kafka  []kgo.Opt
	prefix string
	// treat says how often event n is delivered; nil = once. 0 loses it, -1 makes it dead.
	treat   func(n int) int
	unsafe  bool   // sign with another secret
	refused string // status of endpoint creation, "" = created

	mu        sync.Mutex
	endpoints map[string]fakeEndpoint
	removed   []string
	dead      map[string][]string // endpoint -> event ids
	n         int
	wg        sync.WaitGroup
}

type fakeEndpoint struct {
	spec endpointSpec
	key  signature.Key
}

func newFakeStack(t *testing.T) *fakeStack {
	t.Helper()
	f := &fakeStack{endpoints: map[string]fakeEndpoint{}, dead: map[string][]string{}, prefix: "t."}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/events", f.publish)
	mux.HandleFunc("POST /v1/endpoints", f.create)
	mux.HandleFunc("DELETE /v1/endpoints/{id}", f.remove)
	mux.HandleFunc("GET /v1/dead-letters", f.deadLetters)
	f.Server = httptest.NewServer(mux)
	t.Cleanup(func() { f.Close(); f.wg.Wait() })
	return f
}

func (f *fakeStack) IngestURL() string  { return f.URL }
func (f *fakeStack) AdminURL() string   { return f.URL }
func (f *fakeStack) APIKey() string     { return "k" }
func (f *fakeStack) AdminToken() string { return "t" }
func (f *fakeStack) Kafka() []kgo.Opt   { return f.kafka }
func (f *fakeStack) Prefix() string     { return f.prefix }
func (f *fakeStack) PIDs() []int        { return nil }

func (f *fakeStack) create(w http.ResponseWriter, r *http.Request) {
	var spec endpointSpec
	if f.refused != "" || r.Header.Get("Authorization") != "Bearer t" || json.NewDecoder(r.Body).Decode(&spec) != nil {
		http.Error(w, `{"code":"refused_url"}`, http.StatusUnprocessableEntity)
		return
	}
	secret := signature.NewSecret()
	signing := secret
	if f.unsafe {
		signing = signature.NewSecret()
	}
	key, err := signature.ParseSecret(signing)
	if err != nil {
		panic(err)
	}
	f.mu.Lock()
	f.endpoints[spec.ID] = fakeEndpoint{spec, key}
	f.mu.Unlock()
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]string{"id": spec.ID, "secret": secret})
}

func (f *fakeStack) remove(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	delete(f.endpoints, r.PathValue("id"))
	f.removed = append(f.removed, r.PathValue("id"))
	f.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

func (f *fakeStack) deadLetters(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	ids := f.dead[r.URL.Query().Get("endpoint")]
	f.mu.Unlock()
	// Two to a page, so that the cursor is used.
	at, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	page := map[string]any{}
	items := []map[string]string{}
	for _, id := range ids[at:min(at+2, len(ids))] {
		items = append(items, map[string]string{"event_id": id})
	}
	page["items"] = items
	if at+2 < len(ids) {
		page["next"] = strconv.Itoa(at + 2)
	}
	_ = json.NewEncoder(w).Encode(page)
}

func (f *fakeStack) publish(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var fields struct {
		Event string `json:"event"`
	}
	if err != nil || json.Unmarshal(body, &fields) != nil || r.Header.Get("Authorization") != "Bearer k" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	f.n++
	n := f.n
	times := 1
	if f.treat != nil {
		times = f.treat(n)
	}
	id := fmt.Sprintf("evt_%d", n)
	for _, e := range f.endpoints {
		if !slices.Contains(e.spec.Events, fields.Event) {
			continue
		}
		if times < 0 {
			f.dead[e.spec.ID] = append(f.dead[e.spec.ID], id)
		}
		for range times {
			f.wg.Go(func() { e.deliver(id, n, body) })
		}
	}
	f.mu.Unlock()
	w.WriteHeader(http.StatusAccepted)
	_, _ = fmt.Fprintf(w, `{"id":%q}`, id)
}

func (e fakeEndpoint) deliver(id string, n int, body []byte) {
	req, err := http.NewRequest(http.MethodPost, e.spec.URL, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	now := time.Now().Unix()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(now, 10))
	req.Header.Set("Webhook-Attempt", "1")
	req.Header.Set("Webhook-Sequence", strconv.Itoa(n))
	req.Header.Set("Webhook-Signature", string(signature.AppendSign(nil, []signature.Key{e.key}, id, now, body)))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return // the receiver of a run that ended early is gone
	}
	_ = res.Body.Close()
}
