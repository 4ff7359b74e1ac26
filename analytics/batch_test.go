package analytics

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/analytics/row"
	"github.com/hookline/hookline/dispatcher/attempt"
)

// cut feeds records to batches in polls of random size and returns the batches.
func cut(recs []*kgo.Record, lim limits, poll func() int, refused map[int64]error) (out []*batch) {
	var c counts
	var open *batch
	next := recs[0].Offset
	for i := 0; i < len(recs); {
		n := min(len(recs)-i, poll())
		if open == nil {
			open = &batch{from: next, end: next, block: &row.Attempts{}}
		}
		took := open.take(recs[i:i+n], attempts{}, lim, time.Now(), &c, func(r *kgo.Record, err error) { refused[r.Offset] = err })
		next, i = open.end, i+took
		if open.full || took < n {
			out, open = append(out, open), nil
		}
	}
	if open != nil {
		out = append(out, open)
	}
	return out
}

// testLog is a partition with holes, records that cannot be read and clocks that jump.
func testLog(rng *rand.Rand, n int) (recs []*kgo.Record) {
	offset := rng.Int64N(1000)
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	for i := range n {
		offset += 1 + rng.Int64N(2)*rng.Int64N(4)
		a := testRow(rng, i)
		at := now
		if rng.IntN(3) == 0 {
			at = now.AddDate(0, 0, -rng.IntN(300))
		}
		a.AttemptedMs = at.UnixMilli() + rng.Int64N(20*24*3600*1000) - 10*24*3600*1000
		value := attempt.AppendRecord(nil, &a)
		if rng.IntN(50) == 0 {
			value = value[:rng.IntN(len(value))]
		}
		recs = append(recs, &kgo.Record{Topic: "t", Partition: 3, Offset: offset, Timestamp: at, Value: value})
	}
	return recs
}

// Batches follow each other without a gap, hold every record once, keep their limits; and a batch
// that is announced again as [from, end) has the same rows, however the records come.
func TestTheSameEndsAreTheSameRows(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		recs := testLog(rng, 1+rng.IntN(1500))
		lim := limits{rows: 1 + rng.IntN(400), bytes: int64(1000 + rng.IntN(60_000))}
		refused := map[int64]error{}
		batches := cut(recs, lim, func() int { return 1 + rng.IntN(200) }, refused)
		at, rows := recs[0].Offset, 0
		for _, b := range batches {
			if b.from != at || b.end <= b.from {
				t.Fatalf("batch [%d,%d) after %d", b.from, b.end, at)
			}
			at, rows = b.end, rows+b.block.Rows()
			if b.block.Rows() > lim.rows {
				t.Fatalf("%d rows, limit %d", b.block.Rows(), lim.rows)
			}
			again := &batch{from: b.from, end: b.from, block: &row.Attempts{}, replayEnd: b.end, readEnd: b.end}
			again.block.(*row.Attempts).Append(&row.Attempt{Tenant: "of an earlier batch"})
			again.block.Reset()
			left := recs
			for len(left) > 0 && !again.full {
				n := min(len(left), 1+rng.IntN(300))
				took := again.take(left[:n], attempts{}, limits{rows: 1, bytes: 1}, time.Now(), &counts{}, func(*kgo.Record, error) {})
				left = left[took:]
			}
			if !again.full || again.end != b.end || !sameRows(again.block, b.block) {
				t.Fatalf("batch [%d,%d) of %d rows is one of %d rows, [%d,%d), the second time", b.from, b.end, b.block.Rows(), again.block.Rows(), again.from, again.end)
			}
		}
		if at != recs[len(recs)-1].Offset+1 || rows+len(refused) != len(recs) {
			t.Fatalf("%d rows and %d refused of %d records, end %d", rows, len(refused), len(recs), at)
		}
		for _, err := range refused {
			if !errors.Is(err, attempt.ErrMalformed) {
				t.Fatal(err)
			}
		}
	}
}

func sameRows(a, b row.Block) bool {
	x, y := a.Columns(), b.Columns()
	for i := range x {
		if a.Rows()+b.Rows() > 0 && !reflect.DeepEqual(x[i].Values, y[i].Values) {
			return false
		}
	}
	return a.Rows() == b.Rows()
}

// An INSERT into more partitions than the server takes would fail for ever.
func TestABatchEndsBeforeTooManyDays(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	var recs []*kgo.Record
	for i := range 200 {
		a := testRow(rng, i)
		at := time.Date(2025, 1, 1+i, 0, 0, 0, 0, time.UTC)
		a.AttemptedMs = at.UnixMilli()
		recs = append(recs, &kgo.Record{Offset: int64(i), Timestamp: at, Value: attempt.AppendRecord(nil, &a)})
	}
	batches := cut(recs, limits{rows: 1000, bytes: 1 << 20}, func() int { return 1000 }, map[int64]error{})
	if len(batches) != 3 || batches[0].end != row.MaxDays || batches[1].end != 2*row.MaxDays {
		t.Fatalf("%d batches, the first ends at %d", len(batches), batches[0].end)
	}
}
