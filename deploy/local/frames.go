package local

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
)

// groups.log and pids.log of kfake are sequences of frames:
//
//	| 4 length, little-endian | 4 CRC-32C | 2 version | n JSON |
//	                                      '--- length bytes ---'
//	                          '--- CRC covers the same bytes
const (
	frameHeader  = 8
	frameVersion = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frames splits raw into the JSON of its whole frames and returns how many bytes those take.
// What follows the first broken frame is unreachable for kfake, which stops there too.
func frames(raw []byte) (bodies [][]byte, valid int) {
	for {
		rest := raw[valid:]
		if len(rest) < frameHeader {
			return bodies, valid
		}
		n := binary.LittleEndian.Uint32(rest)
		if n < 2 || uint64(n) > uint64(len(rest)-frameHeader) {
			return bodies, valid
		}
		covered := rest[frameHeader : frameHeader+int(n)]
		if crc32.Checksum(covered, castagnoli) != binary.LittleEndian.Uint32(rest[4:]) {
			return bodies, valid
		}
		bodies = append(bodies, covered[2:])
		valid += frameHeader + int(n)
	}
}

// appendFrame appends v as one frame.
func appendFrame(dst []byte, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return dst, err
	}
	at := len(dst)
	dst = append(dst, make([]byte, frameHeader+2)...)
	dst = append(dst, body...)
	covered := dst[at+frameHeader:]
	binary.LittleEndian.PutUint16(covered, frameVersion)
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(covered)))
	binary.LittleEndian.PutUint32(dst[at+4:], crc32.Checksum(covered, castagnoli))
	return dst, nil
}

// repairFrames cuts a torn tail off the log and returns its frames. kfake only skips a torn
// tail when it loads, then appends behind it: without the cut, everything written from there
// on would be gone at the next load.
func repairFrames(path string) (bodies [][]byte, cut int, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read state log: %w", err)
	}
	bodies, valid := frames(raw)
	if valid < len(raw) {
		if err := os.Truncate(path, int64(valid)); err != nil {
			return nil, 0, fmt.Errorf("cut torn tail of state log: %w", err)
		}
	}
	return bodies, len(raw) - valid, nil
}

// appendFrames appends the entries to the log in one write.
func appendFrames[T any](path string, entries []T) error {
	if len(entries) == 0 {
		return nil
	}
	var buf []byte
	for i := range entries {
		var err error
		if buf, err = appendFrame(buf, &entries[i]); err != nil {
			return fmt.Errorf("encode entry of %s: %w", path, err)
		}
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open state log: %w", err)
	}
	if _, err := f.Write(buf); err != nil {
		return errors.Join(fmt.Errorf("append to %s: %w", path, err), f.Close())
	}
	return f.Close()
}
