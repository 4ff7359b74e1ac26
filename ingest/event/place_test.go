package event

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// direct is a record as any Kafka producer could have written it, at a random place.
func direct(rng *rand.Rand, p Place) *kgo.Record {
	r := &kgo.Record{
		Topic: "hookline.events", Partition: p.Partition, Offset: rng.Int64N(1 << 40),
		Key: fmt.Appendf(nil, "m-%d", rng.IntN(50)), Value: fmt.Appendf(nil, `{"n":%d}`, rng.IntN(1000)),
		Timestamp: time.UnixMilli(rng.Int64N(1<<42) - 1<<40),
	}
	all := []kgo.RecordHeader{
		{Key: HeaderType, Value: []byte("a.b")}, {Key: HeaderID, Value: []byte("own-id")}, {Key: HeaderTenant, Value: []byte("dev")},
		{Key: HeaderID, Value: []byte(NewID())}, {Key: HeaderAcceptedMs, Value: []byte("9007199254740991")},
		{Key: "tracestate", Value: []byte("x=y")}, {Key: "ce_dataschema", Value: []byte("s")}, {Key: "hl_attempt", Value: []byte("7")},
		{Key: "hl_orig", Value: []byte("?")}, {Key: HeaderTime, Value: []byte("2026-07-19T09:15:25+02:00")}, {Key: HeaderSubject, Value: []byte("other")},
		{Key: HeaderForwarded, Value: []byte("nonsense")}, {Key: HeaderTraceparent, Value: []byte("broken")},
	}
	r.Headers = append(r.Headers, all[0])
	for _, h := range all[1:] {
		if rng.IntN(2) == 0 {
			r.Headers = append(r.Headers, h)
		}
	}
	return r
}

// TestForward: a record is forwarded once, into the partition of its key, as the same event;
// twice forwarded it is the same record.
func TestForward(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		p := Place{TopicID: [16]byte{1, byte(seed)}, Partitions: 1 + rng.Int32N(12)}
		p.Partition = rng.Int32N(p.Partitions)
		r := direct(rng, p)
		e, err := Decode(r)
		if err != nil {
			t.Fatal(err)
		}
		right := Partition(e.MessageID, p.Partitions)
		if p.Misplaced(&e) != (right != p.Partition) {
			t.Fatalf("seed %d: misplaced %v in %d, belongs into %d", seed, p.Misplaced(&e), p.Partition, right)
		}
		if !p.Misplaced(&e) {
			continue
		}
		if p.Keyed(&e) {
			t.Fatalf("seed %d: a misplaced record counts in the window of the wrong partition", seed)
		}
		copied := p.Forward(r, &e)
		if again := p.Forward(r, &e); !reflect.DeepEqual(again, copied) {
			t.Fatalf("seed %d: two copies differ", seed)
		}
		checkForwarded(t, p, r, &e, copied)
	}
}

// checkForwarded reads the copy where it was forwarded to.
func checkForwarded(t *testing.T, from Place, r *kgo.Record, e *Event, copied *kgo.Record) {
	t.Helper()
	to := from
	to.Partition = copied.Partition
	copied.Offset, copied.Timestamp = 99, time.UnixMilli(1<<43) // as the broker appends it
	back, err := Decode(copied)
	if err != nil {
		t.Fatal(err)
	}
	if to.Misplaced(&back) || !to.Keyed(&back) || to.Partition != Partition(string(r.Key), to.Partitions) {
		t.Fatalf("misplaced again, or not in the window: %+v", back)
	}
	m, ok := ParseMove(back.Forwarded)
	if !ok || m != (Move{from.TopicID, from.Partition, r.Offset, to.Partition}) || m.String() != back.Forwarded {
		t.Fatalf("%s = %q", HeaderForwarded, back.Forwarded)
	}
	back.Forwarded = ""
	if want := *e; !reflect.DeepEqual(back, want) {
		t.Fatalf("forwarded\n%+v\nas\n%+v", want, back)
	}
	names := map[string]int{}
	for _, h := range copied.Headers {
		names[h.Key]++
	}
	if names["hl_attempt"]+names["hl_orig"] != 0 {
		t.Fatalf("headers that no producer may set were kept: %v", names)
	}
	for _, h := range r.Headers {
		if !ours(h.Key) && !slices.ContainsFunc(copied.Headers, func(c kgo.RecordHeader) bool { return reflect.DeepEqual(c, h) }) {
			t.Fatalf("header %s is gone", h.Key)
		}
	}
	for name, n := range names {
		if n != 1 {
			t.Fatalf("header %s is there %d times", name, n)
		}
	}
}

