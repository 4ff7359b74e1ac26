package row

import (
	"strings"
	"unsafe"

	"github.com/hookline/hookline/analytics/clickhouse"
)

// MaxRows is the most rows of a block. All rows of an INSERT must be one block of the server
// (1,048,449 rows by default), and the driver's buffers are as large as the largest block.
const MaxRows = 200_000

// MaxDays is the most days on which the rows of a block lie; the server's limit is 100.
const MaxDays = 90

// Block is a block of any table.
type Block interface {
	clickhouse.Block
	Bytes() int64         // of the block on the wire, uncompressed
	Memory() int64        // that the rows take here
	Takes(ms int64) bool  // a row of that time fits beside the others
	Span() (lo, hi int64) // first and last time of its rows
	Reset()
}

var _ = []Block{(*Attempts)(nil), (*Events)(nil), (*DeadLetters)(nil)}

const (
	timeType = "DateTime64(3, 'UTC')"
	wordType = "LowCardinality(String)"

	dayMs     = 24 * 3600 * 1000
	chunkSize = 64 << 10
	maxWords  = 16 << 10 // kept from one block to the next
)

// block is what the blocks of all tables have.
type block struct {
	rows          int
	bytes, memory int64
	lo, hi        int64
	days          map[int64]struct{}
	words         map[string]string
	chunks        [][]byte // of texts; those up to used are in use
	used          int
}

// Rows implements clickhouse.Block.
func (b *block) Rows() int { return b.rows }

// Bytes implements Block.
func (b *block) Bytes() int64 { return b.bytes }

// Memory implements Block.
func (b *block) Memory() int64 { return b.memory }

// Span implements Block.
func (b *block) Span() (lo, hi int64) { return b.lo, b.hi }

// Takes implements Block.
func (b *block) Takes(ms int64) bool {
	_, ok := b.days[ms/dayMs]
	return ok || len(b.days) < MaxDays
}

// count takes note of one more row.
func (b *block) count(ms, bytes, memory int64) {
	if b.rows == 0 {
		b.lo, b.hi = ms, ms
	}
	b.lo, b.hi = min(b.lo, ms), max(b.hi, ms)
	b.rows++
	b.bytes += bytes
	b.memory += memory
	if _, ok := b.days[ms/dayMs]; ok {
		return
	}
	if b.days == nil {
		b.days = make(map[int64]struct{})
	}
	b.days[ms/dayMs] = struct{}{}
}

func (b *block) reset() {
	b.rows, b.bytes, b.memory, b.lo, b.hi = 0, 0, 0, 0, 0
	clear(b.days)
	if len(b.words) > maxWords {
		b.words = nil
	}
	for i := range b.chunks {
		b.chunks[i] = b.chunks[i][:0]
	}
	b.used = 0
}

// word returns a copy of s that all equal words share.
func (b *block) word(s string) string {
	if s == "" {
		return ""
	}
	if w, ok := b.words[s]; ok {
		return w
	}
	if b.words == nil {
		b.words = make(map[string]string)
	}
	w := strings.Clone(s)
	b.words[w] = w
	b.memory += int64(len(s)) + 64 // the entry of the map
	b.bytes += int64(len(s))
	return w
}

// text returns a copy of s in a chunk.
func (b *block) text(s string) string {
	b.bytes += int64(len(s))
	b.memory += int64(len(s))
	if len(s) == 0 || len(s) > chunkSize/8 {
		return strings.Clone(s)
	}
	for b.used < len(b.chunks) && len(b.chunks[b.used])+len(s) > cap(b.chunks[b.used]) {
		b.used++
	}
	if b.used == len(b.chunks) {
		b.chunks = append(b.chunks, make([]byte, 0, chunkSize))
	}
	c := b.chunks[b.used]
	at := len(c)
	c = append(c, s...) // within its capacity: what earlier texts alias stays
	b.chunks[b.used] = c
	return unsafe.String(unsafe.SliceData(c[at:]), len(s))
}
