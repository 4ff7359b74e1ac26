package ingest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/valyala/fasthttp"

	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/ingest/event/oracle"
)

// sent is one way to publish: what the oracle finds in a body, and what is delivered as its type.
type sent struct {
	path, contentType, delivered string
	read                         func([]byte) (oracle.Event, bool)
	split                        func([]byte) ([][]byte, bool) // of a batch
}

var ways = []sent{
	{PathEvents, "application/json", "application/json", oracle.Body, nil},
	{PathEvents, cloudType, cloudType, oracle.CloudEvent, nil},
	{PathBatch, ndjson, "application/json", oracle.Body, func(b []byte) ([][]byte, bool) { return oracle.Lines(b), true }},
	{PathBatch, jsonArray, "application/json", oracle.Body, oracle.Array},
	{PathBatch, cloudArray, cloudType, oracle.CloudEvent, oracle.Array},
}

// promised is one event that the oracle takes: its bytes and what is to be understood of it.
type promised struct {
	body []byte
	oracle.Event
}

// promises are the events of a body by their index, and false if none of it may be taken.
func (w *sent) promises(body []byte) (map[int]promised, int, bool) {
	parts, ok := [][]byte{body}, true
	if w.split != nil {
		parts, ok = w.split(body)
	}
	if !ok || len(parts) == 0 || len(parts) > maxBatchEvents {
		return nil, 0, false
	}
	out := map[int]promised{}
	for i, part := range parts {
		if e, ok := w.read(part); ok {
			out[i] = promised{part, e}
		}
	}
	return out, len(parts), true
}

// same fails if a record is not the promised one with the answered id.
func (w *sent) same(t *testing.T, rec *kgo.Record, want promised, id, key string) {
	t.Helper()
	e, err := event.Decode(rec)
	if err != nil {
		t.Fatalf("%q became a record that is poison: %v", want.body, err)
	}
	source := "/hookline/dev"
	derived := event.DeriveID("dev", want.Type, want.MessageID, key)
	if want.ID != "" {
		if source = want.Source; key == "" {
			derived = event.DeriveCloudID("dev", want.Type, want.MessageID, want.Source, want.ID)
		}
	}
	if !bytes.Equal(rec.Value, want.body) || string(rec.Key) != want.MessageID || e.Type != want.Type || e.Sequence != want.Sequence || e.Schema != want.Schema ||
		!e.OccurredAt.Equal(want.OccurredAt) || e.Tenant != "dev" || e.Source != source || e.ContentType != w.delivered || e.Origin != "" {
		t.Fatalf("%q became %+v", want.body, e)
	}
	if e.ID != id || (want.ID != "" || key != "") && id != derived || want.ID == "" && key == "" && !event.IsRandomID(id) {
		t.Fatalf("%q has id %s, answered %s, key %q", want.body, e.ID, id, key)
	}
}

// ids are the answered ids by index.
func (w *sent) ids(t *testing.T, status int, body []byte) map[int]string {
	t.Helper()
	var a struct {
		ID    string
		Items []batchItem
	}
	if err := json.Unmarshal(body, &a); err != nil {
		t.Fatalf("answer %d %q: %v", status, body, err)
	}
	out := map[int]string{}
	if w.split == nil && status == 202 {
		out[0] = a.ID
	}
	for _, item := range a.Items {
		if item.Status == 202 {
			out[item.Index] = item.ID
		}
	}
	return out
}

// captured is a server whose Kafka client acknowledges at once and keeps what it was given.
type captured struct {
	*Server
	records []*kgo.Record
}

func newCaptured(t testing.TB) *captured {
	t.Helper()
	s, err := New(testConfig(), Deps{Prefix: "x."})
	if err != nil {
		t.Fatal(err)
	}
	c := &captured{Server: s}
	s.producer.Store(newProducer(fakeKafka{func(r *kgo.Record, promise func(*kgo.Record, error)) {
		c.records = append(c.records, r)
		promise(r, nil)
	}}, "events", s.cfg, s.metrics, s.log))
	return c
}

// holds publishes body and fails if what is accepted is not what the oracle takes, or not handed
// over as it was sent. The memory of the request is written over before the records are looked
// at.
func (c *captured) holds(t *testing.T, w *sent, body []byte, key string) {
	t.Helper()
	c.records = nil
	var ctx fasthttp.RequestCtx
	ctx.Request.Header.SetMethod("POST")
	ctx.Request.SetRequestURI(w.path)
	ctx.Request.Header.SetContentType(w.contentType)
	ctx.Request.Header.Set("Authorization", "Bearer secret")
	if key != "" {
		ctx.Request.Header.Set("Idempotency-Key", key)
	}
	ctx.Request.SetBody(body)
	c.serve(&ctx)
	again := ctx.Request.Body()
	again = again[:cap(again)]
	for i := range again {
		again[i] = 'X'
	}
	want, _, _ := w.promises(body)
	ids := w.ids(t, ctx.Response.StatusCode(), ctx.Response.Body())
	if len(ids) != len(want) || len(c.records) != len(want) {
		t.Fatalf("%q: %d events of %d are accepted, %d records: %s", body, len(ids), len(want), len(c.records), ctx.Response.Body())
	}
	for i, n := 0, 0; n < len(want); i++ {
		if p, ok := want[i]; ok {
			k := key
			if w.split != nil && key != "" {
				k = fmt.Sprint(key, "/", i)
			}
			w.same(t, c.records[n], p, ids[i], k)
			n++
		}
	}
}

