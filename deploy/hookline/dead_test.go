package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

// fillDead writes n dead letters one second apart, the newest last, over all partitions.
func fillDead(t *testing.T, b *brokertest.Broker, n int, first time.Time) {
	t.Helper()
	cl := b.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var recs []*kgo.Record
	for i := range n {
		e := event.Event{ID: fmt.Sprintf("evt_%d", i), Type: "message.sent", MessageID: fmt.Sprintf("m%d", i), Tenant: "dev", AcceptedMs: 1, Sequence: -1}
		reason, status := tier.Exhausted, 500
		if i%10 == 0 {
			reason, status, e.Type = tier.Permanent, 400, "message.read"
		}
		ticket := tier.Ticket{Endpoint: fmt.Sprintf("ep%d", i%2), Attempt: 3, FirstMs: 5, Status: status, Error: "answered", Reason: reason}
		recs = append(recs, &kgo.Record{
			Topic: tier.DeadTopic(1).Name(b.Prefix), Partition: int32(i % 12), Timestamp: first.Add(time.Duration(i) * time.Second),
			Key: []byte(e.MessageID), Value: []byte(fmt.Sprintf(`{"n":%d}`, i)), Headers: tier.AppendDead(nil, e.Headers(nil), &ticket),
		})
	}
	if err := cl.ProduceSync(ctx, recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// pages reads all pages of a list and returns the event ids in order.
func (r *rig) pages(q url.Values) (ids []string, pages int) {
	r.t.Helper()
	for {
		var page deadPage
		a := r.want(r.call("GET", "/v1/dead-letters?"+q.Encode(), ""), 200, "")
		if err := json.Unmarshal(a.body, &page); err != nil {
			r.t.Fatal(err)
		}
		for _, d := range page.Items {
			ids = append(ids, d.EventID)
		}
		if pages++; page.Next == "" || pages > 1000 {
			return ids, pages
		}
		q.Set("cursor", page.Next)
	}
}

func TestDeadLettersNewestFirstInPages(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t)
	r := startRig(t, b)
	if ids, _ := r.pages(url.Values{}); len(ids) != 0 {
		t.Errorf("of nothing: %v", ids)
	}
	const n = 250
	first := time.Now().Add(-time.Hour).Truncate(time.Second)
	fillDead(t, b, n, first)
	ids, pages := r.pages(url.Values{"limit": {"40"}})
	if len(ids) != n || pages != 7 {
		t.Fatalf("%d letters in %d pages", len(ids), pages)
	}
	for i, id := range ids {
		if id != fmt.Sprintf("evt_%d", n-1-i) {
			t.Fatalf("place %d holds %s", i, id)
		}
	}
	f := func(want int, q url.Values) {
		t.Helper()
		if ids, _ := r.pages(q); len(ids) != want {
			t.Errorf("%v: %d letters, want %d", q, len(ids), want)
		}
	}
	f(125, url.Values{"endpoint": {"ep1"}})
	f(25, url.Values{"reason": {"permanent"}, "limit": {"7"}})
	f(25, url.Values{"status": {"400"}})
	f(25, url.Values{"type": {"message.read"}})
	f(0, url.Values{"tenant": {"other"}})
	f(1, url.Values{"event_id": {"evt_42"}})
	f(1, url.Values{"message_id": {"m42"}})
	f(50, url.Values{"since": {first.Add(200 * time.Second).Format(time.RFC3339)}})
	f(200, url.Values{"until": {first.Add(200 * time.Second).Format(time.RFC3339)}, "limit": {"33"}})
	f(10, url.Values{"since": {first.Add(100 * time.Second).Format(time.RFC3339)}, "until": {first.Add(110 * time.Second).Format(time.RFC3339)}})
	f(n, url.Values{"since": {"2h"}})

	r.want(r.call("GET", "/v1/dead-letters?reason=tired", ""), 400, "invalid_field")
	r.want(r.call("GET", "/v1/dead-letters?sinze=1h", ""), 400, "invalid_field")
	r.want(r.call("GET", "/v1/dead-letters?since=yesterday", ""), 400, "invalid_field")
	r.want(r.call("GET", "/v1/dead-letters?cursor=AAAA", ""), 400, "invalid_field")

	stdout, stderr, code := r.cli("", "dlq", "list", "--reason", "permanent", "--limit", "5", "--json")
	var out struct{ Items []tier.DeadLetter }
	if err := json.Unmarshal([]byte(stdout), &out); err != nil || code != exitOK || len(out.Items) != 5 {
		t.Errorf("dlq list: %v %d %s %s", err, code, stdout, stderr)
	}
	d := out.Items[0]
	stdout, _, code = r.cli("", "dlq", "show", fmt.Sprintf("%d/%d", d.Partition, d.Offset))
	if code != exitOK || !strings.Contains(stdout, `"body": "{\"n\":240}"`) || !strings.Contains(stdout, `"hl_reason": "permanent"`) {
		t.Errorf("dlq show: %d %s", code, stdout)
	}
	if _, _, code := r.cli("", "dlq", "show", "zero"); code != exitUsage {
		t.Errorf("dlq show of no position: %d", code)
	}
	r.want(r.call("GET", "/v1/dead-letters/0/99999", ""), 404, "not_found")
	r.want(r.call("GET", "/v1/dead-letters/99/0", ""), 404, "not_found")
	r.want(r.call("GET", "/v1/dead-letters/x/0", ""), 404, "not_found")
}

func TestDeadLetterThatIsNotText(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t)
	r := startRig(t, b)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cl := b.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	rec := &kgo.Record{Topic: tier.DeadTopic(1).Name(b.Prefix), Value: []byte{0xff, 0}, Headers: tier.AppendPoison(nil, []kgo.RecordHeader{{Key: "x", Value: []byte{0xfe}}}, "why")}
	if err := cl.ProduceSync(ctx, rec).FirstErr(); err != nil {
		t.Fatal(err)
	}
	m := r.want(r.call("GET", "/v1/dead-letters/0/0", ""), 200, "").json(t)
	if m["body_base64"] != "/wA=" || m["body"] != nil || m["reason"] != "poison" || m["last_error"] != "why" || m["first_at"] != nil {
		t.Errorf("got %v", m)
	}
}

// FuzzDeadQuery checks that no query panics the reader of filters or of cursors.
func FuzzDeadQuery(f *testing.F) {
	f.Add("reason=exhausted&status=500&since=15m", "eyIwIjo3fQ")
	f.Add("until=2026-01-01T00:00:00Z&x=1", "")
	f.Fuzz(func(t *testing.T, query, cursor string) {
		q, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		filter, err := parseDeadFilter(q, time.Unix(1e9, 0))
		if err == nil {
			filter.matches(&tier.DeadLetter{})
		}
		c, err := parseDeadCursor(cursor)
		if err == nil && c != nil {
			again, err := parseDeadCursor(c.String())
			if err != nil || len(again) != len(c) {
				t.Errorf("cursor %q does not survive: %v", cursor, err)
			}
		}
	})
}
