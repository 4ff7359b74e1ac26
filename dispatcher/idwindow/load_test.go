package idwindow_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/dispatcher/idwindow"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

func keyed(ev *event.Event) bool { return event.Place{Partitions: 1}.Keyed(ev) }

// TestLoadKeepsLittleMoreThanTheWindowHolds reads many more keys than the window is allowed.
func TestLoadKeepsLittleMoreThanTheWindowHolds(t *testing.T) {
	b := brokertest.Start(t)
	events, dedupe := event.EventsTopic(1), tier.DedupeTopic(1)
	b.CreateTopics(t, events, dedupe)
	cl := b.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	const inSegments, n, limit = 4 * idwindow.MaxSegment, 5*idwindow.MaxSegment + 100, 50
	var batch []*kgo.Record
	now := time.Now().UnixMilli()
	for from := int64(0); from < inSegments; from += idwindow.MaxSegment {
		seg := idwindow.Segment{From: from, To: from + idwindow.MaxSegment}
		for off := seg.From; off < seg.To; off++ {
			seg.Entries = append(seg.Entries, idwindow.Entry{ID: idwindow.IdentityOf("d", "s", fmt.Sprint(off)), Offset: off, AtMs: now})
		}
		batch = append(batch, &kgo.Record{Topic: dedupe.Name(b.Prefix), Key: seg.Key(), Value: seg.Append(nil)})
	}
	for i := range n {
		ev := event.Event{
			ID: event.DeriveID("dev", "a.b", "m", fmt.Sprint(i)), Type: "a.b", Source: "/s", MessageID: "m", Tenant: "dev",
			Schema: "1", AcceptedMs: now, Sequence: -1, Body: []byte(`{}`),
		}
		batch = append(batch, &kgo.Record{Topic: events.Name(b.Prefix), Key: []byte("m"), Value: ev.Body, Headers: ev.Headers(nil)})
	}
	if err := cl.ProduceSync(ctx, batch...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	got, err := idwindow.Load(ctx, idwindow.Source{
		Client: b.Client(t), Events: events.Name(b.Prefix), Dedupe: dedupe.Name(b.Prefix),
		Watermark: n, Age: time.Hour, Max: limit, Decode: event.Decode, Keyed: keyed,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Entries) != limit || got.Entries[0].Offset != n-limit || got.Next != inSegments || len(got.Segments) != 4 {
		t.Errorf("%d entries, next segment at %d, %d segments", len(got.Entries), got.Next, len(got.Segments))
	}
	if c := cap(got.Entries); c > 3*idwindow.MaxSegment {
		t.Errorf("room for %d entries was taken", c)
	}
}

func TestLoadReadsSegmentsAndTheCommittedRest(t *testing.T) {
	t.Run("at once", func(t *testing.T) { loadSegmentsAndRest(t, time.Now()) })
	t.Run("after an outage", func(t *testing.T) { loadSegmentsAndRest(t, time.Now().Add(-5*time.Hour)) })
}

func loadSegmentsAndRest(t *testing.T, at time.Time) {
	b := brokertest.Start(t)
	events, dedupe := event.EventsTopic(1), tier.DedupeTopic(1)
	b.CreateTopics(t, events, dedupe)
	cl := b.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var all []idwindow.Entry
	for i := range 30 {
		ev := event.Event{
			ID: event.DeriveID("dev", "a.b", "m", fmt.Sprint(i)), Type: "a.b", Source: "/s", MessageID: "m", Tenant: "dev",
			Schema: "1", AcceptedMs: at.Add(-100 * time.Hour).UnixMilli(), Sequence: -1, Body: fmt.Appendf(nil, `{"n":%d}`, i),
		}
		if i%3 == 0 {
			ev.ID = event.NewID() // no key: not in the window
		}
		r := &kgo.Record{Timestamp: at, Topic: events.Name(b.Prefix), Key: []byte(ev.MessageID), Value: ev.Body, Headers: ev.Headers(nil)}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if i%3 != 0 {
			all = append(all, idwindow.EntryOf(&ev, r))
		}
	}
	const watermark = 25
	seg := idwindow.Segment{From: 0, To: 10}
	for _, e := range all {
		if e.Offset < seg.To {
			seg.Entries = append(seg.Entries, e)
		}
	}
	// A record that nobody can read takes the place of its segment, not of the truth.
	bad := &kgo.Record{Topic: dedupe.Name(b.Prefix), Key: []byte("broken"), Value: []byte("?")}
	good := &kgo.Record{Topic: dedupe.Name(b.Prefix), Key: seg.Key(), Value: seg.Append(nil)}
	if err := cl.ProduceSync(ctx, bad, good).FirstErr(); err != nil {
		t.Fatal(err)
	}
	got, err := idwindow.Load(ctx, idwindow.Source{
		Client: b.Client(t), Events: events.Name(b.Prefix), Dedupe: dedupe.Name(b.Prefix),
		Watermark: watermark, Age: time.Hour, Max: 1000, Decode: event.Decode, Keyed: keyed,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.Next != 10 {
		t.Errorf("next segment continues at %d, want 10", got.Next)
	}
	var want []idwindow.Entry
	for _, e := range all {
		if e.Offset < watermark {
			want = append(want, e)
		}
	}
	if fmt.Sprint(got.Entries) != fmt.Sprint(want) {
		t.Errorf("loaded\n %v\nwant\n %v", got.Entries, want)
	}
}
