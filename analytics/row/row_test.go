package row

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// Blocks own their strings, keep them apart, and count what they hold, also after a Reset.
func TestBlockKeepsItsStrings(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	b := &Events{}
	for round := range 3 {
		var want []Event
		var bytes int64
		scratch := make([]byte, 0, 20_000)
		for i := range 2000 {
			scratch = scratch[:0]
			scratch = append(scratch, strings.Repeat(fmt.Sprintf("%d-", i), rng.IntN(20))...)
			if rng.IntN(100) == 0 {
				scratch = append(scratch, strings.Repeat("y", 10_000)...)
			}
			e := Event{AcceptedMs: int64(i), EventID: string(scratch), MessageID: fmt.Sprint(round), Tenant: fmt.Sprintf("t%d", i%5), Sequence: uint64(i)}
			want = append(want, e)
			bytes += int64(len(e.EventID) + len(e.MessageID))
			e.EventID = asString(scratch) // gone with the next row
			b.Append(&e)
		}
		cols := b.Columns()
		for i, w := range want {
			if got := cols[5].Values.([]string)[i]; got != w.EventID {
				t.Fatalf("round %d, row %d: id of %d bytes, want %d", round, i, len(got), len(w.EventID))
			}
			if got := cols[2].Values.([]string)[i]; got != w.Tenant {
				t.Fatalf("tenant %q", got)
			}
		}
		if b.Rows() != len(want) || b.Bytes() < bytes || b.Memory() < bytes {
			t.Fatalf("%d rows, %d bytes, %d in memory, want %d rows and at least %d", b.Rows(), b.Bytes(), b.Memory(), len(want), bytes)
		}
		if lo, hi := b.Span(); lo != 0 || hi != 1999 {
			t.Fatalf("rows from %d to %d", lo, hi)
		}
		b.Reset()
		if b.Rows() != 0 || b.Bytes() != 0 || b.Memory() != 0 {
			t.Fatal("a block that was reset holds something")
		}
	}
}

func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Every column has a value for each row, and every field of a row has its column.
func TestColumnsOfAllTables(t *testing.T) {
	t.Parallel()
	var a Attempts
	var e Events
	var d DeadLetters
	for range 3 {
		a.Append(&Attempt{})
		e.Append(&Event{})
		d.Append(&DeadLetter{})
	}
	for _, b := range []Block{&a, &e, &d} {
		for _, c := range b.Columns() {
			if n := reflect.ValueOf(c.Values).Len(); n != 3 || c.Type == "" {
				t.Errorf("%s.%s %s: %d values", b.Table(), c.Name, c.Type, n)
			}
		}
	}
	for n, b := range map[int]Block{reflect.TypeFor[Attempt]().NumField(): &a, reflect.TypeFor[Event]().NumField(): &e, reflect.TypeFor[DeadLetter]().NumField(): &d} {
		if len(b.Columns()) != n {
			t.Errorf("%s: %d columns, %d fields", b.Table(), len(b.Columns()), n)
		}
	}
}

func TestClampTime(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour.Milliseconds()
	rec := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	f := func(ms, record, want int64) {
		t.Helper()
		got, changed := ClampTime(ms, record)
		if got != want || changed != (got != ms) {
			t.Errorf("%d of %d: %d, %v", ms, record, got, changed)
		}
	}
	f(rec, rec, rec)
	f(rec-7*day, rec, rec-7*day)
	f(rec-7*day-1, rec, rec-7*day)
	f(rec+300_000, rec, rec+300_000)
	f(rec+300_001, rec, rec+300_000)
	f(math.MinInt64, rec, rec-7*day)
	f(math.MaxInt64, rec, rec+300_000)
	f(5, 0, 5)
	f(-5, -1, 0)
	f(7, math.MaxInt64-1, maxMs)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		if got, _ := ClampTime(int64(rng.Uint64()), int64(rng.Uint64())); got < minMs || got > maxMs {
			t.Fatalf("%d", got)
		}
	}
}
