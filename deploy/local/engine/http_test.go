package engine_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/ClickHouse/ch-go/compress"

	"github.com/hookline/hookline/deploy/local/engine"
)

// What curl, dashboards and other clients do.
func TestHTTP(t *testing.T) {
	t.Parallel()
	e, c := start(t)
	run(t, c, "CREATE DATABASE other")
	run(t, c, "CREATE TABLE other.t (a UInt64, s String) ENGINE = MergeTree ORDER BY a")
	url := func(args ...string) string { return e.DSN() + "/?" + values(args...).Encode() }

	for name, tt := range map[string]struct {
		method, url, body string
		head              []string
		status            int
		want              string // the whole body; "..." at the end = its beginning
		wantHead          []string
	}{
		"ping":             {"GET", e.DSN() + "/ping", "", nil, 200, "Ok.\n", nil},
		"root":             {"GET", e.DSN() + "/", "", nil, 200, "Ok.\n", nil},
		"elsewhere":        {"GET", e.DSN() + "/nowhere", "", nil, 404, "There is no handle /nowhere...", nil},
		"method":           {"DELETE", e.DSN() + "/", "", nil, 405, "Queries are sent...", []string{"Allow", "GET, HEAD, POST, PUT"}},
		"get":              {"GET", url("query", "SELECT 1, 'a'"), "", nil, 200, "1\ta\n", []string{"X-ClickHouse-Format", "TabSeparated", "X-ClickHouse-Timezone", "UTC"}},
		"body":             {"POST", url(), "SELECT 2", nil, 200, "2\n", nil},
		"both":             {"POST", url("query", "SELECT 3"), " + 4", nil, 200, "7\n", nil},
		"empty":            {"POST", url(), "", nil, 400, "Code: 62. DB::Exception: ...", nil},
		"format":           {"GET", url("query", "SELECT 1 AS x FORMAT JSONEachRow"), "", nil, 200, "{\"x\":1}\n", []string{"X-ClickHouse-Format", "JSONEachRow", "Content-Type", "application/x-ndjson; charset=UTF-8"}},
		"format setting":   {"GET", url("query", "SELECT 1 AS x FORMAT JSONCompact SETTINGS max_threads = 1"), "", nil, 200, "{\n\t\"meta\"...", []string{"X-ClickHouse-Format", "JSONCompact"}},
		"default format":   {"GET", url("query", "SELECT 1 AS x", "default_format", "CSVWithNames"), "", nil, 200, "\"x\"\n1\n", []string{"Content-Type", "text/csv; charset=UTF-8; header=present"}},
		"format header":    {"POST", url(), "SELECT 1 AS x", []string{"X-ClickHouse-Format", "TSVWithNames"}, 200, "x\n1\n", nil},
		"not a format":     {"POST", url(), "SELECT 1 AS format, 'FORMAT JSON' AS y -- FORMAT CSV", nil, 200, "1\tFORMAT JSON\n", nil},
		"database":         {"GET", url("query", "SELECT currentDatabase()", "database", "other"), "", nil, 200, "other\n", nil},
		"database header":  {"POST", url(), "SELECT currentDatabase()", []string{"X-ClickHouse-Database", "other"}, 200, "other\n", nil},
		"no database":      {"POST", url("database", "no`where"), "SELECT 1", nil, 404, "Code: 81. ...", []string{"X-ClickHouse-Exception-Code", "81"}},
		"setting":          {"POST", url("max_block_size", "77"), "SELECT getSetting('max_block_size')", nil, 200, "77\n", nil},
		"settings go away": {"POST", url(), "SELECT getSetting('max_block_size') = 77", nil, 200, "0\n", nil},
		"bad setting":      {"POST", url("max_block_size", "many"), "SELECT 1", nil, 400, "Code: ...", nil},
		"unknown setting":  {"POST", url("what_is_this", "1"), "SELECT 1", nil, 404, "Code: 115. ...", nil},
		"injected setting": {"POST", url("a = 1, max_threads", "1"), "SELECT 1", nil, 404, "Code: 115. ...", nil},
		"parameter":        {"GET", url("query", "SELECT {a:String}, {b:Array(UInt8)}", "param_a", "it's \\\\ b", "param_b", "[1,2]"), "", nil, 200, "it\\'s \\\\ b\t[1,2]\n", nil},
		"bad parameter":    {"GET", url("query", "SELECT {a:UInt8}", "param_a", "x"), "", nil, 400, "Code: 457. ...", nil},
		"query id":         {"POST", url("query_id", "mine-1"), "SELECT 1", nil, 200, "1\n", []string{"X-ClickHouse-Query-Id", "mine-1"}},
		"get is read-only": {"GET", url("query", "INSERT INTO other.t VALUES (1, 'x')"), "", nil, 500, "Code: 164. ...", nil},
		"read-only":        {"POST", url("readonly", "1", "param_a", "1", "max_threads", "1"), "DROP TABLE other.t", nil, 500, "Code: 164. ...", nil},
		"session":          {"POST", url("session_id", "s"), "SELECT 1", nil, 501, "Code: 48. ...", nil},
		"encoding":         {"POST", url(), "SELECT 1", []string{"Content-Encoding", "snappy"}, 501, "Code: 48. ...", nil},
		"bad gzip":         {"POST", url(), "SELECT 1", []string{"Content-Encoding", "gzip"}, 400, "Code: 117. ...", nil},
		"bad frames":       {"POST", url("decompress", "1"), "SELECT 1 and much more of this text", nil, 400, "Code: 117. ...", nil},
		"external table":   {"POST", url(), "SELECT 1", []string{"Content-Type", "multipart/form-data; boundary=x"}, 501, "Code: 48. ...", nil},
		"syntax":           {"POST", url(), "SELEC 1 FROM x WHERE FROM", nil, 400, "Code: 62. ...", []string{"X-ClickHouse-Exception-Code", "62"}},
		"table":            {"POST", url(), "SELECT * FROM nowhere", nil, 404, "Code: 60. ...", []string{"X-ClickHouse-Exception-Code", "60"}},
		"timeout":          {"POST", url("max_execution_time", "0.1"), "SELECT count() FROM numbers(100000000000) WHERE sipHash64(number) = 1", nil, 408, "Code: 159. ...", nil},
		"memory":           {"POST", url("max_memory_usage", "10000000"), "SELECT groupArray(number) FROM numbers(100000000)", nil, 500, "Code: 241. ...", nil},
		"show":             {"POST", url(), "SHOW TABLES FROM other", nil, 200, "t\n", nil},
		"describe":         {"POST", url(), "DESCRIBE TABLE other.t FORMAT TSVRaw", nil, 200, "a\tUInt64\t\t\t\t\t\ns\tString\t\t\t\t\t\n", nil},
		"explain":          {"POST", url(), "EXPLAIN SYNTAX SELECT 1", nil, 200, "SELECT 1\nFROM system.one\n", nil},
		"no rows":          {"POST", url("default_format", "JSONEachRow"), "SELECT 1 WHERE 0", nil, 200, "", nil},
		"no rows as JSON":  {"POST", url("default_format", "JSON"), "SELECT 1 AS x WHERE 0", nil, 200, "{\n\t\"meta\"...", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := send(t, tt.method, tt.url, strings.NewReader(tt.body), tt.head...)
			start, prefix := strings.CutSuffix(tt.want, "...")
			if r.status != tt.status || !prefix && r.body != tt.want || prefix && !strings.HasPrefix(r.body, start) {
				t.Errorf("%d %q, want %d %q", r.status, r.body, tt.status, tt.want)
			}
			for i := 0; i < len(tt.wantHead); i += 2 {
				if got := r.header.Get(tt.wantHead[i]); got != tt.wantHead[i+1] {
					t.Errorf("%s: %q, want %q", tt.wantHead[i], got, tt.wantHead[i+1])
				}
			}
		})
	}
}

