package scan

import (
	"encoding/binary"
	"hash/crc32"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzDecode feeds bytes as a broker's record batches. Invariants: no panic; without an error
// the position does not go back, a non-empty answer moves it, and every record lies between
// the old position and the new one, in rising order.
func FuzzDecode(f *testing.F) {
	batch := kmsg.RecordBatch{FirstOffset: 3, Magic: 2, LastOffsetDelta: 1, NumRecords: 0}
	batch.Length = int32(len(batch.AppendTo(nil)) - 12)
	f.Add(batch.AppendTo(nil), int64(3), int64(5), false)
	full := kmsg.RecordBatch{Magic: 2, LastOffsetDelta: 1, NumRecords: 2, Attributes: 1 << 4}
	for i := range int32(2) {
		r := kmsg.Record{OffsetDelta: i, Key: []byte("k"), Value: []byte("v")}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		full.Records = r.AppendTo(full.Records)
	}
	full.Length = int32(len(full.AppendTo(nil)) - 12)
	f.Add(full.AppendTo(nil), int64(1), int64(2), true)
	f.Add([]byte{}, int64(0), int64(0), true)
	f.Add(make([]byte, 80), int64(0), int64(1), true)
	f.Fuzz(func(t *testing.T, batches []byte, from, end int64, committed bool) {
		if from < 0 {
			return
		}
		seal(batches)
		p := newPartition(nil, "t", 0, committed)
		rp := kmsg.NewFetchResponseTopicPartition()
		rp.RecordBatches, rp.HighWatermark, rp.LastStableOffset = batches, end, end
		a, err := p.decode(&rp, from, time.Time{})
		if err != nil {
			return
		}
		if a.next < from || len(batches) > 0 && a.next == from {
			t.Fatalf("next %d after a fetch at %d with %d bytes", a.next, from, len(batches))
		}
		last := from - 1
		for _, r := range a.recs {
			if r.Offset <= last || r.Offset >= a.next {
				t.Fatalf("record at %d after %d, next %d", r.Offset, last, a.next)
			}
			last = r.Offset
		}
	})
}

// seal gives the first batch the length and the checksum that it needs to be looked into.
func seal(b []byte) {
	if len(b) <= 21 {
		return
	}
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
}
