package ledger

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// MaxMetadata is the broker's default limit of commit metadata (offset.metadata.max.bytes).
const MaxMetadata = 4096

// Metadata is what a commit says beside its offset.
type Metadata struct {
	// Attempts is the offset of the attempts topic from which takeover marks are to be
	// read, -1 when there is none.
	Attempts int64
	// Runs are ascending, disjoint ranges at or above the watermark that are done.
	Runs []Run
}

// Layout, after one version character and in unpadded base64 (metadata is a string):
//
//	+----------+----------------+-----------+--------------------+
//	| crc32c 4 | attempts+1 var | kind 1    | completed, to end  |
//	+----------+----------------+-----------+--------------------+
//
// The checksum covers the watermark (8 bytes, big endian) and all that follows it. kind 0:
// nothing completed. kind 1: runs, each as two uvarints, distance from the end of the last
// run (at first from the watermark) and length. kind 2: a bitmap, bit i%8 of byte i/8 =
// watermark+i.
const (
	metadataVersion = '1'
	kindNone        = 0
	kindRuns        = 1
	kindBitmap      = 2
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	encoding   = base64.RawStdEncoding.Strict()
)

// Encode writes metadata of at most maxLen bytes beside the offset watermark. It chooses
// runs or bitmap, whichever is smaller; when neither fits, the prefix of the one that keeps
// more of what is done. Below 32 bytes nothing useful fits and the result is empty.
func Encode(watermark int64, m Metadata, maxLen int) string {
	budget := encoding.DecodedLen(maxLen - 1)
	head := make([]byte, 4, max(64, min(budget, MaxMetadata)))
	head = binary.AppendUvarint(head, uint64(m.Attempts+1))
	if maxLen < 32 || budget < len(head)+1 {
		return ""
	}
	body := appendCompleted(head, watermark, m.Runs, budget-len(head)-1)
	binary.BigEndian.PutUint32(body, checksum(watermark, body[4:]))
	out := make([]byte, 1+encoding.EncodedLen(len(body)))
	out[0] = metadataVersion
	encoding.Encode(out[1:], body)
	return string(out)
}

// appendCompleted appends the kind and at most room bytes of completed ranges.
func appendCompleted(dst []byte, watermark int64, all []Run, room int) []byte {
	kind := len(dst)
	dst = append(dst, kindNone)
	runs, runsKept, whole := encodeRuns(watermark, all, room)
	bitmapLen := int64(math.MaxInt64)
	if n := len(all); n > 0 {
		bitmapLen = (all[n-1].To-watermark-1)/8 + 1
	}
	useBitmap := bitmapLen < int64(len(runs))
	if !whole {
		useBitmap = bitmapLen <= int64(room) || coveredWithin(watermark, all, int64(room)*8) > runsKept
	}
	switch {
	case useBitmap:
		dst[kind] = kindBitmap
		dst = append(dst, encodeBitmap(watermark, all, int(min(bitmapLen, int64(room))))...)
	case len(runs) > 0:
		dst[kind] = kindRuns
		dst = append(dst, runs...)
	}
	return dst
}

// encodeRuns returns as many runs as fit into room bytes, how many offsets they hold, and
// whether they are all.
func encodeRuns(watermark int64, all []Run, room int) (out []byte, kept int64, whole bool) {
	at := watermark
	for _, r := range all {
		r.From = max(r.From, at)
		if r.From >= r.To {
			continue
		}
		n := len(out)
		out = binary.AppendUvarint(out, uint64(r.From-at))
		out = binary.AppendUvarint(out, uint64(r.To-r.From))
		if len(out) > room {
			return out[:n], kept, false
		}
		kept += r.To - r.From
		at = r.To
	}
	return out, kept, true
}

func encodeBitmap(watermark int64, all []Run, size int) []byte {
	bits := make([]byte, size)
	for _, r := range all {
		for i := max(0, r.From-watermark); i < min(r.To-watermark, int64(size)*8); i++ {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	return bits
}

// coveredWithin counts the offsets that a bitmap of size bits from watermark on would hold.
func coveredWithin(watermark int64, all []Run, size int64) (n int64) {
	for _, r := range all {
		n += max(0, min(r.To-watermark, size)-max(0, r.From-watermark))
	}
	return n
}

// Decode reads what Encode wrote beside the offset watermark. An empty string is no
// metadata and no error. After an error the result is that of no metadata: the caller
// counts it and repeats work.
func Decode(watermark int64, s string) (Metadata, error) {
	m, err := decode(watermark, s)
	if err != nil {
		return Metadata{Attempts: -1}, fmt.Errorf("decode commit metadata: %w", err)
	}
	return m, nil
}

func decode(watermark int64, s string) (Metadata, error) {
	m := Metadata{Attempts: -1}
	if s == "" {
		return m, nil
	}
	if s[0] != metadataVersion {
		return m, fmt.Errorf("unknown version %q", s[0])
	}
	body, err := encoding.DecodeString(s[1:])
	if err != nil {
		return m, err
	}
	if len(body) < 6 {
		return m, errors.New("too short")
	}
	if binary.BigEndian.Uint32(body) != checksum(watermark, body[4:]) {
		return m, errors.New("checksum does not match: corrupt, or of another offset")
	}
	attempts, n := binary.Uvarint(body[4:])
	if n <= 0 || attempts > math.MaxInt64 || 4+n >= len(body) {
		return m, errors.New("bad attempts offset")
	}
	m.Attempts = int64(attempts) - 1
	kind, rest := body[4+n], body[4+n+1:]
	switch kind {
	case kindNone:
		if len(rest) > 0 {
			err = errors.New("trailing bytes")
		}
	case kindRuns:
		m.Runs, err = decodeRuns(watermark, rest)
	case kindBitmap:
		m.Runs, err = decodeBitmap(watermark, rest)
	default:
		err = fmt.Errorf("unknown kind %d", kind)
	}
	return m, err
}

func decodeRuns(watermark int64, b []byte) ([]Run, error) {
	var runs []Run
	at := watermark
	for len(b) > 0 {
		gap, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errors.New("bad run")
		}
		length, k := binary.Uvarint(b[n:])
		if k <= 0 || length == 0 {
			return nil, errors.New("bad run")
		}
		b = b[n+k:]
		left := uint64(math.MaxInt64 - at)
		if gap > left || length > left-gap {
			return nil, errors.New("run beyond the largest offset")
		}
		r := Run{From: at + int64(gap)}
		r.To = r.From + int64(length)
		at = r.To
		runs = append(runs, r)
	}
	return runs, nil
}

func decodeBitmap(watermark int64, b []byte) ([]Run, error) {
	if watermark > math.MaxInt64-int64(len(b))*8 {
		return nil, errors.New("bitmap beyond the largest offset")
	}
	var runs []Run
	for i := range int64(len(b)) * 8 {
		if b[i/8]&(1<<(i%8)) == 0 {
			continue
		}
		at := watermark + i
		if n := len(runs); n > 0 && runs[n-1].To == at {
			runs[n-1].To++
			continue
		}
		runs = append(runs, Run{From: at, To: at + 1})
	}
	return runs, nil
}

func checksum(watermark int64, b []byte) uint32 {
	var w [8]byte
	binary.BigEndian.PutUint64(w[:], uint64(watermark))
	return crc32.Update(crc32.Checksum(w[:], castagnoli), castagnoli, b)
}
