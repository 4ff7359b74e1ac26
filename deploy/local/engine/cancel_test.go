package engine_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// running counts the queries whose text has this mark, but for the one that asks.
func running(t testing.TB, dsn, mark string) string {
	t.Helper()
	return strings.TrimSpace(post(t, dsn, values(), "SELECT count() FROM system.processes WHERE position(query, '"+mark+"') > 0 AND position(query, 'system.processes') = 0").body)
}

// A query whose client goes is killed, whether or not it has sent anything yet.
func TestCancelQuery(t *testing.T) {
	t.Parallel()
	e, c := start(t)
	for name, sql := range map[string]string{
		"nothing sent":  "SELECT count() AS mark_nothing FROM numbers(100000000000) WHERE sipHash64(number) = 1",
		"in the middle": "SELECT number AS mark_middle FROM numbers(100000000000) FORMAT TSV",
		"not streamed":  "SELECT sum(sipHash64(number)) AS mark_not FROM numbers(100000000000) FORMAT JSON",
		"insert":        "INSERT INTO FUNCTION null('a UInt64') SELECT sipHash64(number) AS mark_insert FROM numbers(100000000000)",
	} {
		mark := "mark_" + strings.Fields(strings.Map(func(r rune) rune {
			if r == '_' || r >= 'a' && r <= 'z' {
				return r
			}
			return ' '
		}, sql[strings.Index(sql, "mark_"):]))[0][len("mark_"):]
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.Exec(ctx, sql) }() //nolint:errcheck // the driver does not tell for all of them
		eventually(t, name+" runs", func() bool { return running(t, e.DSN(), mark) == "1" })
		cancel()
		<-done
		eventually(t, name+" has ended", func() bool { return running(t, e.DSN(), mark) == "0" })
	}
}

// An insert whose client goes before the end of its data writes nothing, whatever has arrived of
// its block.
func TestCancelMidInsert(t *testing.T) {
	t.Parallel()
	e, c := start(t)
	schema(t, c)
	run(t, c, "CREATE TABLE copy AS hookline.attempts ENGINE = Memory")
	if _, err := fill(t, c, "copy", "", 0, 20_000); err != nil {
		t.Fatal(err)
	}
	block := post(t, e.DSN(), values("default_format", "Native", "max_block_size", "100000", "preferred_block_size_bytes", "0"), "SELECT * FROM copy").body
	if len(block) < 1<<20 {
		t.Fatalf("a block of %d bytes is too small for this test", len(block))
	}
	const insert = "INSERT INTO hookline.attempts SETTINGS insert_deduplication_token = 'cut' FORMAT Native"
	for _, part := range []int{0, 1, 100, len(block) / 2, len(block) - 1} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(e.DSN(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		head := "POST /?" + values("query", insert).Encode() + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + strconv.Itoa(len(block)) + "\r\n\r\n"
		if _, err := io.WriteString(conn, head+block[:part]); err != nil {
			t.Fatal(err)
		}
		if part > 1<<20 {
			eventually(t, "the insert runs", func() bool { return running(t, e.DSN(), "INSERT INTO hookline.attempts") == "1" })
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the insert has ended", func() bool { return running(t, e.DSN(), "INSERT INTO hookline.attempts") == "0" })
		wantCounts(t, c, 0)
	}
	// The same token then writes the whole block: the cut ones have not used it up.
	r := post(t, e.DSN(), values("query", insert), block)
	if r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	wantCounts(t, c, 20_000)
}

// A client that goes after it has sent a whole block leaves it written whole: the table and every
// rollup agree, and the same token adds nothing.
func TestCancelAfterBlock(t *testing.T) {
	t.Parallel()
	e, c := start(t)
	schema(t, c)
	run(t, c, "CREATE TABLE copy AS hookline.attempts ENGINE = Memory")
	const rows = 5_000
	if _, err := fill(t, c, "copy", "", 0, rows); err != nil {
		t.Fatal(err)
	}
	block := post(t, e.DSN(), values("default_format", "Native"), "SELECT * FROM copy").body
	target := e.DSN() + "/?" + values("query", "INSERT INTO hookline.attempts SETTINGS insert_deduplication_token = 'k' FORMAT Native").Encode()
	for _, pause := range []int{0, 2, 5, 10, 20, 40, 80} {
		run(t, c, "TRUNCATE TABLE hookline.attempts")
		for table := range rollups {
			run(t, c, "TRUNCATE TABLE hookline."+table)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(pause)*time.Millisecond)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader([]byte(block)))
		if err != nil {
			t.Fatal(err)
		}
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close() //nolint:errcheck // it came in time
		}
		cancel()
		eventually(t, "the insert has ended", func() bool { return running(t, e.DSN(), "INSERT INTO hookline.attempts") == "0" })
		if n := number(t, c, "SELECT count() FROM hookline.attempts"); n != 0 {
			wantCounts(t, c, rows)
		} else {
			wantCounts(t, c, 0)
		}
		if r := post(t, e.DSN(), values("query", "INSERT INTO hookline.attempts SETTINGS insert_deduplication_token = 'k' FORMAT Native"), block); r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		wantCounts(t, c, rows)
	}
}
