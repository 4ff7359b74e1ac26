package engine

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/andybalholm/brotli"
	"github.com/google/uuid"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// pair is a setting or a query parameter.
type pair struct{ name, value string }

// request is one query as it came over HTTP.
type request struct {
	sql      []byte // of the query parameter
	database string
	format   string // when the query names none
	id       string
	settings []pair // in the order of their names
	params   []pair
	readonly bool   // GET may not change anything
	revision uint64 // of Native blocks in the answer; 0 = as the engine writes them
	framed   bool   // the answer goes out in ClickHouse's own compressed frames
	method   compress.Method
	gzip     bool // the answer goes out gzipped
	user     string
	password string
	body     io.ReadCloser // decompressed
}

// Names in the URL that are not settings of the engine.
const (
	argQuery, argDatabase, argFormat, argID, argRevision = "query", "database", "default_format", "query_id", "client_protocol_version"
	argUser, argPassword, argCompress, argDecompress     = "user", "password", "compress", "decompress"
	paramPrefix                                          = "param_"
)

// parseRequest reads everything but the body's content.
func parseRequest(r *http.Request) (*request, *exception) {
	args, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, raise(codeBadArguments, "BAD_ARGUMENTS", "the query string of the URL is malformed")
	}
	q := &request{
		sql: []byte(args.Get(argQuery)), database: args.Get(argDatabase), format: args.Get(argFormat), id: args.Get(argID),
		readonly: r.Method == http.MethodGet || r.Method == http.MethodHead,
	}
	q.identify(r, args)
	if v := args.Get(argRevision); v != "" {
		if q.revision, err = strconv.ParseUint(v, 10, 32); err != nil {
			return nil, raise(codeBadArguments, "BAD_ARGUMENTS", "%s is not a number", argRevision)
		}
	}
	if x := q.sortArgs(args); x != nil {
		return nil, x
	}
	if q.framed, err = yes(args, argCompress); err == nil && q.framed {
		q.method, err = frameMethod(args.Get("network_compression_method"))
	}
	if err != nil {
		return nil, raise(codeBadArguments, "BAD_ARGUMENTS", "%s", err)
	}
	compressible, err := yes(args, "enable_http_compression")
	if err != nil {
		return nil, raise(codeBadArguments, "BAD_ARGUMENTS", "%s", err)
	}
	q.gzip = compressible && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
		return nil, raise(codeNotImplemented, "NOT_IMPLEMENTED", "the embedded engine takes no external tables")
	}
	if x := q.openBody(r, args); x != nil {
		return nil, x
	}
	return q, nil
}

// identify reads who asks and how the query is called.
func (q *request) identify(r *http.Request, args url.Values) {
	q.user, q.password = args.Get(argUser), args.Get(argPassword)
	if user, password, ok := r.BasicAuth(); ok {
		q.user, q.password = user, password
	}
	if v := r.Header.Get("X-ClickHouse-User"); v != "" {
		q.user, q.password = v, r.Header.Get("X-ClickHouse-Key")
	}
	if v := r.Header.Get("X-ClickHouse-Database"); v != "" && q.database == "" {
		q.database = v
	}
	if v := r.Header.Get("X-ClickHouse-Format"); v != "" && q.format == "" {
		q.format = v
	}
	if q.format == "" {
		q.format = "TabSeparated"
	}
	if q.id == "" {
		q.id = uuid.NewString()
	}
}

// sortArgs splits the rest of the URL into query parameters and settings.
func (q *request) sortArgs(args url.Values) *exception {
	for _, name := range sortedNames(args) {
		value := args[name][len(args[name])-1]
		if p, ok := strings.CutPrefix(name, paramPrefix); ok {
			if !isName(p) {
				return raise(codeBadArguments, "BAD_ARGUMENTS", "%q is not the name of a query parameter", p)
			}
			q.params = append(q.params, pair{p, value})
			continue
		}
		switch name {
		case argQuery, argDatabase, argFormat, argID, argRevision, argUser, argPassword, argCompress, argDecompress,
			"quota_key", "stacktrace", "role", "buffer_size", "wait_end_of_query", "session_timeout", "session_check", "close_session":
		case "session_id":
			return raise(codeNotImplemented, "NOT_IMPLEMENTED", "the embedded engine keeps no sessions; send the query without session_id")
		default:
			if !isName(name) {
				return raise(codeUnknownSetting, "UNKNOWN_SETTING", "%q is not the name of a setting", name)
			}
			q.settings = append(q.settings, pair{name, value})
		}
	}
	return nil
}

// openBody undoes the compression of the request.
func (q *request) openBody(r *http.Request, args url.Values) *exception {
	q.body = r.Body
	var err error
	switch enc := strings.ToLower(r.Header.Get("Content-Encoding")); enc {
	case "", "identity":
	case "gzip":
		q.body, err = gzip.NewReader(r.Body)
	case "deflate":
		q.body, err = zlib.NewReader(r.Body)
	case "br":
		q.body = io.NopCloser(brotli.NewReader(r.Body))
	case "zstd":
		var d *zstd.Decoder
		if d, err = zstd.NewReader(r.Body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20)); err == nil {
			q.body = d.IOReadCloser()
		}
	default:
		return raise(codeNotImplemented, "NOT_IMPLEMENTED", "Content-Encoding %q; use gzip, deflate, br or zstd", enc)
	}
	if err != nil {
		return raise(codeIncorrectData, "INCORRECT_DATA", "the compressed body cannot be read")
	}
	framed, err := yes(args, argDecompress)
	if err != nil {
		return raise(codeBadArguments, "BAD_ARGUMENTS", "%s", err)
	}
	if framed {
		raw := &counted{r: q.body}
		q.body = io.NopCloser(&unframed{raw: raw, frames: compress.NewReader(raw)})
	}
	return nil
}

// unframed takes ClickHouse's compressed frames apart. Their reader does not tell the end of the
// data from a cut frame: it is the end when nothing of another frame came.
type unframed struct {
	raw    *counted
	frames *compress.Reader
}

func (u *unframed) Read(p []byte) (int, error) {
	before := u.raw.n
	n, err := u.frames.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF) && u.raw.n == before:
		err = io.EOF
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func frameMethod(name string) (compress.Method, error) {
	switch strings.ToUpper(name) {
	case "", "LZ4":
		return compress.LZ4, nil
	case "LZ4HC":
		return compress.LZ4HC, nil
	case "ZSTD":
		return compress.ZSTD, nil
	case "NONE":
		return compress.None, nil
	}
	return 0, fmt.Errorf("network_compression_method %q; use LZ4, ZSTD or NONE", name)
}

// yes reads a yes or no of the URL.
func yes(args url.Values, name string) (bool, error) {
	switch strings.ToLower(args.Get(name)) {
	case "", "0", "false":
		return false, nil
	case "1", "true":
		return true, nil
	}
	return false, fmt.Errorf("%s must be 0 or 1", name)
}

// isName says whether a name may stand in SET without quotes.
func isName(s string) bool {
	if s == "" || !isWordStart(s[0]) || len(s) > 200 {
		return false
	}
	for i := range len(s) {
		if !isWordPart(s[i]) && s[i] != '.' {
			return false
		}
	}
	return !strings.Contains(s, "$")
}