// Large results in formats with and without a head come whole, compressed or not.
func TestLargeResults(t *testing.T) {
	t.Parallel()
	e, _ := start(t)
	const sql = "SELECT number, toString(number) AS s FROM numbers(300000)"
	for format, lines := range map[string]int{
		"TSV": 300_000, "CSV": 300_000, "JSONEachRow": 300_000, "CSVWithNames": 300_001, "TSVWithNamesAndTypes": 300_002, "JSONCompactEachRowWithNames": 300_001,
	} {
		r := post(t, e.DSN(), values("default_format", format), sql)
		if n := strings.Count(r.body, "\n"); r.status != 200 || n != lines || r.err != nil {
			t.Errorf("%s: %d, %d lines, want %d, %v", format, r.status, n, lines, r.err)
		}
	}
	plain := post(t, e.DSN(), values("default_format", "RowBinary"), sql)
	zipped := post(t, e.DSN(), values("default_format", "RowBinary", "enable_http_compression", "1"), sql, "Accept-Encoding", "deflate, gzip")
	if zipped.header.Get("Content-Encoding") != "gzip" || len(zipped.body) >= len(plain.body) {
		t.Fatalf("%d bytes of %q", len(zipped.body), zipped.header.Get("Content-Encoding"))
	}
	zr, err := gzip.NewReader(strings.NewReader(zipped.body))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(zr); err != nil || string(got) != plain.body {
		t.Errorf("gzip: %d bytes, %v, want %d", len(got), err, len(plain.body))
	}
	framed := post(t, e.DSN(), values("default_format", "RowBinary", "compress", "1"), sql)
	var got bytes.Buffer
	_, _ = got.ReadFrom(compress.NewReader(strings.NewReader(framed.body))) // ends with an error at the end of the frames
	if got.String() != plain.body || len(framed.body) >= len(plain.body) {
		t.Errorf("frames: %d bytes in %d, want %d", got.Len(), len(framed.body), len(plain.body))
	}
	if r := post(t, e.DSN(), values("default_format", "RowBinary", "enable_http_compression", "0"), "SELECT 'x'", "Accept-Encoding", "gzip"); r.header.Get("Content-Encoding") != "" {
		t.Error("compressed although the setting says no")
	}
}

