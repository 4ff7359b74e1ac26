package ingest

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/valyala/fasthttp"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/ingest/source"
)

const sourceSettings = `
gh: {tenant: acme, scheme: github, secrets: [gh-secret], success: {status: 201, body: '{"ok":true}'}}
st: {tenant: dev, scheme: stripe, secrets: [st-secret], require: [{path: data.object.id, type: string, max_len: 20}]}
sl: {tenant: dev, scheme: slack, secrets: [sl-secret]}
far: {tenant: dev, scheme: github, secrets: [gh-secret], allow_cidrs: [192.0.2.0/24]}
behind: {tenant: dev, scheme: github, secrets: [gh-secret], allow_cidrs: [192.0.2.0/24], trusted_proxies: [127.0.0.0/8]}
token: {tenant: dev, scheme: github, secrets: [gh-secret], verify_token: tok}
script: {tenant: dev, scheme: github, secrets: [gh-secret], require: [{path: "gr\u00f6\u00dfe"}]}
`

// withSources adds the sources of settings in YAML with their secrets as they stand there.
func withSources(t testing.TB, settings string) func(*Config) {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(settings), &v); err != nil {
		t.Fatal(err)
	}
	specs, err := source.Parse(v)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) {
		for _, spec := range specs {
			sc := SourceConfig{Spec: spec, Secrets: source.Fixed(spec.Secrets...)}
			if spec.VerifyToken != "" {
				sc.VerifyToken = source.Fixed(spec.VerifyToken)
			}
			c.Sources = append(c.Sources, sc)
		}
	}
}

func hexMAC(secret, text string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// noKey removes the API key of the other tests: sources ask for none.
var noKey = []string{"Authorization", ""}

func githubHeaders(secret, body, delivery string) []string {
	return append(slices.Clone(noKey), "X-GitHub-Event", "pull_request", "X-GitHub-Delivery", delivery, "X-Hub-Signature-256", "sha256="+hexMAC(secret, body))
}

func stripeHeaders(secret, body string, at time.Time) []string {
	return append(slices.Clone(noKey), "Stripe-Signature", fmt.Sprintf("t=%d,v1=%s", at.Unix(), hexMAC(secret, fmt.Sprintf("%d.%s", at.Unix(), body))))
}

func slackHeaders(secret, body string, at time.Time) []string {
	return append(slices.Clone(noKey), "X-Slack-Request-Timestamp", fmt.Sprint(at.Unix()), "X-Slack-Signature", "v0="+hexMAC(secret, fmt.Sprintf("v0:%d:%s", at.Unix(), body)))
}

// sourced returns all records of the events topic as events.
func sourced(t testing.TB, b *brokertest.Broker) []event.Event {
	t.Helper()
	topic := event.EventsTopic(0).Name(b.Prefix)
	cl := b.Client(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	// A last record in each partition says where the log ends.
	ends := 0
	for p := range int32(4) {
		marker := kgo.SliceRecord([]byte("end"))
		marker.Topic, marker.Partition, marker.Key = topic, p, []byte("end")
		producer := b.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err := producer.ProduceSync(ctx, marker).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var out []event.Event
	for ends < 4 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for _, rec := range fetches.Records() {
			if string(rec.Key) == "end" {
				ends++
				continue
			}
			e, err := event.Decode(rec)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, e)
		}
	}
	return out
}

func TestWebhookIsAnEvent(t *testing.T) {
	t.Parallel()
	r, b := start(t, withSources(t, sourceSettings))
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	const body = " {\"action\":\"opened\", \"n\":9007199254740993, \"n\":1.0, \"repository\":{\"id\":42}}\n"
	a := r.do("POST", "/v1/sources/gh", body, append(githubHeaders("gh-secret", body, "d-1"), "traceparent", trace, "Content-Type", "", "Content-Type", "application/json; charset=UTF-8")...)
	if a.status != 201 || string(a.body) != `{"ok":true}` || a.header.Get("Content-Type") != "application/json" {
		t.Fatal(a)
	}
	all := sourced(t, b)
	if len(all) != 1 {
		t.Fatalf("%d events", len(all))
	}
	e := all[0]
	if string(e.Body) != body || e.Type != "pull_request.opened" || e.MessageID != "42" || e.Tenant != "acme" || e.Origin != "gh" || e.Source != "/hookline/acme/sources/gh" ||
		e.ContentType != "application/json; charset=UTF-8" || e.Traceparent != trace || e.Sequence != -1 || e.Schema != "1" || event.IsRandomID(e.ID) || e.AcceptedMs == 0 {
		t.Errorf("%+v", e)
	}
	if got := r.metric("hookline_ingest_source_requests_total", "outcome", "accepted", "source", "gh"); got != 1 {
		t.Errorf("%v counted", got)
	}
}

func TestCapturedRequestIsOneEvent(t *testing.T) {
	t.Parallel()
	r, b := start(t, withSources(t, sourceSettings))
	other := launch(t, b.Opts, b.Prefix, withSources(t, sourceSettings))
	other.ready()
	const body = `{"id":"evt_1","type":"charge.succeeded","data":{"object":{"id":"ch_1"}}}`
	headers := stripeHeaders("st-secret", body, time.Now())
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if a := r.do("POST", "/v1/sources/st", body, headers...); a.status != 200 || len(a.body) != 0 {
				t.Error(a)
			}
		})
	}
	wg.Wait()
	if all := sourced(t, b); len(all) != 1 || all[0].Type != "charge.succeeded" || all[0].MessageID != "ch_1" {
		t.Fatalf("%+v", all)
	}
	if got := r.metric("hookline_ingest_source_requests_total", "outcome", "replayed", "source", "st"); got != 19 {
		t.Errorf("%v replays counted", got)
	}
	// Another process does not know the request, but gives the event the same id. So does a
	// later attempt of the provider, which is signed anew.
	if a := other.do("POST", "/v1/sources/st", body, headers...); a.status != 200 {
		t.Error(a)
	}
	if a := r.do("POST", "/v1/sources/st", body, stripeHeaders("st-secret", body, time.Now().Add(time.Second))...); a.status != 200 {
		t.Error(a)
	}
	all := sourced(t, b)
	if len(all) != 3 || all[0].ID != all[1].ID || all[0].ID != all[2].ID {
		t.Errorf("%+v", all)
	}
}

