package analytics

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/analytics/row"
	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

// extremeRow is at the ends of what a record can say.
func extremeRow(i int, times ...int64) attempt.Record {
	long := strings.Repeat("x\xff'\\\x00", 3000)
	return attempt.Record{
		AttemptedMs: times[i%len(times)], OccurredMs: times[(i+1)%len(times)], AcceptedMs: times[(i+2)%len(times)], NextRetryMs: times[(i+3)%len(times)],
		Tenant: long, Endpoint: long, EventType: long, Source: long, EventID: long, MessageID: long, Worker: long, Tier: long, ErrorClass: long, HTTPVersion: long,
		Sequence: math.MaxUint64, Attempt: math.MaxUint16, MaxAttempts: math.MaxUint16, Parks: math.MaxUint16, Deliveries: math.MaxUint16, StatusCode: math.MaxUint16,
		QueueWaitUs: math.MaxUint64, DNSUs: math.MaxUint32, TotalUs: math.MaxUint32, RequestBytes: math.MaxUint32, DueErrorMs: math.MinInt32,
		Outcome: attempt.Outcome(1 + i%6), Trigger: attempt.Probe, Circuit: attempt.HalfOpen,
	}
}

// No record can make an INSERT fail: it would fail for ever.
func extremes(t *testing.T, r *rig) {
	times := []int64{math.MinInt64, -1, 0, 1, time.Now().UnixMilli(), math.MaxInt32 * 1000, math.MaxUint32 * 1000, 1 << 53, math.MaxInt64}
	stamps := []time.Time{{}, time.UnixMilli(1), time.Now(), time.Now().AddDate(-40, 0, 0), time.Now().AddDate(400, 0, 0)}
	var recs []*kgo.Record
	for i := range 60 {
		a := extremeRow(i, times...)
		recs = append(recs, &kgo.Record{Topic: r.broker.Prefix + attempt.Suffix, Timestamp: stamps[i%len(stamps)], Value: attempt.AppendRecord(nil, &a)})
	}
	for i := range 100 { // on as many days
		a := testRow(rand.New(rand.NewPCG(1, uint64(i))), i)
		at := time.Now().AddDate(0, 0, -i)
		a.AttemptedMs = at.UnixMilli()
		recs = append(recs, &kgo.Record{Topic: r.broker.Prefix + attempt.Suffix, Timestamp: at, Value: attempt.AppendRecord(nil, &a)})
	}
	for i, at := range stamps {
		recs = append(recs,
			&kgo.Record{Topic: r.broker.Prefix + event.EventsSuffix, Timestamp: at, Key: []byte("m"), Value: []byte("{}"), Headers: []kgo.RecordHeader{
				{Key: event.HeaderType, Value: []byte("a.b")}, {Key: event.HeaderAcceptedMs, Value: []byte("0")}, {Key: event.HeaderTime, Value: []byte("1900-01-01T00:00:00Z")}}},
			&kgo.Record{Topic: r.broker.Prefix + tier.DeadSuffix, Timestamp: at, Key: []byte("\xff\x00"), Headers: []kgo.RecordHeader{
				{Key: tier.HeaderReason, Value: []byte("a-new-reason")}, {Key: tier.HeaderStatus, Value: []byte("999")}, {Key: tier.HeaderFirstMs, Value: []byte("253402300799999")}}, Partition: int32(i % deadN)},
		)
	}
	r.produce(recs...)
	run := r.start(nil)
	for _, suffix := range []string{attempt.Suffix, event.EventsSuffix, tier.DeadSuffix} {
		r.drained(suffix)
	}
	if n := run.metric(t, "insert_retries_total"); n != 0 {
		t.Errorf("%v inserts failed", n)
	}
	if n := run.metric(t, "rows_inserted_total"); n != float64(len(recs)) {
		t.Errorf("%v rows of %d records", n, len(recs))
	}
	if run.metric(t, "times_clamped_total") == 0 || run.metric(t, "words_replaced_total") == 0 {
		t.Error("nothing was clamped or replaced")
	}
	if n := r.scalar("(SELECT max(length(event_type)) + max(length(tenant_id)) FROM " + r.db + ".attempts)"); n > 64+128 {
		t.Errorf("words of %d bytes", n)
	}
}