// An exception after the first rows breaks the answer off, so that nobody takes it for whole.
func TestExceptionMidStream(t *testing.T) {
	t.Parallel()
	e, _ := start(t)
	r := post(t, e.DSN(), values("max_block_size", "1000"), "SELECT throwIf(number = 200000), number FROM numbers(300000)")
	tag := r.header.Get("X-ClickHouse-Exception-Tag")
	if r.status != 200 || r.err == nil || !strings.Contains(r.body, "\r\n__exception__\r\n"+tag+"\r\nCode: 395. DB::Exception") {
		t.Errorf("%d, %v, ends with %.300q", r.status, r.err, r.body[max(0, len(r.body)-300):])
	}
}

func TestInserts(t *testing.T) {
	t.Parallel()
	e, c := start(t)
	run(t, c, "CREATE TABLE t (a UInt64, s String DEFAULT 'none') ENGINE = MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 100")
	zip := func(s string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		w.Write([]byte(s)) //nolint:errcheck // in memory
		w.Close()          //nolint:errcheck // in memory
		return b.String()
	}
	// One block of one row, at revision 0 and at the driver's.
	native := "\x02\x01\x01a\x06UInt64\x2a\x00\x00\x00\x00\x00\x00\x00\x01s\x06String\x02hi"
	native2 := "\x01\x00\x02\xff\xff\xff\xff\x00\x02\x01\x01a\x06UInt64\x00\x2a\x00\x00\x00\x00\x00\x00\x00\x01s\x06String\x00\x02hi"
	for name, tt := range map[string]struct {
		args       url.Values
		body, head string
		want       string
	}{
		"values in the url":   {values("query", "INSERT INTO t VALUES (1, 'a'), (2, 'b')"), "", "", "1\ta\n2\tb\n"},
		"values in the body":  {values("query", "INSERT INTO t (a) VALUES"), "(3), (4)", "", "3\tnone\n4\tnone\n"},
		"all in the body":     {values(), "INSERT INTO t FORMAT CSV\n5,five\n6,\"s, x\"\n", "", "5\tfive\n6\ts, x\n"},
		"begun in the url":    {values("query", "INSERT INTO t FORMAT CSV 7,x"), "8,y\n", "", "7\tx\n8\ty\n"},
		"rows":                {values("query", "INSERT INTO t FORMAT JSONEachRow"), `{"a":9,"s":"\u00fc"}`, "", "9\t\u00fc\n"},
		"with settings":       {values("query", "INSERT INTO t (a, s) SETTINGS insert_deduplication_token = 'k' FORMAT TSV"), "1\tx\n", "", "1\tx\n"},
		"native":              {values("query", "INSERT INTO t (a, s) FORMAT Native"), native, "", "42\thi\n"},
		"native, revision":    {values("query", "INSERT INTO t (a, s) FORMAT Native", "client_protocol_version", "54460"), native2, "", "42\thi\n"},
		"several blocks":      {values("query", "INSERT INTO t (a, s) FORMAT Native"), native + native, "", "42\thi\n42\thi\n"},
		"native in the body":  {values(), "INSERT INTO t (a, s) FORMAT Native\n" + native, "", "42\thi\n"},
		"gzip":                {values("query", "INSERT INTO t FORMAT TSV"), zip("11\tz\n"), "gzip", "11\tz\n"},
		"select":              {values(), "INSERT INTO t SELECT number, 'n' FROM numbers(2)", "", "0\tn\n1\tn\n"},
		"quoted name":         {values("query", "INSERT INTO `t` (`a`, \"s\") /* FORMAT CSV */ FORMAT TSV"), "12\tq\n", "", "12\tq\n"},
		"data like a command": {values("query", "INSERT INTO t FORMAT TSV"), "13\tFORMAT CSV; DROP TABLE t\n", "", "13\tFORMAT CSV; DROP TABLE t\n"},
	} {
		run(t, c, "TRUNCATE TABLE t")
		head := []string{}
		if tt.head != "" {
			head = []string{"Content-Encoding", tt.head}
		}
		if r := post(t, e.DSN(), tt.args, tt.body, head...); r.status != 200 || r.body != "" {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
		if r := post(t, e.DSN(), values(), "SELECT a, s FROM t ORDER BY a"); r.body != tt.want {
			t.Errorf("%s: the table holds %q, want %q", name, r.body, tt.want)
		}
	}
	run(t, c, "TRUNCATE TABLE t")
	for name, tt := range map[string]struct {
		query, body string
		status      int
	}{
		"cut block":     {"INSERT INTO t (a, s) FORMAT Native", native[:len(native)-1], 500},
		"cut, revision": {"INSERT INTO t (a, s) FORMAT Native", native2[:len(native2)-1], 400},
		"not a block":   {"INSERT INTO t (a, s) FORMAT Native", "hello world, this is no block", 500},
		"no table":      {"INSERT INTO nowhere FORMAT TSV", "1\n", 404},
		"no column":     {"INSERT INTO t (zzz) FORMAT TSV", "1\n", 500},
		"bad row":       {"INSERT INTO t FORMAT TSV", "1\tx\nhello\tx\n", 400},
		"no format":     {"INSERT INTO t FORMAT Nonsense", "1\n", 404},
	} {
		if r := post(t, e.DSN(), values("query", tt.query), tt.body); r.status != tt.status {
			t.Errorf("%s: %d %s, want %d", name, r.status, r.body, tt.status)
		}
	}
	if n := number(t, c, "SELECT count() FROM t"); n != 0 {
		t.Errorf("%d rows of refused inserts", n)
	}
}

func TestRequestSize(t *testing.T) {
	t.Parallel()
	e, c := start(t, func(c *engine.Config) { c.MaxBody = 100_000 })
	run(t, c, "CREATE TABLE t (s String) ENGINE = MergeTree ORDER BY s")
	row := strings.Repeat("x", 999) + "\n"
	for rows, want := range map[int]int{99: 200, 101: 413} {
		if r := post(t, e.DSN(), values("query", "INSERT INTO t FORMAT TSV"), strings.Repeat(row, rows)); r.status != want {
			t.Errorf("%d bytes: %d %s", rows*1000, r.status, r.body)
		}
		if r := post(t, e.DSN(), values(), "SELECT 1 /*"+strings.Repeat(row, rows)+"*/"); r.status == 413 != (want == 413) {
			t.Errorf("a query of %d bytes: %d", rows*1000, r.status)
		}
	}
	var zipped bytes.Buffer // a small body that grows
	w := gzip.NewWriter(&zipped)
	io.WriteString(w, strings.Repeat(row, 5000)) //nolint:errcheck // in memory
	w.Close()                                    //nolint:errcheck // in memory
	if r := post(t, e.DSN(), values("query", "INSERT INTO t FORMAT TSV"), zipped.String(), "Content-Encoding", "gzip"); r.status != 413 {
		t.Errorf("a body that grows: %d %s", r.status, r.body)
	}
	if n := number(t, c, "SELECT count() FROM t"); n != 99 {
		t.Errorf("%d rows, want 99", n)
	}
}

// More queries than may run and wait are refused at once with the code that tells a client to come
// again.
func TestTooManyQueries(t *testing.T) {
	t.Parallel()
	e, c := start(t, func(c *engine.Config) { c.Running, c.Queue = 1, 1 })
	slow := func() net.Conn {
		return raw(t, e.DSN(), "SELECT count() FROM numbers(100000000000) WHERE sipHash64(number) = 1")
	}
	first, second := slow(), slow()
	eventually(t, "the third is refused", func() bool {
		r := post(t, e.DSN(), values(), "SELECT 1")
		if r.status == 200 {
			return false // one of the two has not come yet
		}
		if r.status != http.StatusServiceUnavailable || r.header.Get("X-ClickHouse-Exception-Code") != "202" {
			t.Fatalf("%d %s", r.status, r.body)
		}
		return true
	})
	first.Close()  //nolint:errcheck // that is the point
	second.Close() //nolint:errcheck // that is the point
	eventually(t, "queries run again", func() bool { return post(t, e.DSN(), values(), "SELECT 1").body == "1\n" })
	if n := number(t, c, "SELECT toUInt64(1)"); n != 1 {
		t.Error("the driver is refused")
	}
}

// raw sends a query on a connection that the test can break.
func raw(t *testing.T, dsn, sql string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(dsn, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() }) //nolint:errcheck // closed twice
	if _, err := io.WriteString(conn, "GET /?"+values("query", sql).Encode()+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return conn
}

// No page in a browser may ask: there is no password, and a query can read and write files.
func TestPagesMayNotAsk(t *testing.T) {
	t.Parallel()
	e, _ := start(t)
	for name, tt := range map[string]struct {
		host, header, value string
		status              int
	}{
		"curl":                    {"", "", "", 200},
		"localhost":               {"localhost:1234", "", "", 200},
		"typed by the user":       {"", "Sec-Fetch-Site", "none", 200},
		"a page":                  {"", "Origin", "http://shop.example", 403},
		"a page without name":     {"", "Origin", "null", 403},
		"an image of a page":      {"", "Sec-Fetch-Site", "cross-site", 403},
		"a name that points here": {"shop.example:80", "", "", 403},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.DSN(), strings.NewReader("SELECT 1"))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = tt.host
		if tt.header != "" {
			req.Header.Set(tt.header, tt.value)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close() //nolint:errcheck // read to its end
		if err != nil || res.StatusCode != tt.status || tt.status == 200 && string(body) != "1\n" {
			t.Errorf("%s: %d %q %v", name, res.StatusCode, body, err)
		}
	}
}