// A batch that is too long for the server's pool of buffers takes the request's own.
func TestLargeBatchKeepsItsMemory(t *testing.T) {
	body := []byte(strings.Repeat(goodBody+"\n", 900))
	if len(body) < takenBody {
		t.Fatalf("%d bytes are no large batch", len(body))
	}
	newCaptured(t).holds(t, &ways[2], body, "k")
}

// FuzzAccepted: an event is accepted when and only when the oracle takes it, and what the handler
// gives to the Kafka client is the event byte for byte, under the answered id, with what the
// oracle finds in it; in all forms of a body but the binary one.
func FuzzAccepted(f *testing.F) {
	c := newCaptured(f)
	one := strings.ReplaceAll(cloudBody, "\n", "")
	for _, seed := range []string{goodBody, cloudBody, goodBody + "\n\r\n {}\n" + goodBody + " \r\n7", "[" + goodBody + ",{}, " + goodBody + "]", "[" + one + ",\n" + one + "]",
		`{"event":"a.b","message_id":"\"q\\\u0041","sequence":7,"schema_version":"3","big":9007199254740993}`} {
		for way := range ways {
			f.Add([]byte(seed), uint8(way), "")
			f.Add([]byte(seed), uint8(way), "key-1")
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, way uint8, key string) {
		w := &ways[int(way)%len(ways)]
		if len(body) <= c.cfg.MaxBody && (key == "" || printable([]byte(key))) {
			c.holds(t, w, body, key)
		}
	})
}

// TestAcceptedComesOutOfKafka is the same from end to end: bodies that were made by chance go
// through the listener into a broker, and are read from there.
func TestAcceptedComesOutOfKafka(t *testing.T) {
	r, b := start(t)
	rng := rand.New(rand.NewPCG(1, 2))
	want := map[string]promised{}
	how := map[string]*sent{}
	for range 60 {
		for i := range ways {
			w := &ways[i]
			body := w.chance(rng)
			a := r.do("POST", w.path, string(body), "Content-Type", "", "Content-Type", w.contentType)
			promises, _, _ := w.promises(body)
			ids := w.ids(t, a.status, a.body)
			if len(ids) != len(promises) {
				t.Fatalf("%q: %d events of %d are accepted: %s", body, len(ids), len(promises), a)
			}
			for n, p := range promises {
				want[ids[n]], how[ids[n]] = p, w
			}
		}
	}
	if len(want) < 300 {
		t.Fatalf("only %d events were accepted", len(want))
	}
	for id, rec := range logged(t, b, len(want)) {
		how[id].same(t, rec, want[id], id, "")
	}
}

// chance makes a body of some events, most of them good.
func (w *sent) chance(rng *rand.Rand) []byte {
	names := []string{"event", "message_id", "occurred_at", "sequence", "schema_version"}
	if w.delivered == cloudType {
		names = []string{"type", "subject", "time", "sequence", "schemaversion"}
	}
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	one := func() string {
		id := fmt.Sprintf("m-%d", rng.Uint64())
		members := []string{
			fmt.Sprintf(`"%s":"%s"`, names[0], pick("a", "a.b", `\u0061.b`, "message.delivered", "message.delivered", "a b")),
			fmt.Sprintf(`"%s" : "%s"`, names[1], pick(id, id, id, `\"`+id, id+`\/`)),
			pick(`"x":9007199254740993`, `"x":[1,{"event":"z"}],"x":-0.0e-7`, `"t":"\ud83d\ude00 \u0000 <&> \/"`, "\"t\":\"\xf0\x9f\x98\x80\""),
		}
		if w.delivered == cloudType {
			members = append(members, `"specversion":"1.0"`, `"source":"/s"`, fmt.Sprintf(`"id":"%d"`, rng.Uint64()))
		}
		for _, m := range []string{
			fmt.Sprintf(`"%s":"%s"`, names[2], pick("2026-07-19T09:15:25Z", "2026-07-19t11:15:25.123456789+02:00", "now")),
			fmt.Sprintf(`"%s":%s`, names[3], pick("0", "7", "9007199254740991", "null")),
			fmt.Sprintf(`"%s":%s`, names[4], pick(`"2"`, "3.5", "null")),
		} {
			if rng.IntN(3) == 0 {
				members = append(members, m)
			}
		}
		rng.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		return "{" + strings.Join(members, pick(",", " ,", ", \t")) + "}"
	}
	if w.split == nil {
		return []byte(pick("", " ", "\r\n") + one() + pick("", "\n"))
	}
	events := make([]string, 1+rng.IntN(8))
	for i := range events {
		events[i] = one()
	}
	if w.contentType == ndjson {
		return []byte(strings.Join(events, pick("\n", "\r\n", "\n\n \n")) + pick("", "\n"))
	}
	return []byte("[" + strings.Join(events, pick(",", " ,\n")) + pick("]", " ]"))
}
