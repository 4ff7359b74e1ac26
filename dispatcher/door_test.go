package dispatcher

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

// direct is a record as a Kafka producer that knows nothing of us may write it: header pairs
// follow the partition.
func (r *rig) direct(key string, partition int32, value string, headers ...string) *kgo.Record {
	rec := &kgo.Record{Topic: r.topic(event.EventsSuffix), Partition: partition, Value: []byte(value)}
	if key != "" {
		rec.Key = []byte(key)
	}
	for i := 0; i < len(headers); i += 2 {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: headers[i], Value: []byte(headers[i+1])})
	}
	return rec
}

// wrong is a partition that key does not belong to.
func (r *rig) wrong(key string) int32 { return (event.Partition(key, r.lanes) + 1) % r.lanes }

func oneTenant(c *Config) { c.OnlyTenant = func() string { return "dev" } }

// TestRecordsInTheWrongPartitionAreForwardedOnce puts records with all kinds of ids into the
// wrong partition. Each is delivered once, with the id that its first place gave it, and each
// offset of events has a row that accounts for it.
func TestRecordsInTheWrongPartitionAreForwardedOnce(t *testing.T) {
	r := newRig(t, 3)
	r.endpoint("e", nil)
	p := r.start("a", oneTenant)
	want := map[string]string{} // body by id
	random := event.NewID()
	var recs []*kgo.Record
	for i, id := range []string{"", "own-1", random, event.DeriveID("dev", "a.b", "k3", "key")} {
		key := fmt.Sprint("k", i)
		rec := r.direct(key, r.wrong(key), fmt.Sprintf(`{"n":%d}`, i), event.HeaderType, "a.b", "hl_attempt", "15", "hl_endpoint", "x", "tracestate", "kept")
		if id != "" {
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: event.HeaderID, Value: []byte(id)})
		}
		recs = append(recs, rec)
	}
	r.produce(recs...)
	for _, rec := range recs {
		ev, err := event.Decode(rec) // the client has filled in offset and time
		if err != nil {
			t.Fatal(err)
		}
		want[ev.ID] = string(rec.Value)
	}
	r.recv.wait(t, len(recs))
	eventually(t, "rows of all records", func() bool { return len(r.rowsOf()) == 2*len(recs) })
	for _, q := range r.recv.all() {
		if want[q.id] != q.body || q.attempt != "1" {
			t.Errorf("delivered %s %q, attempt %s", q.id, q.body, q.attempt)
		}
		delete(want, q.id)
	}
	if len(want) != 0 {
		t.Errorf("not delivered: %v", want)
	}
	if n := metricValue(t, p, "records_forwarded_total"); n != float64(len(recs)) {
		t.Errorf("%v records forwarded, want %d", n, len(recs))
	}
	p.end(t)
	r.checkAccounted(2 * len(recs))
}

// checkAccounted compares the offsets of events with the rows about them.
func (r *rig) checkAccounted(total int) {
	r.t.Helper()
	type at struct {
		partition int32
		offset    int64
	}
	rows := map[at][]attempt.Record{}
	for _, row := range r.rowsOf() {
		rows[at{row.Position.Partition, row.Position.Offset}] = append(rows[at{row.Position.Partition, row.Position.Offset}], row)
	}
	recs := r.read(event.EventsSuffix)
	if len(recs) != total {
		r.t.Errorf("%d records in events, want %d", len(recs), total)
	}
	for _, rec := range recs {
		here := rows[at{rec.Partition, rec.Offset}]
		right := event.Partition(string(rec.Key), r.lanes) == rec.Partition
		switch {
		case len(here) != 1:
			r.t.Errorf("%d rows about %d/%d", len(here), rec.Partition, rec.Offset)
		case right && (here[0].Outcome != attempt.Delivered || here[0].Source != event.OriginKafka && !strings.HasPrefix(here[0].EventID, "evt_")):
			r.t.Errorf("row of a forwarded record: %+v", here[0])
		case !right && (here[0].Outcome != attempt.Dropped || here[0].Reason != attempt.Forwarded || here[0].Endpoint != "" || here[0].EventID == ""):
			r.t.Errorf("row of a misplaced record: %+v", here[0])
		}
		if got := r.committed(event.EventsSuffix, rec.Partition); got <= rec.Offset {
			r.t.Errorf("partition %d is committed up to %d, a record lies at %d", rec.Partition, got, rec.Offset)
		}
	}
}

