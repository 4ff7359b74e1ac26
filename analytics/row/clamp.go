package row

import "time"

// Other stands for a word that is too long to be one.
const Other = "__other"

// Times that every column and every partition key can hold: DateTime ends in 2106, and no
// event happened before computers did.
var (
	minMs = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	maxMs = time.Date(2099, 12, 31, 23, 59, 59, 0, time.UTC).UnixMilli()
	// farMs is the first time of a column that is no partition key.
	farMs = time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
)

// How far a time may be from that of its Kafka record.
const (
	maxBefore = 7 * 24 * time.Hour
	maxAfter  = 5 * time.Minute
)

// ClampTime brings a time that partitions are chosen by near the time of its record: a clock that is
// wrong by a year would otherwise make a partition of its own, and a row that its TTL deletes at
// once. It knows no clock, so the same record always gives the same row.
func ClampTime(ms, recordMs int64) (clamped int64, changed bool) {
	lo, hi := minMs, maxMs
	if recordMs > 0 { // a record of an old producer has none
		lo = min(max(lo, recordMs-maxBefore.Milliseconds()), hi)
		hi = max(min(hi, recordMs+maxAfter.Milliseconds()), lo)
	}
	out := min(max(ms, lo), hi)
	return out, out != ms
}

// ClampFar brings a time that nothing is partitioned by into the range of its column.
func ClampFar(ms int64) int64 { return min(max(ms, farMs), maxMs) }

// Word returns s, or Other when it is longer than limit.
func Word(s string, limit int) string {
	if len(s) > limit {
		return Other
	}
	return s
}

// Text returns at most limit bytes of s.
func Text(s string, limit int) string {
	if len(s) > limit {
		return s[:limit]
	}
	return s
}
