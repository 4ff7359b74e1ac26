package ingest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event"
)

// batchAnswer is the answer for a batch, as CONTRACT writes it.
type batchAnswer struct {
	answer
	Accepted, Rejected int
	Items              []batchItem
}

type batchItem struct {
	Index, Status           int
	ID, Code, Field, Detail string
}

const (
	ndjson     = "application/x-ndjson"
	jsonArray  = "application/json"
	cloudArray = "application/cloudevents-batch+json"
)

func (r *room) batch(contentType, body string, headers ...string) batchAnswer {
	r.t.Helper()
	a := batchAnswer{answer: r.do("POST", PathBatch, body, append([]string{"Content-Type", "", "Content-Type", contentType}, headers...)...)}
	documented(r.t, PathBatch, a.answer)
	if a.status != 202 && a.status != 207 {
		return a
	}
	d := json.NewDecoder(bytes.NewReader(a.body))
	d.DisallowUnknownFields()
	own := struct {
		Accepted, Rejected int
		Items              []batchItem
	}{}
	if err := d.Decode(&own); err != nil {
		r.t.Fatalf("answer of a batch: %v: %s", err, a.body)
	}
	a.Accepted, a.Rejected, a.Items = own.Accepted, own.Rejected, own.Items
	accepted := 0
	for i, item := range a.Items {
		if item.Index != i || (item.Status == 202) != (item.ID != "") || (item.Status == 202) == (item.Code != "") || (item.Code == "") != (item.Detail == "") {
			r.t.Errorf("item %d is %+v", i, item)
		}
		if item.Status == 202 {
			accepted++
		}
	}
	if accepted != a.Accepted || a.Accepted+a.Rejected != len(a.Items) || (a.status == 202) != (a.Rejected == 0) {
		r.t.Errorf("answer does not add up: %s", a)
	}
	return a
}

