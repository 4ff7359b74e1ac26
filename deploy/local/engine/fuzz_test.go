package engine

import (
	"bytes"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	chproto "github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"
)

// FuzzStatement: reading a query never goes wrong, and what is cut out of it as the FORMAT clause is one.
func FuzzStatement(f *testing.F) {
	for _, s := range []string{
		"SELECT 1 FORMAT JSON", "INSERT INTO t (a) SETTINGS x = 'FORMAT' FORMAT Native\nabc", "SELECT 'FORMAT' AS format -- FORMAT x",
		"INSERT INTO t VALUES (1)", "SELECT $x$ FORMAT CSV $x$ format TSV SETTINGS a = 1", "/* FORMAT A */ SELECT `FORMAT`", "INSERT INTO format FORMAT CSV", "'", "$", "$a$", "/*", "(((", ")",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, sql []byte) {
		s := parseStatement(sql)
		if s.insert && s.verb != "INSERT" {
			t.Fatalf("%q: data for %s", sql, s.verb)
		}
		if s.format == "" {
			return
		}
		clause := string(sql[s.formatAt:s.formatEnd])
		if len(clause) < 6 || !strings.EqualFold(clause[:6], "FORMAT") || !strings.HasSuffix(clause, s.format) {
			t.Fatalf("%q: the clause is %q, the format %q", sql, clause, s.format)
		}
		s.inlineData(sql)
	})
}

// FuzzRequest: no URL, header or body makes anything worse than an exception, and nothing but a name
// gets into SET without quotes.
func FuzzRequest(f *testing.F) {
	f.Add("query=SELECT+1&max_threads=1&param_a=x", "gzip", []byte("x"))
	f.Add("decompress=1&compress=1&client_protocol_version=54460", "", []byte("0123456789012345678901234567890"))
	f.Add("a%20b=1", "zstd", []byte{0x28, 0xb5, 0x2f, 0xfd})
	f.Fuzz(func(t *testing.T, query, encoding string, body []byte) {
		r := httptest.NewRequest("POST", "/", bytes.NewReader(body))
		r.URL.RawQuery = query
		r.Header.Set("Content-Encoding", encoding)
		q, x := parseRequest(r)
		if x != nil {
			if x.status() < 400 {
				t.Fatalf("%v has status %d", x, x.status())
			}
			return
		}
		for _, p := range append(q.settings, q.params...) {
			if strings.ContainsAny(p.name, " =,;'\"()`\\\n") || p.name == "" {
				t.Fatalf("%q is taken for a name", p.name)
			}
		}
		io.Copy(io.Discard, &limitedBody{r: q.body, left: 1 << 20}) //nolint:errcheck // any error will do
	})
}

// FuzzReencode: damaged blocks are errors, and a block that can be read says the same at either revision.
func FuzzReencode(f *testing.F) {
	f.Add([]byte("\x02\x01\x01a\x06UInt64\x2a\x00\x00\x00\x00\x00\x00\x00\x01s\x06String\x02hi"), uint16(0))
	f.Add([]byte("\x01\x00\x02\xff\xff\xff\xff\x00\x01\x01\x01a\x05UInt8\x00\x2a"), uint16(54460))
	f.Add([]byte("\x01\x01\x01c\x16LowCardinality(String)\x01\x00\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x01x\x01\x00\x00\x00\x00\x00\x00\x00\x01"), uint16(0))
	f.Fuzz(func(t *testing.T, raw []byte, revision uint16) {
		if len(raw) > 1<<12 {
			return
		}
		var there, back, again chproto.Buffer
		n, err := reencode(&there, bytes.NewReader(raw), uint64(revision), 54460)
		if err != nil {
			return
		}
		m, err := reencode(&back, bytes.NewReader(there.Buf), 54460, 0)
		if err != nil || m != n {
			t.Fatalf("%d blocks become %d: %v", n, m, err)
		}
		if _, err := reencode(&again, bytes.NewReader(back.Buf), 0, 54460); err != nil || !bytes.Equal(again.Buf, there.Buf) {
			t.Fatalf("%q becomes %q: %v", there.Buf, again.Buf, err)
		}
	})
}

// The blocks of the driver itself: an insert's body passes through unchanged.
func TestAtRevisionZero(t *testing.T) {
	t.Parallel()
	block := proto.Block{ServerContext: &column.ServerContext{}}
	for _, c := range []struct{ name, typ string }{{"a", "UInt64"}, {"s", "LowCardinality(String)"}, {"e", "Enum8('x' = 1, 'y' = 2)"}} {
		if err := block.AddColumn(c.name, column.Type(c.typ)); err != nil {
			t.Fatal(err)
		}
	}
	if err := block.Append(uint64(7), "seven", "y"); err != nil {
		t.Fatal(err)
	}
	for _, revision := range []uint64{0, 54460} {
		var want, sent chproto.Buffer
		if err := block.Encode(&want, 0); err != nil {
			t.Fatal(err)
		}
		if err := block.Encode(&sent, revision); err != nil {
			t.Fatal(err)
		}
		r, err := atRevisionZero(bytes.NewReader(sent.Buf), revision)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want.Buf) {
			t.Errorf("revision %d: %q, %v, want %q", revision, got, err, want.Buf)
		}
	}
}