// TestForwarderDiesBetweenCopyAndCommit kills the forwarder when its copies are in the log
// and nothing says so. The next owner forwards again, and window A drops what came twice: also
// for an id that is otherwise trusted to come once.
func TestForwarderDiesBetweenCopyAndCommit(t *testing.T) {
	r := newRig(t, 2)
	r.endpoint("e", nil)
	release := r.forbid(attempt.Suffix)
	p := r.start("a", oneTenant)
	const n = 8
	for i := range n {
		key := fmt.Sprint("k", i)
		rec := r.direct(key, r.wrong(key), fmt.Sprintf(`{"n":%d}`, i), event.HeaderType, "a.b")
		if i%2 == 0 {
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: event.HeaderID, Value: []byte(event.NewID())})
		}
		r.produce(rec)
	}
	eventually(t, "copies", func() bool { return len(r.read(event.EventsSuffix)) >= 2*n })
	p.cut.kill()
	release()
	q := r.start("a", oneTenant) // a static member: its lanes come at once
	eventually(t, "rows about every record", func() bool {
		seen := map[[2]int64]bool{}
		for _, row := range r.rowsOf() {
			seen[[2]int64{int64(row.Position.Partition), row.Position.Offset}] = true
		}
		return len(seen) == len(r.read(event.EventsSuffix))
	})
	q.end(t)
	if r.b.Fake() != nil && len(r.read(event.EventsSuffix)) != 3*n {
		t.Errorf("%d records in events, want %d: the crash was not between copy and row", len(r.read(event.EventsSuffix)), 3*n)
	}
	// What was posted before the kill and has no row is posted again: that is at least once, and
	// not what this test is about. A copy that came twice would be a second chain of attempts.
	delivered := map[string]int{}
	for _, row := range r.rowsOf() {
		if row.Outcome == attempt.Delivered {
			delivered[row.EventID]++
		}
	}
	if len(delivered) != n {
		t.Errorf("%d events delivered, want %d", len(delivered), n)
	}
	for id, k := range delivered {
		if k != 1 {
			t.Errorf("event %s was delivered %d times", id, k)
		}
	}
}

// TestPoisonAtTheKafkaDoor: what cannot be read goes to dead with its bytes and the reason, and
// the lane goes on.
func TestPoisonAtTheKafkaDoor(t *testing.T) {
	r := newRig(t, 2)
	r.endpoint("e", nil)
	p := r.start("a", nil) // no tenant is the only one
	bad := map[string]*kgo.Record{
		"no key":         r.direct("", 0, `{"a":1}`, event.HeaderType, "a.b", event.HeaderTenant, "dev", event.HeaderSubject, "m"),
		"blank in key":   r.direct("a b", 0, `{"a":2}`, event.HeaderType, "a.b", event.HeaderTenant, "dev"),
		"long key":       r.direct(strings.Repeat("k", 129), 1, `{"a":3}`, event.HeaderType, "a.b", event.HeaderTenant, "dev"),
		"no type":        r.direct("m", 1, `{"a":4}`, event.HeaderTenant, "dev"),
		"type":           r.direct("m", 0, `{"a":5}`, event.HeaderType, "a..b", event.HeaderTenant, "dev"),
		"no tenant":      r.direct("m", 0, `{"a":6}`, event.HeaderType, "a.b"),
		"empty value":    r.direct("m", 1, ``, event.HeaderType, "a.b", event.HeaderTenant, "dev"),
		"tombstone":      r.direct("m", 1, ``, event.HeaderType, "a.b", event.HeaderTenant, "dev"),
		"id with a dot":  r.direct("m", 0, `{"a":7}`, event.HeaderType, "a.b", event.HeaderTenant, "dev", event.HeaderID, "a.b"),
		"another format": r.direct("m", 0, `{"a":8}`, event.HeaderType, "a.b", event.HeaderTenant, "dev", event.HeaderSpecVersion, "0.3"),
	}
	bad["empty key"] = r.direct("", 0, `{"a":9}`, event.HeaderType, "a.b", event.HeaderTenant, "dev")
	bad["empty key"].Key = []byte{}
	bad["tombstone"].Value = nil
	for _, rec := range bad {
		r.produce(rec)
	}
	for i := range 4 {
		key := fmt.Sprint("good", i)
		r.produce(r.direct(key, event.Partition(key, 2), `{}`, event.HeaderType, "a.b", event.HeaderTenant, "dev"))
	}
	r.recv.wait(t, 4)
	eventually(t, "dead letters", func() bool { return len(r.read(tier.DeadSuffix)) == len(bad) })
	eventually(t, "commits", func() bool {
		return r.committed(event.EventsSuffix, 0)+r.committed(event.EventsSuffix, 1) == int64(len(bad)+4)
	})
	for _, rec := range r.read(tier.DeadSuffix) {
		if l := tier.DecodeDead(rec); l.Reason != tier.Poison || l.LastError == "" {
			t.Errorf("dead letter %+v", l)
		}
		found := false
		for _, b := range bad {
			found = found || bytes.Equal(b.Value, rec.Value) && bytes.Equal(b.Key, rec.Key)
		}
		if !found {
			t.Errorf("dead letter with key %q and value %q is none of what was sent", rec.Key, rec.Value)
		}
	}
	p.end(t)
}

