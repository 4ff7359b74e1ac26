package engine

import (
	"bytes"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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

// FuzzReencode: a block says the same at either revision, and a cut one is an error. Blocks with forged
// counts are not tried: see decode.
func FuzzReencode(f *testing.F) {
	f.Add("text", "low", uint64(7), uint8(3), uint16(5))
	f.Add("", "", uint64(0), uint8(1), uint16(0))
	f.Fuzz(func(t *testing.T, text, low string, n uint64, rows uint8, cut uint16) {
		if rows == 0 {
			return
		}
		block := proto.Block{ServerContext: &column.ServerContext{}}
		for _, c := range [][2]string{{"a", "UInt64"}, {"s", "String"}, {"l", "LowCardinality(String)"}, {"e", "Enum8('x' = 1)"}, {"n", "Nullable(String)"}, {"t", "DateTime64(3, 'UTC')"}} {
			if err := block.AddColumn(c[0], column.Type(c[1])); err != nil {
				t.Fatal(err)
			}
		}
		for i := range rows {
			if err := block.Append(n+uint64(i), text, low, "x", nil, time.UnixMilli(int64(n>>24)).UTC()); err != nil {
				return // a time that the column cannot hold
			}
		}
		var zero, there, back chproto.Buffer
		if err := block.Encode(&zero, 0); err != nil {
			t.Fatal(err)
		}
		if m, err := reencode(&there, bytes.NewReader(append(zero.Buf, zero.Buf...)), 0, 54460); err != nil || m != 2 {
			t.Fatalf("%d blocks, %v", m, err)
		}
		if m, err := reencode(&back, bytes.NewReader(there.Buf), 54460, 0); err != nil || m != 2 || !bytes.Equal(back.Buf, append(zero.Buf, zero.Buf...)) {
			t.Fatalf("%d blocks, %v, %q becomes %q", m, err, zero.Buf, back.Buf)
		}
		if at := int(cut) % len(zero.Buf); at > 0 {
			if m, err := reencode(&chproto.Buffer{}, bytes.NewReader(zero.Buf[:at]), 0, 54460); err == nil {
				t.Fatalf("%d of %d bytes are taken for %d blocks", at, len(zero.Buf), m)
			}
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
