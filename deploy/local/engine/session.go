package engine

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"
)

// session is one connection to the engine. It lives for one query: opening one costs a fraction of
// a millisecond, and nothing of a query, settings or temporary tables, reaches the next.
type session struct {
	lib    *library
	handle uintptr // what the engine wants back at the end
	conn   uintptr
}

// summary counts what a query read and wrote.
type summary struct {
	readRows, readBytes, writtenRows, writtenBytes, resultRows, resultBytes uint64
	elapsed                                                                 time.Duration
}

func (l *library) session(args []string) (*session, error) {
	h, err := l.open(args)
	if err != nil {
		return nil, err
	}
	return &session{lib: l, handle: h, conn: deref(h)}, nil
}

func (s *session) close() { s.lib.closeConn(s.handle) }

// set gives the session its settings. Query parameters come first: a read-only session takes none.
func (s *session) set(prefix string, pairs []pair) *exception {
	if len(pairs) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("SET ")
	for i, p := range pairs {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(prefix + p.name + " = " + quote(p.value))
	}
	return s.exec(b.String())
}

// exec runs a statement whose result does not matter.
func (s *session) exec(sql string) *exception {
	_, x := s.query([]byte(sql), "Null", nil)
	return x
}

// query runs a statement and hands its whole result over. The bytes are the engine's: they are
// gone when take returns.
func (s *session) query(sql []byte, format string, take func(part []byte, sum summary) error) (summary, *exception) {
	f := []byte(format)
	r := s.lib.query(s.conn, data(sql), uintptr(len(sql)), data(f), uintptr(len(f)))
	defer s.lib.destroyResult(r)
	sum := s.summary(r)
	if x := engineException(cString(s.lib.resultError(r))); x != nil {
		return sum, x
	}
	if take == nil {
		return sum, nil
	}
	return sum, asException(take(cBytes(s.lib.buffer(r), s.lib.length(r)), sum))
}

// stream runs a query and hands its result over piece by piece. ok is false when the engine cannot
// stream this kind of statement; nothing has happened then.
func (s *session) stream(ctx context.Context, sql []byte, format string, take func(part []byte, sum summary) error) (ok bool, sum summary, x *exception) {
	f := []byte(format)
	stream := s.lib.stream(s.conn, data(sql), uintptr(len(sql)), data(f), uintptr(len(f)))
	defer s.lib.destroyResult(stream)
	if text := cString(s.lib.resultError(stream)); text != "" {
		if strings.Contains(text, "Streaming query is not supported") {
			return false, sum, nil
		}
		return true, sum, engineException(text)
	}
	for {
		end, x := s.fetch(stream, &sum, take)
		if end {
			return true, sum, x
		}
		if x == nil && ctx.Err() != nil {
			x = cancelled()
		}
		if x != nil {
			s.lib.cancelStream(s.conn, stream)
			return true, sum, x
		}
	}
}

// fetch hands one piece over.
func (s *session) fetch(stream uintptr, sum *summary, take func([]byte, summary) error) (end bool, x *exception) {
	r := s.lib.fetch(s.conn, stream)
	defer s.lib.destroyResult(r)
	if x := engineException(cString(s.lib.resultError(r))); x != nil {
		return true, x
	}
	part := cBytes(s.lib.buffer(r), s.lib.length(r))
	if len(part) == 0 {
		return true, nil
	}
	piece := s.summary(r)
	sum.readRows += piece.readRows
	sum.readBytes += piece.readBytes
	sum.resultRows += piece.resultRows
	sum.resultBytes += piece.resultBytes
	sum.elapsed += piece.elapsed
	return false, asException(take(part, *sum))
}

// insertChunk is how much of an insert's data is handed over at once. The engine copies it.
const insertChunk = 1 << 20

// insert runs an INSERT with data. Nothing is written when the data ends with an error and all of
// it was one block: the engine writes whole blocks, and an insert that is cancelled before its end
// leaves out the last.
func (s *session) insert(sql []byte, format string, body io.Reader) (summary, *exception) {
	f := []byte(format)
	in := s.lib.insert(s.conn, data(sql), uintptr(len(sql)), data(f), uintptr(len(f)))
	defer s.lib.destroyInsert(in)
	if x := engineException(cString(s.lib.insertError(in))); x != nil {
		return summary{}, x
	}
	buf := make([]byte, insertChunk)
	for {
		n, err := fill(body, buf)
		if n > 0 && s.lib.appendInsert(in, data(buf), uintptr(n)) != 0 {
			break // the end tells why
		}
		if err == io.EOF { //nolint:errorlint // only the plain end is the end
			break
		}
		if err != nil {
			s.lib.cancelInsert(in)
			return summary{}, asException(err)
		}
	}
	r := s.lib.doneInsert(in)
	defer s.lib.destroyResult(r)
	return s.summary(r), engineException(cString(s.lib.resultError(r)))
}

// fill reads until buf is full or the reader ends. Unlike io.ReadFull it keeps apart the end of a
// body (io.EOF) and a body that was cut (io.ErrUnexpectedEOF of the HTTP server).
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var m int
		m, err = r.Read(buf[n:])
		n += m
	}
	return n, err
}

func (s *session) summary(r uintptr) summary {
	return summary{
		readRows: s.lib.storageRows(r), readBytes: s.lib.storageBytes(r),
		writtenRows: s.lib.rowsWritten(r), writtenBytes: s.lib.bytesWritten(r),
		resultRows: s.lib.rowsRead(r), resultBytes: s.lib.bytesRead(r),
		elapsed: time.Duration(s.lib.elapsed(r) * float64(time.Second)),
	}
}

func cancelled() *exception {
	return raise(codeCancelled, "QUERY_WAS_CANCELLED", "the client went away")
}

// asException gives an error of this side the engine's form.
func asException(err error) *exception {
	if err == nil {
		return nil
	}
	if x, ok := errors.AsType[*exception](err); ok {
		return x
	}
	return raise(codeIncorrectData, "INCORRECT_DATA", "%s", err)
}

// quote writes a string literal.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}