// TestMisplacedRecordThatIsTooLargeToForward ends in dead with its reason, and the lane goes on.
func TestMisplacedRecordThatIsTooLargeToForward(t *testing.T) {
	r := newRig(t, 2)
	r.endpoint("e", nil)
	large := r.b.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(1_048_000), kgo.ProducerBatchCompression(kgo.NoCompression()))
	rec := r.direct("m", r.wrong("m"), `"`+strings.Repeat("x", 1_040_000)+`"`, event.HeaderType, "a.b")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := large.ProduceSync(ctx, rec).FirstErr(); err != nil {
		t.Fatal(err)
	}
	r.produce(r.direct("m", event.Partition("m", 2), `{}`, event.HeaderType, "a.b"), r.direct("m", r.wrong("m"), `{"n":2}`, event.HeaderType, "a.b"))
	p := r.start("a", oneTenant)
	r.recv.wait(t, 2)
	eventually(t, "a dead letter", func() bool { return len(r.read(tier.DeadSuffix)) == 1 })
	eventually(t, "commit behind it", func() bool { return r.committed(event.EventsSuffix, r.wrong("m")) == 2 })
	if l := tier.DecodeDead(r.read(tier.DeadSuffix)[0]); l.Reason != tier.TooLarge || l.MessageID != "m" {
		t.Errorf("dead letter %+v", l)
	}
	p.end(t)
}

// TestBatchesOfEveryCodec: producers compress as they like and repeat headers.
func TestBatchesOfEveryCodec(t *testing.T) {
	r := newRig(t, 2)
	r.endpoint("e", nil)
	p := r.start("a", oneTenant)
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	want := map[string]bool{}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for c, codec := range codecs {
		cl := r.b.Client(t, kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(20*time.Millisecond)) // kgo's own partitioner is Java's
		var recs []*kgo.Record
		for i := range 20 {
			body := fmt.Sprintf(`{"codec":%d,"n":%d,"pad":%q}`, c, i, strings.Repeat("pad", 100))
			want[body] = true
			recs = append(recs, r.direct(fmt.Sprint("m-", c, "-", i), 0, body, event.HeaderType, "first", event.HeaderType, "last.one",
				event.HeaderTenant, "other", event.HeaderTenant, "dev", event.HeaderSequence, strconv.Itoa(i)))
		}
		if err := cl.ProduceSync(ctx, recs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	r.recv.wait(t, len(want))
	eventually(t, "rows", func() bool { return len(r.rowsOf()) == len(want) })
	for _, q := range r.recv.all() {
		if !want[q.body] {
			t.Errorf("delivered what was not sent, or twice: %s", q.body)
		}
		delete(want, q.body)
	}
	for _, row := range r.rowsOf() {
		if row.EventType != "last.one" || row.Tenant != "dev" || row.Source != event.OriginKafka {
			t.Errorf("row %+v", row)
		}
	}
	if n := metricValue(t, p, "records_forwarded_total"); n != 0 {
		t.Errorf("%v records of a producer with Java's partitioner were forwarded", n)
	}
	p.end(t)
}
