package ingest

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// framing refuses what fasthttp takes and another reader of the request, such as a proxy in
// front, may take for something else: a length beside chunks, folded lines, lines that end in
// a bare line feed, a second content type (the last one would count). It reads the header
// lines as they came.
func framing(h *fasthttp.RequestHeader) *problem {
	chunked := h.ContentLength() == -1 // the parser drops the length of such a request
	types := 0
	for raw := h.RawHeaders(); len(raw) > 0; {
		end := bytes.IndexByte(raw, '\n')
		if end < 0 {
			end = len(raw)
		} else if end == 0 || raw[end-1] != '\r' {
			return errLines
		}
		switch raw[0] {
		case ' ', '\t':
			return errLines
		case 'c', 'C':
			switch {
			case isHeader(raw[:end], fasthttp.HeaderContentType):
				if types++; types > 1 {
					return errTwoTypes
				}
			case chunked && isHeader(raw[:end], fasthttp.HeaderContentLength):
				return errFraming
			}
		}
		raw = raw[min(end+1, len(raw)):]
	}
	return nil
}

func isHeader(line []byte, name string) bool {
	return len(line) > len(name) && line[len(name)] == ':' && equalFold(line[:len(name)], name)
}