// logged reads n records of the events topic, by their ids.
func logged(t testing.TB, b *brokertest.Broker, n int) map[string]*kgo.Record {
	t.Helper()
	cl := b.Client(t, kgo.ConsumeTopics(event.EventsTopic(0).Name(b.Prefix)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	out := map[string]*kgo.Record{}
	limit := time.Now().Add(30 * time.Second)
	for read := 0; read < n; {
		fetches := cl.PollRecords(t.Context(), n-read)
		if err := fetches.Err(); err != nil || time.Now().After(limit) {
			t.Fatalf("%d of %d records read: %v", read, n, err)
		}
		for _, r := range fetches.Records() {
			e, err := event.Decode(r)
			if err != nil {
				t.Fatal(err)
			}
			out[e.ID] = r
			read++
		}
	}
	return out
}

func TestBatchIsInTheLogByteForByteAndInOrder(t *testing.T) {
	r, b := start(t)
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	bodies := []string{
		goodBody,
		`{"zebra":9007199254740993,"alpha":1.0,"x":1,"x":2, "message_id" : "m-1","event":"a"}`,
		`{"event":"a.b","message_id":"\"q\\\u0041","text":"<&> \ud83d\ude00 \u0000 \/","sequence":7,"schema_version":"3","occurred_at":"2026-07-19T09:15:25Z"}`,
		"{\"event\":\"a\",\"message_id\":\"emoji\",\"t\":\"\xf0\x9f\x98\x80 \xe2\x80\xa8\"}",
	}
	for n := range 100 { // more than a chunk holds, of one message id
		bodies = append(bodies, fmt.Sprintf(`{"event":"n","message_id":"same","sequence":%d,"occurred_at":"2026-07-19T09:15:25.123456789Z"}`, n))
	}
	want := map[string]string{}
	for _, c := range []struct{ contentType, body string }{
		{ndjson, "\n \r\n" + strings.Join(bodies, " \r\n\n\t") + "\n"},
		{ndjson, strings.Join(bodies, "\n")},
		{"application/ndjson; charset=utf-8", strings.Join(bodies, "\n")},
		{jsonArray, " [\n" + strings.Join(bodies, " ,\r\n") + " ]\n"},
	} {
		a := r.batch(c.contentType, c.body, "traceparent", trace)
		if a.status != 202 || a.Accepted != len(bodies) || a.header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s: %s", c.contentType, a)
		}
		for i, item := range a.Items {
			if want[item.ID] = bodies[i]; !event.IsRandomID(item.ID) {
				t.Errorf("id %s of an event without a key", item.ID)
			}
		}
	}
	log := logged(t, b, len(want))
	for id, body := range want {
		rec := log[id]
		if rec == nil || string(rec.Value) != body {
			t.Fatalf("%s is not in the log as it was sent: %.100s", id, body)
		}
		e, err := event.Decode(rec)
		if err != nil {
			t.Fatal(err)
		}
		fields, err := event.ParseBody([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if e.MessageID != fields.MessageID || e.Type != fields.Event || e.Sequence != fields.Sequence || e.Schema != fields.Schema || !e.OccurredAt.Equal(fields.OccurredAt) ||
			e.Tenant != "dev" || e.Source != "/hookline/dev" || e.ContentType != "application/json" || e.Traceparent != trace || event.Partition(e.MessageID, 4) != rec.Partition {
			t.Errorf("event %+v", e)
		}
	}
	offsets := make([]int64, 100)
	last := r.batch(ndjson, strings.Join(bodies[4:], "\n"))
	for id, rec := range logged(t, b, len(want)+100) {
		for i, item := range last.Items {
			if item.ID == id {
				offsets[i] = rec.Offset
			}
		}
	}
	for i := 1; i < 100; i++ {
		if offsets[i] <= offsets[i-1] {
			t.Fatalf("offsets of one message id are %v", offsets)
		}
	}
}

func TestBadEventsDoNotSpoilTheirNeighbours(t *testing.T) {
	r, b := start(t, func(c *Config) { c.MaxBody = 1000 })
	good := func(n int) string { return fmt.Sprintf(`{"event":"a","message_id":"m-%d"}`, n) }
	type want struct {
		status      int
		code, field string
	}
	ok := want{202, "", ""}
	events := []struct {
		body string
		want want
	}{
		{good(0), ok},
		{`{"event":"a"}`, want{400, "missing_field", "message_id"}},
		{`[]`, want{400, "invalid_json", ""}},
		{`7`, want{400, "invalid_json", ""}},
		{good(1), ok},
		{padded(1001), want{413, "too_large", ""}},
		{padded(1000), ok},
		{`{"event":"a b","message_id":"m"}`, want{400, "invalid_field", "event"}},
		{`{"event":"a","message_id":"m","Message_ID":"n"}`, want{400, "invalid_field", "message_id"}},
		{"{\"event\":\"a\",\"message_id\":\"m\",\"t\":\"\xff\"}", want{400, "invalid_json", ""}},
		{good(2), ok},
	}
	lines := append(events[:len(events):len(events)], []struct {
		body string
		want want
	}{
		{`{"event":"a","message_id":"m"`, want{400, "invalid_json", ""}},
		{good(3) + good(4), want{400, "invalid_json", ""}},
		{"\xef\xbb\xbf" + good(5), want{400, "invalid_json", ""}},
		{`{"event":"a","message_id":"m","t":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, want{400, "invalid_json", ""}},
		{good(6), ok},
	}...)
	kept := 0
	for contentType, c := range map[string]struct {
		join, end string
		events    []struct {
			body string
			want want
		}
	}{ndjson: {"\n", "\n", lines}, jsonArray: {",", "]", events}} {
		body := ""
		for i, e := range c.events {
			if i > 0 {
				body += c.join
			}
			body += e.body
		}
		if contentType == jsonArray {
			body = "[" + body
		}
		a := r.batch(contentType, body+c.end)
		if a.status != 207 || len(a.Items) != len(c.events) {
			t.Fatalf("%s: %s", contentType, a)
		}
		for i, e := range c.events {
			if item := a.Items[i]; item.Status != e.want.status || item.Code != e.want.code || item.Field != e.want.field {
				t.Errorf("%s, event %d: %+v, want %+v", contentType, i, item, e.want)
			}
		}
		kept += a.Accepted
	}
	logged(t, b, kept)
	if n := r.metric("hookline_ingest_acked_events_total"); int(n) != kept {
		t.Errorf("%v events acknowledged, %d accepted", n, kept)
	}
	if n := r.metric("hookline_ingest_batch_events_total", "code", "accepted"); int(n) != kept {
		t.Errorf("%v events counted, %d accepted", n, kept)
	}
}

func TestBatchIsRefusedAsAWhole(t *testing.T) {
	r, _ := start(t, func(c *Config) { c.MaxBody = 1000 })
	small := `{"event":"a","message_id":"m"}`
	times := func(n int, text string) string { return strings.Repeat(text, n) }
	array := func(n int) string { return "[" + small + times(n-1, ","+small) + "]" }
	full := times(4195, padded(999)+"\n")[:4<<20]
	for name, c := range map[string]struct {
		contentType, body string
		status            int
		code              string
		headers           []string
	}{
		"empty":                 {ndjson, "", 400, "empty_body", nil},
		"blank lines":           {ndjson, "\n \r\n\t\n", 400, "empty_body", nil},
		"empty array":           {jsonArray, " [ ] ", 400, "empty_body", nil},
		"blank array":           {jsonArray, " ", 400, "empty_body", nil},
		"1001 lines":            {ndjson, times(1001, small+"\n"), 413, "too_large", nil},
		"1001 bad lines":        {ndjson, times(1001, "x\n"), 413, "too_large", nil},
		"1001 elements":         {jsonArray, array(1001), 413, "too_large", nil},
		"4 MiB and a byte":      {ndjson, full + "\n", 413, "too_large", nil},
		"far over 4 MiB":        {ndjson, times(6<<20, " "), 413, "too_large", nil},
		"an object":             {jsonArray, small, 400, "invalid_json", nil},
		"broken element":        {jsonArray, "[" + small + `,{"event":"a",,}]`, 400, "invalid_json", nil},
		"trailing comma":        {jsonArray, "[" + small + ",]", 400, "invalid_json", nil},
		"no end":                {jsonArray, "[" + small, 400, "invalid_json", nil},
		"something follows":     {jsonArray, "[" + small + "] x", 400, "invalid_json", nil},
		"mark":                  {jsonArray, "\xef\xbb\xbf[" + small + "]", 400, "invalid_json", nil},
		"key":                   {ndjson, small, 400, "invalid_field", []string{"Idempotency-Key", strings.Repeat("k", 256)}},
		"type":                  {"text/plain", small, 415, "unsupported_media_type", nil},
		"one CloudEvent":        {"application/cloudevents+json", small, 415, "unsupported_media_type", nil},
		"charset":               {ndjson + "; charset=utf-16", small, 415, "unsupported_media_type", nil},
		"encoding":              {ndjson, small, 415, "unsupported_media_type", []string{"Content-Encoding", "br"}},
		"not gzip":              {ndjson, small, 400, "invalid_encoding", []string{"Content-Encoding", "gzip"}},
		"stranger":              {ndjson, small, 401, "unauthenticated", []string{"Authorization", "", "Authorization", "Bearer nobody"}},
		"stranger with a lot":   {ndjson, times(3<<20, " "), 401, "unauthenticated", []string{"Authorization", "", "Authorization", "Bearer nobody"}},
		"inflates over a limit": {ndjson, string(gzipOf(t, times(5<<20, " "))), 413, "too_large", []string{"Content-Encoding", "gzip"}},
	} {
		if a := r.batch(c.contentType, c.body, c.headers...); a.status != c.status || a.Code != c.code || a.Detail == "" {
			t.Errorf("%s: %.300s", name, a)
		}
	}
	if n := r.metric("hookline_ingest_acked_events_total"); n != 0 {
		t.Errorf("%v events of refused batches are in the log", n)
	}
	if a := r.batch(ndjson, full); a.status != 413 && len(a.Items) != 0 {
		t.Errorf("4 MiB: %.300s", a)
	}
	for _, body := range []string{times(1000, small+"\n"), array(1000)} {
		contentType := ndjson
		if body[0] == '[' {
			contentType = jsonArray
		}
		if a := r.batch(contentType, body); a.status != 202 || a.Accepted != 1000 {
			t.Errorf("1000 events as %s: %.300s", contentType, a)
		}
	}
	if a := r.do("GET", PathBatch, ""); a.status != 405 || a.header.Get("Allow") != "POST" {
		t.Error(a)
	}
}

func gzipOf(t testing.TB, text string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestBatchOfTheFullSizeInEachEncoding(t *testing.T) {
	r, _ := start(t)
	body := strings.Repeat(padded(131_071)+"\n", 32) // 4 MiB to the byte
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, wire := range map[string]string{"": body, "gzip": string(gzipOf(t, body)), "zstd": string(enc.EncodeAll([]byte(body), nil))} {
		if a := r.batch(ndjson, wire, "Content-Encoding", name); a.status != 202 || a.Accepted != 32 {
			t.Errorf("%q: %.300s", name, a)
		}
	}
}

// Event n of a batch is the event that a publish of its own with the key KEY/n would be.
func TestBatchKeys(t *testing.T) {
	r, _ := start(t)
	lines := goodBody + "\n\nbroken\n" + goodBody + "\n"
	first, again := r.batch(ndjson, lines, "Idempotency-Key", "k"), r.batch(ndjson, lines, "Idempotency-Key", "k")
	array := r.batch(jsonArray, "["+goodBody+",0,"+goodBody+"]", "Idempotency-Key", "k")
	for _, n := range []int{0, 2} {
		one := r.post(goodBody, "Idempotency-Key", "k/"+strconv.Itoa(n))
		if id := first.Items[n].ID; id == "" || id != again.Items[n].ID || id != array.Items[n].ID || id != one.ID {
			t.Errorf("event %d: ids %q, %q, %q, %q", n, id, again.Items[n].ID, array.Items[n].ID, one.ID)
		}
	}
	if first.Items[0].ID == first.Items[2].ID {
		t.Error("two events of a batch have one id")
	}
	// 255 characters are a key, whatever the number makes of it.
	if a := r.batch(ndjson, goodBody, "Idempotency-Key", strings.Repeat("k", 255)); a.status != 202 {
		t.Error(a)
	}
}

// The broker refuses one partition: its events are told so, the others are accepted.
func TestPartialBrokerFailureIsToldPerEvent(t *testing.T) {
	for _, c := range []struct {
		err    *kerr.Error
		status int
		code   string
	}{
		{kerr.TopicAuthorizationFailed, 503, "unavailable"},
		{kerr.UnknownServerError, 504, "unknown_outcome"},
		{kerr.MessageTooLarge, 413, "too_large"},
	} {
		t.Run(c.err.Message, func(t *testing.T) {
			r, fake := startFake(t)
			var n atomic.Int32
			n.Store(1 << 20)
			failPartition(fake, 2, c.err, &n)
			var lines []string
			for i := range 100 {
				lines = append(lines, fmt.Sprintf(`{"event":"a","message_id":"m-%d"}`, i))
			}
			a := r.batch(ndjson, strings.Join(lines, "\n"))
			n.Store(0)
			if a.status != 207 || a.Accepted == 0 || a.Rejected == 0 {
				t.Fatal(a)
			}
			for i, item := range a.Items {
				want := batchItem{Index: i, Status: 202, ID: item.ID}
				if event.Partition("m-"+strconv.Itoa(i), 4) == 2 {
					want = batchItem{Index: i, Status: c.status, Code: c.code, Detail: item.Detail}
				}
				if item != want {
					t.Errorf("event %d: %+v, want %+v", i, item, want)
				}
			}
		})
	}
}

// No broker: what was handed over is unknown, each of it; then the door is shut for all.
func TestBatchInAnOutage(t *testing.T) {
	t.Parallel()
	r, fake := startFake(t)
	if a := r.batch(ndjson, goodBody); a.status != 202 {
		t.Fatal(a)
	}
	_, release := hold(t, fake)
	begin := time.Now()
	a := r.batch(ndjson, goodBody+"\n{}\n"+goodBody, "Idempotency-Key", "k")
	if took := time.Since(begin); a.status != 207 || a.Rejected != 3 || took > 2*time.Second {
		t.Fatalf("after %s: %s", took, a)
	}
	for n, code := range []string{"unknown_outcome", "missing_field", "unknown_outcome"} {
		if a.Items[n].Code != code {
			t.Errorf("event %d: %+v", n, a.Items[n])
		}
	}
	if a := r.batch(ndjson, goodBody); a.status != 503 || a.Code != "unavailable" || a.header.Get("Retry-After") == "" {
		t.Error(a)
	}
	release()
	eventually(t, func() bool { return r.batch(ndjson, goodBody).status == 202 })
	eventually(t, func() bool { return r.metric("hookline_ingest_waiting_bytes") == 0 })
	if n := r.metric("hookline_ingest_oldest_unacked_seconds"); n != 0 {
		t.Errorf("oldest unacknowledged event is %vs old", n)
	}
}

// A batch that the buffer has no room for is refused as a whole: a part of it could overtake
// the rest.
func TestBatchBeyondTheBufferIsRefused(t *testing.T) {
	r, fake := startFake(t, func(c *Config) {
		c.MaxBody, c.StallAfter, c.AckTimeout = 1000, maxStall, 10*time.Second
		c.MaxBufferedBytes = 4 * (1000 + event.HeaderRoom)
	})
	if a := r.batch(ndjson, strings.Repeat(goodBody+"\n", 40)); a.status != 413 || a.Code != "too_large" {
		t.Errorf("more than the buffer ever takes: %s", a)
	}
	_, release := hold(t, fake)
	done := make(chan batchAnswer, 1)
	go func() { done <- r.batch(ndjson, strings.Repeat(goodBody+"\n", 20)) }()
	eventually(t, func() bool { return r.metric("hookline_ingest_waiting_bytes") > 0 })
	if a := r.batch(ndjson, strings.Repeat(goodBody+"\n", 20)); a.status != 503 || a.Code != "unavailable" {
		t.Errorf("more than there is room for: %s", a)
	}
	release()
	if a := <-done; a.status != 202 || a.Accepted != 20 {
		t.Error(a)
	}
	if a := r.batch(ndjson, strings.Repeat(goodBody+"\n", 20)); a.status != 202 {
		t.Error(a)
	}
}
