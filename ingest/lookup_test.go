package ingest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookline/hookline/ingest/event"
)

// outcomes stands in for analytics.
type outcomes struct {
	mu    sync.Mutex
	asked []string
	known map[string]string // "tenant kind id" -> answer
	err   error
	hold  chan struct{} // when set, look-ups wait for it
	held  chan struct{} // one for each that waits
}

func (o *outcomes) answer(ctx context.Context, tenant, kind, id string) ([]byte, time.Time, error) {
	o.mu.Lock()
	o.asked = append(o.asked, tenant+" "+kind+" "+id)
	body, err := o.known[tenant+" "+kind+" "+id], o.err
	o.mu.Unlock()
	if o.hold != nil {
		o.held <- struct{}{}
		select {
		case <-o.hold:
		case <-ctx.Done():
			return nil, time.Time{}, ctx.Err()
		}
	}
	if body == "" {
		return nil, time.Date(2026, 7, 19, 9, 15, 25, 0, time.UTC), err
	}
	return []byte(body), time.Now(), err
}

func (o *outcomes) LookupEvent(ctx context.Context, tenant, id string) ([]byte, time.Time, error) {
	return o.answer(ctx, tenant, "event", id)
}

func (o *outcomes) LookupMessage(ctx context.Context, tenant, id string) ([]byte, time.Time, error) {
	return o.answer(ctx, tenant, "message", id)
}