// A row depends on nothing but its record, and no word of the record beyond the columns is in it.
func TestRowsOfARecord(t *testing.T) {
	t.Parallel()
	a := extremeRow(3, 5, 6, 7)
	rec := &kgo.Record{Partition: 7, Offset: 9, Timestamp: time.UnixMilli(1_764_500_000_000), Value: attempt.AppendRecord(nil, &a)}
	var first row.Attempts
	var c counts
	for range 2 {
		var b row.Attempts
		if got, err := (attempts{}).add(&b, rec, true, &c); got != inBlock || err != nil {
			t.Fatal(got, err)
		}
		if first.Rows() == 0 {
			first = b
		}
		if !sameRows(&first, &b) {
			t.Fatal("two rows of one record differ")
		}
	}
	for _, col := range first.Columns() {
		switch v := col.Values.(type) {
		case []string:
			if strings.Contains(v[0], "x") && len(v[0]) > event.MaxID {
				t.Errorf("%s has %d bytes", col.Name, len(v[0]))
			}
		case []int64:
			if v[0] < -2_208_988_800_000 || v[0] > 4_102_444_800_000 {
				t.Errorf("%s is %d", col.Name, v[0])
			}
		}
	}
	if c.clamped != 2 || c.other == 0 {
		t.Errorf("%+v", c)
	}
}

// FuzzDecode: no bytes of any of the topics make a block with columns of unequal length, or panic.
func FuzzDecode(f *testing.F) {
	a := extremeRow(1, 5, 6, 7)
	f.Add(attempt.AppendRecord(nil, &a), []byte("m-1"), "ce_type", []byte("a.b"), int64(1_764_500_000_000))
	f.Add([]byte("{}"), []byte{}, tier.HeaderReason, []byte("poison"), int64(-1))
	f.Fuzz(func(t *testing.T, value, key []byte, name string, header []byte, ms int64) {
		rec := &kgo.Record{Topic: "t", Partition: 1, Offset: 2, Key: key, Value: value, Timestamp: time.UnixMilli(ms),
			Headers: []kgo.RecordHeader{{Key: event.HeaderType, Value: []byte("a.b")}, {Key: name, Value: header}}}
		for _, src := range []source{attempts{}, &events{}, dead{}} {
			b := src.newBlock()
			var c counts
			got, err := src.add(b, rec, true, &c)
			if (got == inBlock) != (err == nil) || (got == inBlock) != (b.Rows() == 1) {
				t.Fatalf("%s: %d, %v, %d rows", src.table(), got, err, b.Rows())
			}
			if lo, hi := b.Span(); lo < 0 || hi > 4_102_444_800_000 {
				t.Fatalf("%s: a row between %d and %d", src.table(), lo, hi)
			}
		}
	})
}

// BenchmarkDecode is a record of attempts to its columns.
func BenchmarkDecode(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	recs := make([]*kgo.Record, 10_000)
	for i := range recs {
		a := testRow(rng, i)
		recs[i] = &kgo.Record{Offset: int64(i), Timestamp: time.Now(), Value: attempt.AppendRecord(nil, &a)}
	}
	block := &row.Attempts{}
	var c counts
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n%len(recs) == 0 {
			block.Reset()
		}
		if _, err := (attempts{}).add(block, recs[n%len(recs)], true, &c); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(block.Memory())/float64(block.Rows()), "B/row")
	b.ReportMetric(float64(block.Bytes())/float64(block.Rows()), "wireB/row")
}

// A record without a tenant belongs to the only one, as it does to the dispatcher; with several
// it is poison there and no row here.
func TestOwnerOfARecordWithoutATenant(t *testing.T) {
	t.Parallel()
	rec := &kgo.Record{
		Key: []byte("m1"), Value: []byte(`{}`), Timestamp: time.UnixMilli(1_764_500_000_000),
		Headers: []kgo.RecordHeader{{Key: event.HeaderType, Value: []byte("message.sent")}},
	}
	for only, want := range map[string]added{"acme": inBlock, "": bad} {
		var b row.Events
		var c counts
		if got, _ := (&events{only: func() string { return only }}).add(&b, rec, true, &c); got != want {
			t.Errorf("only tenant %q: %v, want %v", only, got, want)
		}
		if want != inBlock {
			continue
		}
		for _, col := range b.Columns() {
			if v, ok := col.Values.([]string); ok && col.Name == "tenant_id" && v[0] != only {
				t.Errorf("tenant is %q", v[0])
			}
		}
	}
}
