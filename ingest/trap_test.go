package ingest

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event"
)

// What a fasthttp server on the open internet must not do, one case for each trap of the
// security study: its topic, then what is sent. Tests elsewhere: slow senders
// (TestSlowClientsAreCutOff, TestHostileClients), memory of bodies
// (TestSlowBodiesHoldBoundedMemory), context reuse and pipelining (TestBodiesDoNotMix), expectations
// (TestExpectContinueIsDecidedByTheHeaders), compressed input (TestInflate, TestBombs), panics
// (TestPanicIsAnsweredAndCounted), logs (TestLogsShowNothingOfARequest), shutdown
// (TestStopUnderLoad), connections (guard_test.go).
func TestTrapsOfRequests(t *testing.T) {
	r, _ := start(t, func(c *Config) { c.MaxBody, c.ReadTimeout = 20_000, 400*time.Millisecond })
	const line = "POST /v1/events HTTP/1.1\r\n"
	head := line + "Host: h\r\nAuthorization: Bearer secret\r\nContent-Type: application/json\r\n"
	chunk := func(body string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body) }
	chunked := func(coding, body string) string { return head + "Transfer-Encoding: " + coding + "\r\n\r\n" + body }
	length := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(goodBody), goodBody)
	replaced := func(old, with string) string { return strings.Replace(request(goodBody), old, with, 1) }
	for name, c := range map[string]struct {
		text   string
		status int // 0 = no answer but the end
	}{
		"body limit: one over":                     {request(padded(20_001)), 413},
		"body limit: at it":                        {request(padded(20_000)), 202},
		"body limit: a length that is no memory":   {head + "Content-Length: 9223372036854775807\r\n\r\n", 413},
		"body limit: a length beyond all numbers":  {head + "Content-Length: 99999999999999999999\r\n\r\n", 400},
		"body limit: chunk that is no memory":      {chunked("chunked", "7fffffffffffff\r\n"), 413},
		"body limit: many small chunks":            {chunked("chunked", strings.Repeat("a\r\n0123456789\r\n", 3000)), 413},
		"header limit: one long":                   {replaced("Host: h", "Host: h\r\nX: "+strings.Repeat("x", 20_000)), 431},
		"header limit: many":                       {replaced("Host: h", "Host: h"+strings.Repeat("\r\na:b", 5000)), 431},
		"header limit: long target":                {replaced("/v1/events", "/v1/events?"+strings.Repeat("x", 20_000)), 431},
		"header limit: never ends":                 {"GET /" + strings.Repeat("x", 100_000), 431},
		"header limit: many that fit":              {replaced("Host: h", "Host: h"+strings.Repeat("\r\na:b", 2000)), 202},
		"framing: two equal lengths":               {head + fmt.Sprintf("Content-Length: %d\r\n", len(goodBody)) + length, 400},
		"framing: two lengths in one":              {head + "Content-Length: 2, 2\r\n\r\n{}", 400},
		"framing: length with a sign":              {head + "Content-Length: +2\r\n\r\n{}", 400},
		"framing: negative length":                 {head + "Content-Length: -2\r\n\r\n{}", 400},
		"framing: length in hex":                   {head + "Content-Length: 0x2\r\n\r\n{}", 400},
		"framing: unknown coding":                  {chunked("gzip", chunk(goodBody)), 400},
		"framing: coding behind another":           {chunked("gzip, chunked", chunk(goodBody)), 400},
		"framing: coding twice":                    {chunked("chunked, chunked", chunk(goodBody)), 400},
		"framing: coding in two headers":           {chunked("chunked\r\nTransfer-Encoding: chunked", chunk(goodBody)), 400},
		"framing: coding, then identity":           {chunked("chunked\r\nTransfer-Encoding: identity", chunk(goodBody)), 400},
		"framing: coding with a vertical tab":      {chunked("\x0bchunked", chunk(goodBody)), 400},
		"framing: coding quoted":                   {chunked("\"chunked\"", chunk(goodBody)), 400},
		"framing: blank before the colon":          {replaced("Host: h", "Host : h"), 400},
		"framing: blank before the coding's colon": {head + "Transfer-Encoding : chunked\r\n\r\n" + chunk(goodBody), 400},
		"framing: blank at the start of a name":    {replaced("Host: h", " Host: h"), 400},
		"framing: HTTP/1.0 with chunks":            {strings.Replace(chunked("chunked", chunk(goodBody)), "HTTP/1.1", "HTTP/1.0", 1), 400},
		"framing: HTTP/1.0":                        {replaced("HTTP/1.1", "HTTP/1.0"), 202},
		"framing: HTTP/2 preface":                  {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
		"framing: HTTP/0.9":                        {"GET /healthz\r\n\r\n", 400},
		"framing: HTTP/1.11":                       {replaced("HTTP/1.1", "HTTP/1.11"), 400},
		"framing: no host":                         {replaced("Host: h\r\n", ""), 400},
		"framing: two hosts":                       {replaced("Host: h", "Host: h\r\nHost: h"), 400},
		"framing: host with a path":                {replaced("Host: h", "Host: h/x"), 400},
		"framing: negative chunk":                  {chunked("chunked", "-5\r\nhello\r\n0\r\n\r\n"), 400},
		"framing: chunk with a sign":               {chunked("chunked", "+5\r\nhello\r\n0\r\n\r\n"), 400},
		"framing: chunk in 0x":                     {chunked("chunked", "0x5\r\nhello\r\n0\r\n\r\n"), 400},
		"framing: chunk longer than it says":       {chunked("chunked", "2\r\nhello\r\n0\r\n\r\n"), 400},
		"framing: bare line feed in a chunk size":  {chunked("chunked", "5\nhello\r\n0\r\n\r\n"), 400},
		"framing: line feed in a chunk extension":  {chunked("chunked", "5;a\nb\r\nhello\r\n0\r\n\r\n"), 400},
		"framing: trailer that is a header":        {chunked("chunked", fmt.Sprintf("%x\r\n%s\r\n0\r\nContent-Length: 5\r\n\r\n", len(goodBody), goodBody)), 400},
		"framing: NUL in a value":                  {replaced("Host: h", "Host: h\r\nX: a\x00b"), 400},
		"framing: NUL in a name":                   {replaced("Host: h", "Host: h\r\nX\x00: a"), 400},
		"framing: carriage return in a value":      {replaced("Host: h", "Host: h\r\nX: a\rb"), 400},
		"framing: no name":                         {replaced("Host: h", "Host: h\r\n: a"), 400},
		"framing: no colon":                        {replaced("Host: h", "Host: h\r\nX"), 400},
		"framing: bare line feeds":                 {strings.ReplaceAll(request(goodBody), "\r\n", "\n"), 408},
		"framing: one bare line feed":              {replaced("Host: h\r\n", "Host: h\n"), 400},
		"framing: length and chunks":               {head + fmt.Sprintf("Content-Length: %d\r\n", len(goodBody)) + "Transfer-Encoding: chunked\r\n\r\n" + chunk(goodBody), 400},
		"framing: chunks and length":               {chunked("chunked\r\nContent-Length: 5", chunk(goodBody)), 400},
		"framing: folded value":                    {replaced("Host: h", "Host: h\r\nX: a\r\n b"), 400},
		"framing: folded coding":                   {chunked("\r\n chunked", chunk(goodBody)), 400},
		"framing: folded by a tab":                 {replaced("Bearer secret", "Bearer\r\n\tsecret"), 400},
		"duplicate: authorization":                 {replaced("Host: h", "Host: h\r\nAuthorization: Bearer nobody"), 401},
		"duplicate: authorization, equal":          {replaced("Host: h", "Host: h\r\nauthorization: Bearer secret"), 401},
		"duplicate: idempotency key":               {request(goodBody, "Idempotency-Key: a", "idempotency-key: b"), 400},
		"duplicate: content type":                  {request(goodBody, "Content-Type: text/plain"), 415},
		"duplicate: content type, equal":           {request(goodBody, "content-type: application/json"), 400},
		"duplicate: content encoding":              {request(goodBody, "Content-Encoding: identity", "Content-Encoding: gzip"), 415},
		"target: absolute form":                    {replaced("/v1/events", "http://elsewhere/v1/events"), 202},
		"target: absolute form of another path":    {replaced("/v1/events", "http://elsewhere/admin"), 404},
		"target: absolute form without a path":     {replaced("/v1/events", "http://v1"), 404},
		"target: two slashes":                      {replaced("/v1/events", "//v1/events"), 404},
		"target: asterisk":                         {"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", 404},
		"target: authority":                        {"CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n", 404},
		"target: unknown method":                   {replaced("POST", "BREW"), 405},
		"target: method in small letters":          {replaced("POST", "post"), 405},
		"target: method with odd signs":            {replaced("POST", "PO(ST"), 400},
		"target: TRACE":                            {"TRACE /v1/events HTTP/1.1\r\nHost: h\r\n\r\n", 405},
		"target: up to another listener's path":    {replaced("/v1/events", "/v1/../admin"), 404},
		"target: up, escaped":                      {replaced("/v1/events", "/v1/%2e%2e/v1/events"), 404},
		"target: escaped slash":                    {replaced("/v1/events", "/v1%2fevents"), 404},
		"target: dot":                              {replaced("/v1/events", "/v1/./events"), 404},
		"target: backslash":                        {replaced("/v1/events", "/v1\\events"), 404},
		"target: slash at the end":                 {replaced("/v1/events", "/v1/events/"), 404},
		"target: capital":                          {replaced("/v1/events", "/V1/events"), 404},
		"target: NUL":                              {replaced("/v1/events", "/v1/events\x00"), 400},
		"target: parameters of a segment":          {replaced("/v1/events", "/v1/events;a=b"), 404},
		"target: fragment is passed over":          {replaced("/v1/events", "/v1/events#a"), 202},
		"target: query":                            {replaced("/v1/events", "/v1/events?a=b"), 202},
		"multipart: is no event":                   {replaced("application/json", "multipart/form-data; boundary=x"), 415},
		"expect: something else is passed over":    {request(goodBody, "Expect: 200-ok"), 202},
		"upgrade: is passed over":                  {request(goodBody, "Connection: Upgrade", "Upgrade: h2c"), 202},
	} {
		t.Run(name, func(t *testing.T) {
			a := r.raw(1, c.text)[0]
			if a.status != c.status || a.status >= 400 && (a.Code == "" || a.Detail == "") {
				t.Errorf("%s, want %d", a, c.status)
			}
			if server := a.header.Get("Server"); server != "" {
				t.Errorf("the server calls itself %q", server)
			}
		})
	}
	if n := r.metric("hookline_ingest_panics_total"); n != 0 {
		t.Errorf("%v panics", n)
	}
}

