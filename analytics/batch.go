package analytics

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/analytics/row"
)

// batch is the rows of the offsets [from, end) of one partition.
type batch struct {
	from, end int64 // end grows while it collects
	block     row.Block
	full      bool // nothing is added any more
	firstMs   int64
	since     time.Time // of the first record

	// An announced batch ends exactly at readEnd and is inserted as [from, replayEnd).
	replayEnd, readEnd int64
	announcedMs        int64

	generation int
	memory     int64 // that was counted for it
}

// limits close a batch.
type limits struct {
	rows  int
	bytes int64
}

// replay says whether the batch was announced by an earlier owner.
func (b *batch) replay() bool { return b.replayEnd > 0 }

// announced is the end that its token names.
func (b *batch) announced() int64 {
	if b.replay() {
		return b.replayEnd
	}
	return b.end
}

// some says whether the batch has anything to tell, rows or records that gave none.
func (b *batch) some() bool { return b.end > b.from }

// take adds records in order, those of offsets below end were seen. It returns how many it took;
// what is left belongs to the next batch.
func (b *batch) take(recs []*kgo.Record, src source, lim limits, now time.Time, c *counts, refuse func(*kgo.Record, error)) int {
	for i, r := range recs {
		if b.full {
			return i
		}
		if r.Offset < b.end {
			continue
		}
		if b.replay() && r.Offset >= b.readEnd {
			b.end, b.full = b.readEnd, true
			return i
		}
		got, err := src.add(b.block, r, !b.replay(), c)
		switch got {
		case tooMany:
			b.full = true
			return i
		case bad:
			refuse(r, err)
		}
		if !b.some() {
			b.since, b.firstMs = now, r.Timestamp.UnixMilli()
		}
		b.end = r.Offset + 1
		switch {
		case b.replay():
			b.full = b.end >= b.readEnd
		default:
			b.full = b.block.Rows() >= lim.rows || b.block.Bytes() >= lim.bytes
		}
	}
	return len(recs)
}
