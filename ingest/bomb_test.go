package ingest

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// frame is a zstd frame header with a window descriptor, and what follows it.
func frame(descriptor, window byte, rest ...byte) []byte {
	return append([]byte{0x28, 0xb5, 0x2f, 0xfd, descriptor, window}, rest...)
}

// Small inputs that ask for much: each is refused, and the memory that it takes meanwhile is
// bounded by the limit of a body and not by what it asks for.
func TestBombs(t *testing.T) {
	const limit = 256 << 10
	f, err := newInflater(limit)
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 16<<20)
	dict, err := zstd.NewWriter(nil, zstd.WithEncoderDictRaw(77, bytes.Repeat([]byte("dictionary "), 100)))
	if err != nil {
		t.Fatal(err)
	}
	var members []byte
	one := gz(t, make([]byte, 1000))
	for len(members) < limit {
		members = append(members, one...)
	}
	var empty []byte
	for len(empty) < limit {
		empty = append(empty, gz(t, nil)...)
	}
	var skips []byte
	for len(skips) < limit {
		skips = append(skips, 0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0)
	}
	rle := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x50} // window 1 MiB, then blocks of 128 KiB of one byte in 4 bytes each
	for range 10_000 {
		rle = append(rle, 0x02, 0x00, 0x10, 'x')
	}
	for name, c := range map[string]struct {
		enc  encoding
		in   []byte
		code string // "" = taken, and empty
	}{
		"gzip of 16 MiB":              {gzipped, gz(t, zeros), codeTooLarge},
		"gzip in gzip":                {gzipped, gz(t, bytes.Repeat(gz(t, zeros), 20)), codeTooLarge},
		"gzip of many members":        {gzipped, members, codeTooLarge},
		"gzip of many empty members":  {gzipped, empty, ""},
		"gzip with a name of no end":  {gzipped, append([]byte{0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 0}, bytes.Repeat([]byte("x"), limit)...), codeInvalidEncoding},
		"zstd of 16 MiB":              {zstded, zsAll(t, zeros), codeTooLarge},
		"zstd stream of 16 MiB":       {zstded, zs(t, zeros), codeTooLarge},
		"zstd of runs":                {zstded, rle, codeTooLarge},
		"zstd of many skips":          {zstded, skips, ""},
		"zstd skip of 4 GiB":          {zstded, []byte{0x50, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0xff, 1, 2}, codeInvalidEncoding},
		"zstd that says 2^63 bytes":   {zstded, append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0}, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x01, 0, 0), codeTooLarge},
		"zstd of the largest window":  {zstded, frame(0x00, 0xff, 0x01, 0x00, 0x00), codeInvalidEncoding},
		"zstd of a 128 MiB window":    {zstded, frame(0x00, 17<<3, 0x01, 0x00, 0x00), codeInvalidEncoding},
		"zstd of an 8 MiB window":     {zstded, frame(0x00, 13<<3, 0x01, 0x00, 0x00), ""},
		"zstd with a dictionary":      {zstded, dict.EncodeAll(bytes.Repeat([]byte("dictionary "), 50), nil), codeInvalidEncoding},
		"zstd with a reserved block":  {zstded, frame(0x00, 0x50, 0x07, 0x00, 0x00), codeInvalidEncoding},
		"zstd with a reserved bit":    {zstded, frame(0x08, 0x50, 0x01, 0x00, 0x00), codeInvalidEncoding},
		"zstd of an old version":      {zstded, []byte{0x27, 0xb5, 0x2f, 0xfd, 0, 0, 0, 0}, codeInvalidEncoding},
		"zstd then gzip":              {zstded, append(zsAll(t, []byte("a")), gz(t, []byte("b"))...), codeInvalidEncoding},
		"gzip then zstd":              {gzipped, append(gz(t, []byte("a")), zsAll(t, []byte("b"))...), codeInvalidEncoding},
		"gzip that is deflate inside": {gzipped, gz(t, []byte("a"))[10:], codeInvalidEncoding},
	} {
		_, _ = f.inflate(c.enc, c.in, anySize) // what is pooled is there
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, p := f.inflate(c.enc, c.in, anySize)
		runtime.ReadMemStats(&after)
		if c.code == "" && (p != nil || len(got) != 0) || c.code != "" && (p == nil || p.code != c.code) {
			t.Errorf("%s: %d bytes, %+v; want %q", name, len(got), p, c.code)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 8*limit {
			t.Errorf("%s: %d bytes were allocated", name, took)
		}
	}
}
