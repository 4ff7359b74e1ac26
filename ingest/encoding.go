package ingest

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// encoding is the Content-Encoding of a request's body.
type encoding uint8

const (
	identity encoding = iota
	gzipped
	zstded
	unsupported
)

var encodingNames = [...]string{"identity", "gzip", "zstd"}

func encodingOf(header []byte) encoding {
	switch {
	case len(header) == 0 || equalFold(header, "identity"):
		return identity
	case equalFold(header, "gzip") || equalFold(header, "x-gzip"):
		return gzipped
	case equalFold(header, "zstd"):
		return zstded
	}
	return unsupported
}

// inflater makes bodies out of compressed ones, never larger than its limit whatever a
// stream promises. Safe for concurrent use.
type inflater struct {
	limit   int
	zstd    *zstd.Decoder
	gzips   sync.Pool // *gzip.Reader
	scratch sync.Pool // *[]byte of length limit + 1
	// busy holds one per body that is being inflated, and so per scratch. It is work for the
	// processors alone: more at once would take memory and save no time.
	busy chan struct{}
}

// zstdWindow is what RFC 9659 lets a sender of this content encoding use. It is not bound by
// the body limit: encoders announce their level's window for any size.
const zstdWindow = 8 << 20

func newInflater(limit int) (*inflater, error) {
	// The capacity of the target is the limit: WithDecoderMaxMemory would refuse the window.
	d, err := zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderConcurrency(0))
	if err != nil {
		return nil, err
	}
	f := &inflater{limit: limit, zstd: d, busy: make(chan struct{}, runtime.GOMAXPROCS(0))}
	f.gzips.New = func() any { return new(gzip.Reader) }
	f.scratch.New = func() any {
		b := make([]byte, limit+1)
		return &b
	}
	return f, nil
}

// inflate returns the body in memory of its own, if fits says that there is room for its length.
func (f *inflater) inflate(enc encoding, body []byte, fits func(n int) bool) ([]byte, *problem) {
	f.busy <- struct{}{}
	defer func() { <-f.busy }()
	buf := f.scratch.Get().(*[]byte)
	defer f.scratch.Put(buf)
	var n int
	var err error
	if enc == gzipped {
		n, err = f.gunzip(*buf, body)
	} else {
		n, err = f.unzstd(*buf, body)
	}
	switch {
	case errors.Is(err, errOverLimit):
		return nil, tooLarge(f.limit)
	case err != nil:
		return nil, invalidEncoding(encodingNames[enc])
	case !fits(n):
		return nil, errIntake
	}
	return bytes.Clone((*buf)[:n]), nil
}

var errOverLimit = errors.New("inflated body is over the limit")

// gunzip reads all members of a stream; what follows them that is not another is an error.
func (f *inflater) gunzip(dst, body []byte) (int, error) {
	r := f.gzips.Get().(*gzip.Reader)
	defer f.gzips.Put(r)
	if err := r.Reset(bytes.NewReader(body)); err != nil {
		return 0, err
	}
	for n := 0; n < len(dst); {
		m, err := r.Read(dst[n:])
		n += m
		switch {
		case errors.Is(err, io.EOF) && n <= f.limit: // the whole stream, its checksum too
			return n, nil
		case err != nil && n <= f.limit:
			return 0, err
		}
	}
	return 0, errOverLimit
}

func (f *inflater) unzstd(dst, body []byte) (int, error) {
	if len(body) == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	out, err := f.zstd.DecodeAll(body, dst[:0:f.limit])
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return 0, errOverLimit
	case err != nil:
		return 0, err
	case len(out) > f.limit:
		return 0, errOverLimit
	case len(out) > 0 && &out[0] != &dst[0]:
		copy(dst, out)
	}
	return len(out), nil
}
