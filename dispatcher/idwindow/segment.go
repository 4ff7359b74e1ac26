package idwindow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
)

// Layout of a segment's value, version 1, integers big endian:
//
//	+---------+--------+------+----+---------+---------------------------------------+
//	| version | crc32c | from | to | count   | count x (id 16, hash 8, offset 8, ms 8) |
//	| 1       | 4      | 8    | 8  | 4       | 40 each                               |
//	+---------+--------+------+----+---------+---------------------------------------+
//
// The checksum covers all that follows it. The key is the decimal of from, padded to 20
// digits, so that a later segment of the same start replaces the earlier one.
const (
	segmentVersion = 1
	segmentHead    = 1 + 4 + 8 + 8 + 4
	entrySize      = 16 + 8 + 8 + 8
)

// MaxSegment is how many entries one segment holds: 8,192 entries are 320 KiB.
const MaxSegment = 8192

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrSegment is wrapped by every error of DecodeSegment.
var ErrSegment = errors.New("malformed dedupe segment")

// Segment says which keyed events lie in [From, To) of a partition of events, all of it
// committed. The range may hold events without a key; they are in no segment.
type Segment struct {
	From, To int64
	Entries  []Entry
}

// Key is the record key of the segment.
func (s *Segment) Key() []byte { return fmt.Appendf(nil, "%020d", s.From) }

// Append appends the segment's value.
func (s *Segment) Append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, segmentVersion, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.From))
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.To))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(s.Entries)))
	for _, e := range s.Entries {
		dst = append(dst, e.ID[:]...)
		dst = binary.BigEndian.AppendUint64(dst, e.Hash)
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.Offset))
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.AtMs))
	}
	binary.BigEndian.PutUint32(dst[start+1:], crc32.Checksum(dst[start+5:], castagnoli))
	return dst
}

// DecodeSegment reads a value. The entries are copies.
func DecodeSegment(b []byte) (Segment, error) {
	var s Segment
	if len(b) < segmentHead || b[0] != segmentVersion {
		return s, fmt.Errorf("%w: %d bytes", ErrSegment, len(b))
	}
	if crc32.Checksum(b[5:], castagnoli) != binary.BigEndian.Uint32(b[1:]) {
		return s, fmt.Errorf("%w: checksum", ErrSegment)
	}
	s.From = int64(binary.BigEndian.Uint64(b[5:]))
	s.To = int64(binary.BigEndian.Uint64(b[13:]))
	n := int(binary.BigEndian.Uint32(b[21:]))
	if s.From < 0 || s.To < s.From || len(b) != segmentHead+n*entrySize {
		return s, fmt.Errorf("%w: range %d-%d, %d entries in %d bytes", ErrSegment, s.From, s.To, n, len(b))
	}
	s.Entries = make([]Entry, n)
	for i := range s.Entries {
		e, at := &s.Entries[i], segmentHead+i*entrySize
		copy(e.ID[:], b[at:])
		e.Hash = binary.BigEndian.Uint64(b[at+16:])
		e.Offset = int64(binary.BigEndian.Uint64(b[at+24:]))
		e.AtMs = int64(binary.BigEndian.Uint64(b[at+32:]))
	}
	return s, nil
}

// emptySpan is how much of events without any key makes a segment: a new owner need not read
// it to learn that there is nothing in it.
const emptySpan = 16384

// Segments takes what was settled below the committed watermark since the last call and
// returns it as segments that continue at from. It returns nothing when there is little that
// is new: the next owner then reads that part of events itself.
func (w *Window[T]) Segments(from, watermark int64) []Segment {
	if !w.loaded || watermark <= from {
		return nil
	}
	var taken, kept []Entry
	for _, e := range w.fresh {
		switch {
		case e.Offset >= watermark:
			kept = append(kept, e)
		case e.Offset >= from:
			taken = append(taken, e)
		}
	}
	w.fresh = kept
	if len(taken) == 0 {
		if watermark-from < emptySpan {
			return nil
		}
		return []Segment{{From: from, To: watermark}}
	}
	slices.SortFunc(taken, func(a, b Entry) int { return int(a.Offset - b.Offset) })
	var out []Segment
	for len(taken) > 0 {
		n := min(len(taken), MaxSegment)
		s := Segment{From: from, To: watermark, Entries: taken[:n]}
		if n < len(taken) {
			s.To = taken[n].Offset
		}
		out, taken, from = append(out, s), taken[n:], s.To
	}
	return out
}
