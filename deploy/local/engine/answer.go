package engine

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/ClickHouse/ch-go/compress"
	chproto "github.com/ClickHouse/ch-go/proto"
	"github.com/google/uuid"
	"github.com/klauspost/compress/gzip"

	"bytes"
)

// answer writes the result of one query: head, then gzip, then ClickHouse's frames, each if asked for.
type answer struct {
	w       http.ResponseWriter
	q       *request
	about   about
	format  string // in which the engine writes
	began   bool
	tag     string // marks the exception in the middle of a stream
	plain   io.Writer
	zip     *gzip.Writer
	frames  *compress.Writer
	pending []byte // not yet framed
	native  chproto.Buffer
}

// frameSize is how much a compressed frame holds.
const frameSize = 1 << 20

func newAnswer(w http.ResponseWriter, q *request, a about, format string) *answer {
	return &answer{w: w, q: q, about: a, format: format, tag: strings.ReplaceAll(uuid.NewString(), "-", "")[:16]}
}

// take passes a part of the result on.
func (a *answer) take(part []byte, sum summary) error {
	if len(part) == 0 {
		return nil
	}
	if a.q.revision > 0 && strings.EqualFold(a.format, "Native") {
		a.native.Reset()
		if _, err := reencode(&a.native, bytes.NewReader(part), 0, a.q.revision); err != nil {
			return raise(codeNotImplemented, "NOT_IMPLEMENTED", "the result cannot be written at revision %d: %v", a.q.revision, err)
		}
		part = a.native.Buf
	}
	a.begin(sum)
	if a.frames == nil {
		_, err := a.plain.Write(part)
		return err
	}
	a.pending = append(a.pending, part...)
	for len(a.pending) >= frameSize {
		if err := a.frame(a.pending[:frameSize]); err != nil {
			return err
		}
		a.pending = append(a.pending[:0], a.pending[frameSize:]...)
	}
	return nil
}

func (a *answer) frame(part []byte) error {
	if err := a.frames.Compress(part); err != nil {
		return err
	}
	_, err := a.plain.Write(a.frames.Data)
	return err
}

// begin sends the head, once.
func (a *answer) begin(sum summary) {
	if a.began {
		return
	}
	a.began = true
	h := a.head()
	h.Set("Content-Type", contentType(a.format))
	h.Set("X-ClickHouse-Format", a.format)
	h.Set("X-ClickHouse-Summary", sum.header())
	h.Set("X-ClickHouse-Exception-Tag", a.tag)
	a.plain = a.w
	if a.q.gzip {
		h.Set("Content-Encoding", "gzip")
		a.zip, _ = gzip.NewWriterLevel(a.w, gzip.BestSpeed) // the level is valid
		a.plain = a.zip
	}
	if a.q.framed {
		a.frames = compress.NewWriter(compress.LevelZero, a.q.method)
	}
	a.w.WriteHeader(http.StatusOK)
}

func (a *answer) head() http.Header {
	h := a.w.Header()
	h.Set("X-ClickHouse-Query-Id", a.q.id)
	h.Set("X-ClickHouse-Timezone", a.about.timezone)
	h.Set("X-ClickHouse-Server-Display-Name", a.about.name)
	return h
}

// end finishes an answer without an error.
func (a *answer) end(sum summary) error {
	a.begin(sum)
	if len(a.pending) > 0 {
		if err := a.frame(a.pending); err != nil {
			return err
		}
	}
	if a.zip != nil {
		return a.zip.Close()
	}
	return nil
}

// fail tells the client about an exception: by the status when nothing has been sent, else in the
// middle of the stream, whose connection is then broken off so that nobody takes it for whole.
func (a *answer) fail(x *exception) {
	if !a.began {
		sendException(a.w, a.head(), x, a.about.version)
		return
	}
	io.WriteString(a.plain, x.midStream(a.about.version, a.tag)) //nolint:errcheck // the connection is broken off anyway
	if a.zip != nil {
		a.zip.Close() //nolint:errcheck // likewise
	}
	http.NewResponseController(a.w).Flush() //nolint:errcheck // likewise
	panic(http.ErrAbortHandler)
}

func sendException(w http.ResponseWriter, h http.Header, x *exception, version string) {
	h.Set("Content-Type", "text/plain; charset=UTF-8")
	h.Set("X-ClickHouse-Exception-Code", strconv.Itoa(x.code))
	h.Set("X-ClickHouse-Summary", summary{}.header())
	w.WriteHeader(x.status())
	io.WriteString(w, x.full(version)) //nolint:errcheck // the client has gone; there is nobody to tell
}

func (s summary) header() string {
	return fmt.Sprintf(`{"read_rows":"%d","read_bytes":"%d","written_rows":"%d","written_bytes":"%d","total_rows_to_read":"0","result_rows":"%d","result_bytes":"%d","elapsed_ns":"%d"}`,
		s.readRows, s.readBytes, s.writtenRows, s.writtenBytes, s.resultRows, s.resultBytes, s.elapsed.Nanoseconds())
}

func contentType(format string) string {
	f := strings.ToUpper(format)
	switch {
	case strings.HasPrefix(f, "TABSEPARATED"), strings.HasPrefix(f, "TSV"):
		return "text/tab-separated-values; charset=UTF-8"
	case f == "CSV":
		return "text/csv; charset=UTF-8; header=absent"
	case strings.HasPrefix(f, "CSVWITHNAMES"):
		return "text/csv; charset=UTF-8; header=present"
	case strings.HasSuffix(f, "EACHROW"), f == "NDJSON", f == "JSONLINES":
		return "application/x-ndjson; charset=UTF-8"
	case strings.HasPrefix(f, "JSON"):
		return "application/json; charset=UTF-8"
	case f == "XML":
		return "application/xml; charset=UTF-8"
	case strings.HasPrefix(f, "ROWBINARY"), f == "NATIVE", f == "PARQUET", f == "ARROW", f == "ORC", f == "ARROWSTREAM":
		return "application/octet-stream"
	}
	return "text/plain; charset=UTF-8"
}