// asking serves without a broker: look-ups need none.
func asking(t *testing.T, l Lookup) *room {
	t.Helper()
	s, err := New(testConfig(), Deps{Prefix: "x.", Lookup: l})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &room{t: t, server: s, addr: ln.Addr().String(), http: &http.Client{Timeout: 20 * time.Second}}
	ended := make(chan error, 1)
	go func() { ended <- s.http.Serve(ln) }()
	t.Cleanup(func() {
		r.http.CloseIdleConnections()
		_ = s.http.Shutdown()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestLookupPaths(t *testing.T) {
	t.Parallel()
	o := &outcomes{known: map[string]string{"dev event evt_1": `{"a":1}`, "dev message a/b?#% ": "no", "dev message a/b": `{"b":1}`, "dev message 100%": `{"c":1}`,
		"dev message %41": `{"d":1}`, "dev message a+b": `{"e":1}`}}
	r := asking(t, o)
	long := strings.Repeat("m", event.MaxMessageID)
	o.known["dev message "+long] = `{"f":1}`
	for _, c := range []struct {
		path   string
		status int
		asked  string // "" = analytics is not asked
	}{
		{"/v1/events/evt_1", 200, "dev event evt_1"},
		{"/v1/events/evt%5F1", 200, "dev event evt_1"},
		{"/v1/events/evt_2", 404, "dev event evt_2"},
		{"/v1/events/", 404, ""},
		{"/v1/events/evt_1/", 404, ""},
		{"/v1/events//evt_1", 404, ""},
		{"/v1/events/evt.1", 400, ""},
		{"/v1/events/evt%", 400, ""},
		{"/v1/events/evt%00", 400, ""},
		{"/v1/events/" + strings.Repeat("e", 129), 400, ""},
		{"/v1/messages/a%2Fb", 200, "dev message a/b"},
		{"/v1/messages/a/b", 404, ""},
		{"/v1/messages/100%25", 200, "dev message 100%"},
		{"/v1/messages/%2541", 200, "dev message %41"}, // decoded once, not twice
		{"/v1/messages/a+b", 200, "dev message a+b"},   // no form
		{"/v1/messages/a%20b", 400, ""},
		{"/v1/messages/%C3%A4", 400, ""},
		{"/v1/messages/" + long, 200, "dev message " + long},
		{"/v1/messages/" + long + "m", 400, ""},
		{"/v1/messages/../events/evt_1", 404, ""},
		{"/x/../v1/events/evt_1", 404, ""},
	} {
		o.asked = nil
		a := r.raw(1, "GET "+c.path+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nConnection: close\r\n\r\n")[0]
		if a.status != c.status || strings.Join(o.asked, ";") != c.asked {
			t.Errorf("%s: %s, asked %q", c.path, a, o.asked)
		}
		if a.status == 400 && (a.Code != event.CodeInvalidField || a.Field == "") {
			t.Errorf("%s: %s", c.path, a)
		}
	}
}

func TestLookupAnswers(t *testing.T) {
	t.Parallel()
	const lookup = `{"message_id":"m","events":[],"as_of":"2026-07-19T09:15:25Z","lag_seconds":0,"truncated":false}`
	o := &outcomes{known: map[string]string{"acme event evt_1": lookup}}
	r := asking(t, o)
	// Another tenant's event is answered as one that does not exist.
	other := r.do("GET", "/v1/events/evt_1", "")
	none := r.do("GET", "/v1/events/evt_2", "")
	if other.status != 404 || other.Code != codeNotFound || string(other.body) != string(none.body) || fmt.Sprint(other.header["Retry-After"]) != fmt.Sprint(none.header["Retry-After"]) ||
		!strings.Contains(other.Detail, "2026-07-19T09:15:25Z") || other.header.Get("Retry-After") == "" {
		t.Errorf("%s\n%s", other, none)
	}
	if a := r.do("GET", "/v1/events/evt_1", "", "Authorization", "", "Authorization", "Bearer other"); a.status != 200 || string(a.body) != lookup || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("own event: %s", a)
	}
	for _, auth := range []string{"", "Bearer", "Bearer nonsense", "Basic c2VjcmV0"} {
		if a := r.do("GET", "/v1/events/evt_1", "", "Authorization", "", "Authorization", auth); a.status != 401 || a.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%q: %s", auth, a)
		}
	}
	if a := r.do("POST", "/v1/events/evt_1", "{}"); a.status != 405 || a.header.Get("Allow") != "GET" {
		t.Errorf("POST: %s", a)
	}
	o.err = errors.New("refused at 10.0.0.1")
	if a := r.do("GET", "/v1/messages/m", ""); a.status != 503 || a.Code != codeUnavailable || a.header.Get("Retry-After") == "" || strings.Contains(string(a.body), "10.0.0.1") {
		t.Errorf("away: %s", a)
	}
	off := asking(t, nil)
	if a := off.do("GET", "/v1/messages/m", ""); a.status != 501 || a.Code != codeAnalyticsOff {
		t.Errorf("off: %s", a)
	}
	if a := off.do("GET", "/v1/messages/m", "", "Authorization", ""); a.status != 401 {
		t.Errorf("off, without a key: %s", a)
	}
}

// What hangs in analytics may not pile up: a tenant has half of the places, and who finds
// none is told at once.
func TestLookupsAreBounded(t *testing.T) {
	t.Parallel()
	o := &outcomes{known: map[string]string{}, hold: make(chan struct{}), held: make(chan struct{}, 64)}
	r := asking(t, o)
	var wg sync.WaitGroup
	ask := func(key string, n int) {
		for range n {
			wg.Go(func() {
				if a := r.do("GET", "/v1/messages/m", "", "Authorization", "", "Authorization", "Bearer "+key); a.status != 404 {
					t.Errorf("one that was let in: %s", a)
				}
			})
		}
		for range n {
			<-o.held
		}
	}
	ask("secret", maxLookupsPerTenant)
	if a := r.do("GET", "/v1/messages/m", ""); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("one over the tenant's places: %s", a)
	}
	ask("other", maxLookups-maxLookupsPerTenant)
	close(o.hold)
	wg.Wait()
	ask("secret", 1)
	wg.Wait()
	if r.server.lookups.all != 0 || len(r.server.lookups.byTenant) != 0 {
		t.Errorf("places are lost: %+v", &r.server.lookups)
	}
}

func TestLookupTimeout(t *testing.T) {
	t.Parallel()
	o := &outcomes{hold: make(chan struct{}), held: make(chan struct{}, 1)}
	r := asking(t, o)
	start := time.Now()
	if a := r.do("GET", "/v1/events/evt_1", ""); a.status != 503 || !strings.Contains(a.Detail, "in time") || time.Since(start) < lookupTime-time.Second {
		t.Errorf("after %s: %s", time.Since(start), a)
	}
}
