package local

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A segment file of kfake (BASE.dat) is record batches of the Kafka protocol, one after the
// other:
//
//	0 base offset i64 | 8 length i32 | 12 leader epoch i32 | 16 magic i8 | 17 CRC-32C u32
//	21 attributes i16 | 23 last offset delta i32 | 27 first timestamp i64
//	35 max timestamp i64 | 43 producer id i64 | 51 producer epoch i16
//	53 first sequence i32 | 57 records i32 | 61 ...
//
// Beside it, BASE.idx has one entry of 15 bytes for each batch:
//
//	0 version u8 | 1 low byte of the CRC-32C of the rest | 2 leader epoch u32
//	6 running maximum timestamp u64 | 14 flags, bit 0 = data of a transaction (little-endian)
const (
	batchHeader = 61
	maxBatch    = 1 << 30 // kfake's own bound
	indexEntry  = 15

	attrTransactional = 0x10
	attrControl       = 0x20
)

// batch is what recovery needs of one record batch.
type batch struct {
	base       int64
	size       int64 // bytes on disk
	epoch      int32 // leader epoch
	attrs      int16
	delta      int32 // last offset - base
	firstTS    int64
	maxTS      int64
	producer   int64
	prodEpoch  int16
	recordsRaw []byte // valid until the next batch is read
}

func (b *batch) next() int64         { return b.base + int64(b.delta) + 1 }
func (b *batch) control() bool       { return b.attrs&attrControl != 0 }
func (b *batch) transactional() bool { return b.attrs&attrTransactional != 0 && !b.control() }

// commits tells whether a control batch commits its transaction. An unreadable one aborts,
// as kfake has it.
func (b *batch) commits() bool {
	var rec kmsg.Record
	if err := rec.ReadFrom(b.recordsRaw); err != nil || len(rec.Key) < 4 {
		return false
	}
	return binary.BigEndian.Uint16(rec.Key[2:4]) != 0
}

func (b *batch) parse(raw []byte) {
	be := binary.BigEndian
	b.base = int64(be.Uint64(raw))
	b.size = int64(len(raw))
	b.epoch = int32(be.Uint32(raw[12:]))
	b.attrs = int16(be.Uint16(raw[21:]))
	b.delta = int32(be.Uint32(raw[23:]))
	b.firstTS = int64(be.Uint64(raw[27:]))
	b.maxTS = int64(be.Uint64(raw[35:]))
	b.producer = int64(be.Uint64(raw[43:]))
	b.prodEpoch = int16(be.Uint16(raw[51:]))
	b.recordsRaw = raw[batchHeader:]
}

// walkSegment calls fn for each whole and intact batch from the start of the file, as long as
// offsets grow from `from` on, and returns how many bytes those batches take. Less than the
// file's size means a torn or damaged tail.
func walkSegment(path string, from int64, fn func(*batch)) (valid int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("open segment: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("stat segment: %w", err)
	}
	var (
		r    = bufio.NewReaderSize(f, 256<<10)
		left = info.Size()
		buf  []byte
		b    batch
	)
	for {
		if left < batchHeader {
			return valid, nil
		}
		head, err := r.Peek(12)
		if err != nil {
			return valid, fmt.Errorf("read segment %s: %w", path, err)
		}
		size := 12 + int64(int32(binary.BigEndian.Uint32(head[8:])))
		if size < batchHeader || size > maxBatch || size > left {
			return valid, nil
		}
		if int64(cap(buf)) < size {
			buf = make([]byte, size)
		}
		buf = buf[:size]
		if _, err := io.ReadFull(r, buf); err != nil {
			return valid, fmt.Errorf("read segment %s: %w", path, err)
		}
		if crc32.Checksum(buf[21:], castagnoli) != binary.BigEndian.Uint32(buf[17:]) {
			return valid, nil
		}
		b.parse(buf)
		if b.base < from || b.delta < 0 {
			return valid, nil
		}
		fn(&b)
		from = b.next()
		valid += size
		left -= size
	}
}

// appendIndexEntry appends the .idx entry of a batch.
func appendIndexEntry(dst []byte, epoch int32, maxTS int64, inTransaction bool) []byte {
	var e [indexEntry]byte
	e[0] = frameVersion
	binary.LittleEndian.PutUint32(e[2:], uint32(epoch))
	binary.LittleEndian.PutUint64(e[6:], uint64(maxTS))
	if inTransaction {
		e[14] = 1
	}
	e[1] = byte(crc32.Checksum(e[2:], castagnoli))
	return append(dst, e[:]...)
}

// abortMarker is the control batch with which a transaction coordinator ends an abandoned
// transaction in a partition.
func abortMarker(offset int64, leaderEpoch int32, producer int64, producerEpoch int16, nowMs int64) []byte {
	key := kmsg.ControlRecordKey{Type: kmsg.ControlRecordKeyTypeAbort}
	marker := kmsg.EndTxnMarker{}
	rec := kmsg.Record{Key: key.AppendTo(nil), Value: marker.AppendTo(nil)}
	rec.Length = int32(len(rec.AppendTo(nil)) - 1) // the length counts what follows it, and takes one byte here
	b := kmsg.RecordBatch{
		FirstOffset:          offset,
		PartitionLeaderEpoch: leaderEpoch,
		Magic:                2,
		Attributes:           attrTransactional | attrControl,
		FirstTimestamp:       nowMs,
		MaxTimestamp:         nowMs,
		ProducerID:           producer,
		ProducerEpoch:        producerEpoch,
		FirstSequence:        -1,
		NumRecords:           1,
		Records:              rec.AppendTo(nil),
	}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], castagnoli))
	return raw
}

// appendFile appends data to an existing file.
func appendFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
