package retrytiers

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/retrytiers/tier"
)

// BenchmarkBoard is a record's whole way through the pure part: read, admitted, released,
// acknowledged, with all slots of the default ladder owned.
func BenchmarkBoard(b *testing.B) {
	l := tier.DefaultLadder()
	board := newBoard(12, 200_000, 256<<20)
	var first *slot
	for _, topic := range l.Topics() {
		for p := range topic.Partitions {
			s := newTestSlot(l, topic.Suffix, p)
			board.add(s)
			if first == nil {
				first = s
			}
		}
	}
	const batchLen = 100
	nowMs := boardStart.UnixMilli()
	recs := make([]*kgo.Record, batchLen)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		at := i % batchLen
		recs[at] = benchRecord
		if at < batchLen-1 {
			continue
		}
		for j := range recs {
			r := *benchRecord
			r.Offset = first.ledger.Next() + int64(j)
			recs[j] = &r
		}
		first.read(recs, nowMs)
		for _, e := range board.step(nowMs).out {
			board.acked(e)
		}
	}
}

var benchRecord = func() *kgo.Record {
	r := newRecord("x", boardStart, 1)
	r.Timestamp = boardStart.Add(-time.Second)
	r.Value = make([]byte, 512)
	return r
}()