// TestNoRecordIsForwardedToAndFro: two processes that count the partitions differently end
// after one step each.
func TestNoRecordIsForwardedToAndFro(t *testing.T) {
	id := [16]byte{7}
	for n := range 500 {
		r := &kgo.Record{Key: fmt.Appendf(nil, "m-%d", n), Value: []byte("{}"), Headers: []kgo.RecordHeader{{Key: HeaderType, Value: []byte("a")}}}
		steps := 0
		for counts := []int32{12, 24}; ; steps++ {
			e, err := Decode(r)
			if err != nil {
				t.Fatal(err)
			}
			p := Place{TopicID: id, Partition: r.Partition, Partitions: counts[steps%2]}
			if !p.Misplaced(&e) {
				break
			}
			if steps > 1 {
				t.Fatalf("%s was forwarded %d times", r.Key, steps)
			}
			r = p.Forward(r, &e)
		}
	}
	e := Event{MessageID: "m"}
	p := Place{TopicID: id, Partitions: 12, Partition: (Partition("m", 12) + 1) % 12}
	here := Move{TopicID: id, From: 3, Offset: 4, To: p.Partition}
	elsewhere, other := here, here
	elsewhere.To++
	other.TopicID[0]++
	for move, want := range map[Move]bool{here: false, elsewhere: true, other: true} {
		if e.Forwarded = move.String(); p.Misplaced(&e) != want {
			t.Errorf("%s in partition %d: misplaced %v", move, p.Partition, !want)
		}
	}
}

func TestParseMoveTakesOneText(t *testing.T) {
	const good = "AAAAAAAAAAAAAAAAAAAAAA:1:2:3"
	if m, ok := ParseMove(good); !ok || m != (Move{From: 1, Offset: 2, To: 3}) || m.String() != good {
		t.Errorf("%+v, %v", m, ok)
	}
	for _, bad := range []string{"", "a", ":::", good + ":4", good + " ", strings.Replace(good, "1", "01", 1), strings.Replace(good, "1", "-1", 1),
		strings.Replace(good, "1", "2147483648", 1), strings.Replace(good, "A:", "B:", 1), good[1:], "A" + good} {
		if m, ok := ParseMove(bad); ok {
			t.Errorf("%q is %+v", bad, m)
		}
	}
}

func TestOriginOfRecordsThatNameNone(t *testing.T) {
	for id, want := range map[string]string{
		NewID(): "", DeriveID("t", "a", "m", "k"): "", "evt_k1": OriginKafka, "evt_u1": OriginKafka, "0190c5a2-7b0e": OriginKafka, "": OriginKafka,
	} {
		r := foreign()
		if id != "" {
			r = foreign(HeaderID, id)
		}
		if e, err := Decode(r); err != nil || e.Origin != want {
			t.Errorf("id %q: origin %q, %v; want %q", id, e.Origin, err, want)
		}
	}
}

func TestTimestampsOfBrokenClocks(t *testing.T) {
	for ms, want := range map[int64]int64{-1: 0, -1 << 62: 0, 1 << 62: maxAcceptedMs, 1784452525000: 1784452525000} {
		r := foreign()
		r.Timestamp = time.UnixMilli(ms)
		e, err := Decode(r)
		if err != nil || e.AcceptedMs != want {
			t.Errorf("timestamp %d: accepted %d, %v; want %d", ms, e.AcceptedMs, err, want)
		}
	}
}

// FuzzParseMove: there is one text per move, and nothing panics.
func FuzzParseMove(f *testing.F) {
	f.Add("AAAAAAAAAAAAAAAAAAAAAA:1:2:3")
	f.Add("AAAAAAAAAAAAAAAAAAAAAB:1:2:3")
	f.Add(":::")
	f.Fuzz(func(t *testing.T, s string) {
		if m, ok := ParseMove(s); ok && m.String() != s {
			t.Fatalf("%q reads as %s", s, m)
		}
	})
}
