package ingest

import (
	"bytes"
	stdgzip "compress/gzip"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/hookline/hookline/ingest/event"
)

func gz(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := stdgzip.NewWriter(&out)
	_, _ = w.Write(b)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// zs compresses as a stream, so that the frame announces a window but no size.
func zs(t testing.TB, b []byte, opts ...zstd.EOption) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, opts...)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(b[:len(b)/2])
	_ = w.Flush() // the frame begins before its size is known
	_, _ = w.Write(b[len(b)/2:])
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// zsAll compresses at once: one frame with its size.
func zsAll(t testing.TB, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(b, nil)
}

func noise(n int) []byte {
	r := rand.NewChaCha8([32]byte{1})
	b := make([]byte, n)
	_, _ = r.Read(b)
	return b
}

func TestInflate(t *testing.T) {
	const limit = 10_000
	f, err := newInflater(limit)
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("0123456789"), limit/10)
	zeros := make([]byte, 8<<20)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	cut := func(b []byte) []byte { return b[:len(b)-1] }
	flip := func(b []byte) []byte {
		b = bytes.Clone(b)
		b[len(b)-2] ^= 1
		return b
	}
	for name, c := range map[string]struct {
		enc  encoding
		in   []byte
		want []byte // nil = refused
		code string
	}{
		"gzip":                 {gzipped, gz(t, text[:77]), text[:77], ""},
		"gzip at the limit":    {gzipped, gz(t, text), text, ""},
		"gzip of noise":        {gzipped, gz(t, noise(limit)), noise(limit), ""},
		"gzip members":         {gzipped, join(gz(t, text[:10]), gz(t, text[10:30])), text[:30], ""},
		"gzip of nothing":      {gzipped, gz(t, nil), []byte{}, ""},
		"gzip over":            {gzipped, gz(t, append(bytes.Clone(text), 'x')), nil, codeTooLarge},
		"gzip members over":    {gzipped, join(gz(t, text), gz(t, text[:1])), nil, codeTooLarge},
		"gzip bomb":            {gzipped, gz(t, zeros), nil, codeTooLarge},
		"gzip cut":             {gzipped, cut(gz(t, text)), nil, codeInvalidEncoding},
		"gzip cut early":       {gzipped, gz(t, text)[:5], nil, codeInvalidEncoding},
		"gzip checksum":        {gzipped, flip(gz(t, text)), nil, codeInvalidEncoding},
		"gzip then more":       {gzipped, append(gz(t, text), "more"...), nil, codeInvalidEncoding},
		"gzip then zero":       {gzipped, append(gz(t, text), 0), nil, codeInvalidEncoding},
		"not gzip":             {gzipped, text, nil, codeInvalidEncoding},
		"zstd":                 {zstded, zsAll(t, text[:77]), text[:77], ""},
		"zstd stream":          {zstded, zs(t, text[:77]), text[:77], ""},
		"zstd of 8 MiB window": {zstded, zs(t, text[:77], zstd.WithWindowSize(8<<20)), text[:77], ""},
		"zstd at the limit":    {zstded, zsAll(t, text), text, ""},
		"zstd stream at it":    {zstded, zs(t, text), text, ""},
		"zstd of noise":        {zstded, zs(t, noise(limit)), noise(limit), ""},
		"zstd frames":          {zstded, join(zs(t, text[:10]), zsAll(t, text[10:30])), text[:30], ""},
		"zstd skippable":       {zstded, join([]byte("\x50\x2a\x4d\x18\x03\x00\x00\x00abc"), zs(t, text[:10])), text[:10], ""},
		"zstd of nothing":      {zstded, zsAll(t, nil), []byte{}, ""},
		"zstd over":            {zstded, zsAll(t, append(bytes.Clone(text), 'x')), nil, codeTooLarge},
		"zstd stream over":     {zstded, zs(t, append(bytes.Clone(text), 'x')), nil, codeTooLarge},
		"zstd frames over":     {zstded, join(zs(t, text), zs(t, text[:1])), nil, codeTooLarge},
		"zstd bomb":            {zstded, zsAll(t, zeros), nil, codeTooLarge},
		"zstd stream bomb":     {zstded, zs(t, zeros), nil, codeTooLarge},
		"zstd cut":             {zstded, cut(zs(t, text)), nil, codeInvalidEncoding},
		"zstd checksum":        {zstded, flip(zs(t, text)), nil, codeInvalidEncoding},
		"zstd then more":       {zstded, append(zs(t, text), "more"...), nil, codeInvalidEncoding},
		"zstd of huge window":  {zstded, zs(t, text, zstd.WithWindowSize(64<<20)), nil, codeInvalidEncoding},
		"not zstd":             {zstded, text, nil, codeInvalidEncoding},
		"nothing":              {zstded, nil, nil, codeInvalidEncoding},
	} {
		got, p := f.inflate(c.enc, c.in, anySize)
		if c.want == nil {
			if p == nil || p.code != c.code {
				t.Errorf("%s: %v, %d bytes; want %s", name, p, len(got), c.code)
			}
		} else if p != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%s: %v, %d bytes; want %d", name, p, len(got), len(c.want))
		}
	}
}