// Equal bodies are not equal events: GitHub tells them apart by a header.
func TestEqualBodiesMayBeTwoEvents(t *testing.T) {
	t.Parallel()
	r, b := start(t, withSources(t, sourceSettings))
	const body = `{"repository":{"id":42}}`
	for _, delivery := range []string{"d-1", "d-2", "d-1"} {
		if a := r.do("POST", "/v1/sources/gh", body, githubHeaders("gh-secret", body, delivery)...); a.status != 201 {
			t.Fatal(a)
		}
	}
	if all := sourced(t, b); len(all) != 2 || all[0].ID == all[1].ID {
		t.Errorf("%+v", all)
	}
}

// The server uses the memory of a request for the next one, while the producer may still hold
// the event.
func TestWebhookEventIsACopy(t *testing.T) {
	t.Parallel()
	cfg := testConfig(withSources(t, sourceSettings))
	s, err := New(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	const body = `{"action":"opened","repository":{"id":42}}`
	ctx := &fasthttp.RequestCtx{}
	ctx.Request.Header.SetMethod("POST")
	ctx.Request.Header.Set("X-Github-Event", "issues")
	ctx.Request.Header.Set("X-Github-Delivery", "d-1")
	ctx.Request.Header.SetContentType("text/x-kept")
	ctx.Request.SetBody([]byte(body))
	r := sourceRequest(ctx, ctx.Request.Body())
	e := s.webhookEvent(ctx, r, time.Now())
	if err := s.sources["gh"].Map(r, e); err != nil {
		t.Fatal(err)
	}
	before := e.ID
	for i := range ctx.Request.Body() {
		ctx.Request.Body()[i] = 'x'
	}
	for _, name := range []string{"X-Github-Event", "X-Github-Delivery", "Content-Type"} {
		v := ctx.Request.Header.Peek(name)
		for i := range v {
			v[i] = 'x'
		}
	}
	if string(e.Body) != body || e.Type != "issues.opened" || e.MessageID != "42" || e.ContentType != "text/x-kept" || e.ID != before {
		t.Errorf("%+v %s", e, e.Body)
	}
}

func TestSourceErrorTable(t *testing.T) {
	t.Parallel()
	r, b := start(t, withSources(t, sourceSettings), func(c *Config) { c.MaxBody = 1000 })
	now := time.Now()
	const good = `{"id":"evt_1","type":"a.b","data":{"object":{"id":"ch_1"}}}`
	stripe := func(body string, at time.Time, more ...string) answer {
		return r.do("POST", "/v1/sources/st", body, append(stripeHeaders("st-secret", body, at), more...)...)
	}
	long := strings.Replace(good, "ch_1", strings.Repeat("x", 21), 1)
	for _, row := range []struct {
		name        string
		a           answer
		status      int
		code, field string
		detail      string
	}{
		{"no source", r.do("POST", "/v1/sources/none", good), 404, "not_found", "", "no source"},
		{"braces", r.do("POST", "/v1/sources/%7Bname%7D", good), 404, "not_found", "", ""},
		{"no name", r.do("POST", "/v1/sources/", good), 404, "not_found", "", ""},
		{"below", r.do("POST", "/v1/sources/st/x", good), 404, "not_found", "", ""},
		{"put", r.do("PUT", "/v1/sources/st", good), 405, "method_not_allowed", "", "GET, OPTIONS, POST"},
		{"unsigned", r.do("POST", "/v1/sources/st", good), 401, "bad_signature", "", "Stripe-Signature is missing"},
		{"an API key does not help", r.do("POST", "/v1/sources/st", good, "Stripe-Signature", "t=1,v1=2"), 401, "bad_signature", "", "fits"},
		{"another secret", r.do("POST", "/v1/sources/st", good, stripeHeaders("other", good, now)...), 401, "bad_signature", "", "fits"},
		{"another body", r.do("POST", "/v1/sources/st", good+" ", stripeHeaders("st-secret", good, now)...), 401, "bad_signature", "", "fits"},
		{"old", stripe(good, now.Add(-6*time.Minute)), 401, "stale_timestamp", "", "ago"},
		{"ahead", stripe(good, now.Add(6*time.Minute)), 401, "stale_timestamp", "", "ahead"},
		{"empty", stripe("", now), 400, "empty_body", "", ""},
		{"not json", stripe("x", now), 400, "invalid_json", "", ""},
		{"twice", stripe(strings.Replace(good, `"id":"ch_1"`, `"id":"ch_1","id":"ch_2"`, 1), now), 400, "invalid_field", "data.object.id", "twice"},
		{"required", stripe(`{"id":"evt_1","type":"a.b","data":{"object":{}}}`, now), 400, "missing_field", "data.object.id", `"data.object.id" is missing`},
		{"a name in another script", r.do("POST", "/v1/sources/script", good, githubHeaders("gh-secret", good, "d")...), 400, "missing_field", "gr\u00f6\u00dfe", "\"gr\u00f6\u00dfe\" is missing"},
		{"too long", stripe(long, now), 400, "invalid_field", "data.object.id", "longer than 20"},
		{"no type", stripe(strings.Replace(good, "type", "kind", 1), now), 400, "missing_field", "type", "json:type"},
		{"gzip", stripe(good, now, "Content-Encoding", "gzip"), 415, "unsupported_media_type", "Content-Encoding", "not be encoded"},
		{"long type", stripe(good, now, "Content-Type", "", "Content-Type", strings.Repeat("x", 257)), 415, "unsupported_media_type", "Content-Type", "256"},
		{"large", stripe(strings.Repeat(" ", 1001), now), 413, "too_large", "", "1000 bytes"},
		{"very large", stripe(strings.Repeat(" ", 900_000), now), 413, "too_large", "", "1000 bytes"},
		{"from elsewhere", r.do("POST", "/v1/sources/far", good, githubHeaders("gh-secret", good, "1")...), 403, "forbidden", "", "address"},
		{"from elsewhere, lying", r.do("POST", "/v1/sources/far", good, append(githubHeaders("gh-secret", good, "1"), "X-Forwarded-For", "192.0.2.1")...), 403, "forbidden", "", "address"},
		{"from elsewhere, behind a proxy", r.do("POST", "/v1/sources/behind", good, append(githubHeaders("gh-secret", good, "1"), "X-Forwarded-For", "192.0.2.1, 203.0.113.1")...), 403, "forbidden", "", "address"},
	} {
		if row.a.status != row.status || row.a.Code != row.code || row.a.Field != row.field || !strings.Contains(row.a.Detail, row.detail) {
			t.Errorf("%s: %s", row.name, row.a)
		}
		documented(t, PathSources, row.a)
	}
	if all := sourced(t, b); len(all) != 0 {
		t.Errorf("%d events of refused requests", len(all))
	}
	if a := r.do("POST", "/v1/sources/behind", good, append(githubHeaders("gh-secret", good, "1"), "X-Forwarded-For", "6.6.6.6, 192.0.2.1")...); a.status != 200 {
		t.Errorf("behind a trusted proxy: %s", a)
	}
}

func TestHandshakesPublishNothing(t *testing.T) {
	t.Parallel()
	r, b := start(t, withSources(t, sourceSettings))
	const slack = `{"token":"t","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P","type":"url_verification"}`
	if a := r.do("POST", "/v1/sources/sl", slack, slackHeaders("sl-secret", slack, time.Now())...); a.status != 200 || string(a.body) != "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P" {
		t.Errorf("slack: %s", a)
	}
	if a := r.do("POST", "/v1/sources/sl", slack, slackHeaders("other", slack, time.Now())...); a.status != 401 || a.Code != "bad_signature" {
		t.Errorf("slack unsigned: %s", a)
	}
	if a := r.do("POST", "/v1/sources/sl", slack, slackHeaders("sl-secret", slack, time.Now().Add(-time.Hour))...); a.status != 401 || a.Code != "stale_timestamp" {
		t.Errorf("slack old: %s", a)
	}
	for path, want := range map[string]string{
		"gh?challenge=a%26b": "200 a&b",
		"gh?hub.mode=subscribe&hub.challenge=17&hub.verify_token=x":      "200 17",
		"token?hub.mode=subscribe&hub.challenge=17&hub.verify_token=tok": "200 17",
		"token?hub.mode=subscribe&hub.challenge=17&hub.verify_token=x":   "401 bad_signature",
		"gh":               "400 missing_field",
		"gh?challenge=%00": "400 invalid_field",
		"none?challenge=1": "404 not_found",
		"far?challenge=1":  "403 forbidden",
	} {
		a := r.do("GET", "/v1/sources/"+path, "", noKey...)
		got := fmt.Sprintf("%d %s", a.status, a.Code)
		if a.status == 200 {
			got = fmt.Sprintf("%d %s", a.status, a.body)
			if !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") || a.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %v", path, a.header)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	a := r.do("OPTIONS", "/v1/sources/gh", "", "Authorization", "", "WebHook-Request-Origin", "eventemitter.example.com", "WebHook-Request-Rate", "120")
	if a.status != 200 || a.header.Get("WebHook-Allowed-Origin") != "eventemitter.example.com" || a.header.Get("WebHook-Allowed-Rate") != "*" || !strings.Contains(a.header.Get("Allow"), "POST") {
		t.Errorf("options: %s %v", a, a.header)
	}
	if a := r.do("OPTIONS", "/v1/sources/gh", "", "WebHook-Request-Origin", "a", "WebHook-Request-Origin", "b"); a.status != 400 {
		t.Errorf("two origins: %s", a)
	}
	if all := sourced(t, b); len(all) != 0 {
		t.Errorf("%d events of handshakes", len(all))
	}
	if got := r.metric("hookline_ingest_source_requests_total", "outcome", "handshake", "source", "gh"); got != 3 {
		t.Errorf("%v handshakes counted", got)
	}
}

// TestSecretsAreRotatedUnderLoad: senders change from one secret to the next while both are
// valid, and nobody is told 401.
func TestSecretsAreRotatedUnderLoad(t *testing.T) {
	t.Parallel()
	var secrets atomic.Pointer[[]string]
	set := func(list ...string) { secrets.Store(&list) }
	set("s-0")
	add := withSources(t, "gh: {tenant: dev, scheme: github, secrets: [s-0]}")
	r, b := start(t, add, func(c *Config) { c.Sources[0].Secrets = func() []string { return *secrets.Load() } })
	var signing atomic.Pointer[string]
	sign := func(s string) { signing.Store(&s) }
	sign("s-0")
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var sent [4]atomic.Int64
	for w := range sent {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				body := fmt.Sprintf(`{"repository":{"id":"%d-%d"}}`, w, i)
				if a := r.do("POST", "/v1/sources/gh", body, githubHeaders(*signing.Load(), body, fmt.Sprintf("%d-%d", w, i))...); a.status != 200 {
					t.Errorf("%s", a)
					return
				}
				sent[w].Add(1)
			}
		})
	}
	// more waits until every worker has sent two more: one of them was begun after the call.
	more := func() {
		for w := range sent {
			from := sent[w].Load()
			eventually(t, func() bool { return sent[w].Load() >= from+2 || t.Failed() })
		}
	}
	for n := range 20 {
		old, next := fmt.Sprintf("s-%d", n), fmt.Sprintf("s-%d", n+1)
		set(old, next)
		sign(next)
		more()
		set(next)
		more()
	}
	stop()
	wg.Wait()
	total := int64(0)
	for w := range sent {
		total += sent[w].Load()
	}
	if got := int64(len(sourced(t, b))); got != total {
		t.Errorf("%d events, %d answered with success", got, total)
	}
	if a := r.do("POST", "/v1/sources/gh", "{}", githubHeaders("s-0", "{}", "late")...); a.status != http.StatusUnauthorized {
		t.Errorf("the first secret still counts: %s", a)
	}
}

// A large body is read for a source under its own path alone.
func TestPathThatEndsLikeASourceIsNotRead(t *testing.T) {
	t.Parallel()
	s, err := New(testConfig(withSources(t, sourceSettings)), Deps{})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]*problem{"/v1/sources/gh": nil, "/v1/sources/gh?a=b": nil, "/x/gh": errNotFound, "gh": errNotFound, "/v1/sources/x/gh": errNotFound} {
		var h fasthttp.RequestHeader
		h.SetRequestURI(path)
		if _, _, p := s.sender(&h, time.Now()); p != want {
			t.Errorf("%s: %+v, want %+v", path, p, want)
		}
	}
}