// The server uses a request's memory for the next one on its connection: pipelined bodies of
// different tenants and lengths come out of the log as they went in.
func TestBodiesDoNotMix(t *testing.T) {
	r, b := start(t)
	var text strings.Builder
	var want []string
	for i := range 200 {
		body := fmt.Sprintf(`{"event":"a.b","message_id":"m%d","pad":"%s"}`, i, strings.Repeat(string(rune('a'+i%26)), (i*37)%900))
		want = append(want, body)
		text.WriteString(strings.Replace(request(body), "secret", [2]string{"secret", "other"}[i%2], 1))
	}
	for i, a := range r.raw(len(want), text.String()) {
		if a.status != 202 || a.MessageID != fmt.Sprintf("m%d", i) {
			t.Fatalf("answer %d: %s", i, a)
		}
		if i%10 > 1 {
			continue
		}
		rec := fetch(t, b, a.Partition, a.Offset)
		if e, err := event.Decode(rec); err != nil || string(rec.Value) != want[i] || e.Tenant != [2]string{"dev", "acme"}[i%2] || e.ID != a.ID {
			t.Errorf("event %d is %q of %s: %v", i, rec.Value, e.Tenant, err)
		}
	}
}

// Neither the parser's errors nor ours repeat what a client sent.
func TestLogsShowNothingOfARequest(t *testing.T) {
	b := brokertest.Start(t)
	b.CreateTopics(t, event.EventsTopic(1))
	var logs lockedBuffer
	r := launchWith(t, testConfig(func(c *Config) { c.ReadTimeout = 300 * time.Millisecond }), Deps{Kafka: b.Opts, Prefix: b.Prefix,
		Log: slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	r.ready()
	const canary = "CaNaRy"
	for _, text := range []string{
		canary, canary + " / HTTP/1.1\r\n\r\n", "GET /" + canary + " HTTP/9\r\n\r\n", "GET / HTTP/1.1\r\n" + canary + "\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: " + canary + "/\r\n\r\n", "GET / HTTP/1.1\r\nX: " + strings.Repeat(canary, 4000) + "\r\n\r\n",
		strings.Replace(request(goodBody), "secret", canary, 1), request(canary), strings.Replace(request(goodBody), "/v1/events", "/"+canary, 1),
		request(goodBody, "Transfer-Encoding: "+canary), strings.Replace(request(canary), "Content-Length: 6", "Transfer-Encoding: chunked", 1),
		request(goodBody, "Idempotency-Key: "+strings.Repeat(canary, 100)), "POST /v1/events HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n" + canary,
	} {
		r.raw(1, text)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if got := logs.String(); strings.Contains(got, canary) || !strings.Contains(got, "ingest is ready") {
		t.Errorf("logs:\n%s", got)
	}
}

// lockedBuffer is a buffer for many writers.
type lockedBuffer struct {
	mu  sync.Mutex // guards buf
	buf strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