// Pooled readers and buffers must not leak one body into another.
func TestInflateConcurrently(t *testing.T) {
	f, err := newInflater(5000)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for worker := range 8 {
		want := bytes.Repeat([]byte{byte('a' + worker)}, 1000+worker*500)
		g, z := gz(t, want), zs(t, want)
		wg.Go(func() {
			for range 200 {
				a, p := f.inflate(gzipped, g, anySize)
				b, q := f.inflate(zstded, z, anySize)
				_, _ = f.inflate(gzipped, g[:len(g)-3], anySize)
				_, _ = f.inflate(zstded, z[:len(z)-3], anySize)
				if p != nil || q != nil || !bytes.Equal(a, want) || !bytes.Equal(b, want) {
					t.Errorf("worker %d: %v, %v", worker, p, q)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestCompressedBodyIsDeliveredInflated(t *testing.T) {
	r, b := start(t)
	for enc, body := range map[string][]byte{"gzip": gz(t, []byte(goodBody)), "X-Gzip": gz(t, []byte(goodBody)), "zstd": zs(t, []byte(goodBody)), "Identity": []byte(goodBody)} {
		a := r.post(string(body), "Content-Encoding", enc, "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
		if a.status != 202 {
			t.Fatalf("%s: %s", enc, a)
		}
		rec := fetch(t, b, a.Partition, a.Offset)
		if string(rec.Value) != goodBody {
			t.Errorf("%s: value %q", enc, rec.Value)
		}
		if e, err := event.Decode(rec); err != nil || !strings.HasPrefix(e.Traceparent, "00-4bf9") {
			t.Errorf("%s: %+v, %v", enc, e, err)
		}
	}
	for _, n := range []int{256 << 10, 256<<10 + 1} {
		want := map[bool]int{true: 202, false: 413}[n == 256<<10]
		if a := r.post(string(gz(t, []byte(padded(n)))), "Content-Encoding", "gzip"); a.status != want {
			t.Errorf("%d bytes inflated: %s", n, a)
		}
	}
	if a := r.post(string(gz(t, nil)), "Content-Encoding", "gzip"); a.status != 400 || a.Code != "empty_body" {
		t.Errorf("nothing, compressed: %s", a)
	}
}

// FuzzInflate: no input panics or yields more than the limit; what the standard library reads
// as gzip is read alike; and a fuzzed text survives both encodings.
func FuzzInflate(f *testing.F) {
	f.Add(gz(f, []byte(goodBody)))
	f.Add(zs(f, []byte(goodBody)))
	f.Add([]byte("\x28\xb5\x2f\xfd"))
	const limit = 2000
	inf, err := newInflater(limit)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, enc := range []encoding{gzipped, zstded} {
			if out, p := inf.inflate(enc, in, anySize); len(out) > limit || p != nil && p.code != codeTooLarge && p.code != codeInvalidEncoding {
				t.Fatalf("%d bytes, %v", len(out), p)
			}
		}
		if r, err := stdgzip.NewReader(bytes.NewReader(in)); err == nil {
			want, err := io.ReadAll(io.LimitReader(r, limit+1))
			got, p := inf.inflate(gzipped, in, anySize)
			if err == nil && len(want) <= limit && (p != nil || !bytes.Equal(got, want)) {
				t.Fatalf("%v, the standard library reads %d bytes", p, len(want))
			}
		}
		if len(in) <= limit {
			for enc, packed := range map[encoding][]byte{gzipped: gz(t, in), zstded: zsAll(t, in)} {
				if got, p := inf.inflate(enc, packed, anySize); p != nil || !bytes.Equal(got, in) {
					t.Fatalf("encoding %d: %v", enc, p)
				}
			}
		}
	})
}

func anySize(int) bool { return true }
