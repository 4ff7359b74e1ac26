package engine_test

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/hookline/hookline/deploy/local/engine"
)

// day is when the rows of the tests happened: not so long ago that the tables drop them.
var day = time.Now().UTC().Truncate(24 * time.Hour)

// mix makes numbers that look random from two numbers.
func mix(a, b int) uint64 {
	x := (uint64(a)+1)*0x9e3779b97f4a7c15 ^ (uint64(b)+1)*0xbf58476d1ce4e5b9
	x = (x ^ x>>31) * 0x94d049bb133111eb
	return x ^ x>>29
}

// sample makes a value for row i of a column from its type alone, so that a new column of the
// schema is covered as it comes.
func sample(t testing.TB, name, typ string, i int) any {
	t.Helper()
	r := mix(i, len(name))
	switch {
	case name == "src_offset":
		return uint64(i)
	case name == "attempted_at" || name == "accepted_at" || name == "dead_at":
		return day.Add(time.Duration(i) * time.Millisecond)
	case strings.HasPrefix(typ, "DateTime64"), strings.HasPrefix(typ, "DateTime"):
		return day.Add(time.Duration(r%1e6) * time.Second)
	case strings.HasPrefix(typ, "Enum8"):
		names := strings.Split(typ, "'")
		return names[1+2*(r%uint64(len(names)/2))]
	case strings.Contains(typ, "String"):
		return name + strconv.Itoa(int(r%50)) + "\x00'\\\n\u00fc"
	case typ == "Bool":
		return r%2 == 1
	case typ == "UInt8":
		return uint8(r)
	case typ == "UInt16":
		return uint16(r)
	case typ == "UInt32":
		return uint32(r)
	case typ == "UInt64":
		return r >> 1
	case typ == "Int32":
		return int32(r)
	}
	t.Fatalf("no sample for a column of type %s", typ)
	return nil
}

// fill inserts rows first..first+n-1 as one block.
func fill(t testing.TB, c driver.Conn, table, token string, first, n int) (rows [][]any, err error) {
	t.Helper()
	ctx := clickhouse.Context(context.WithoutCancel(t.Context()), clickhouse.WithSettings(clickhouse.Settings{"insert_deduplication_token": token}))
	b, err := c.PrepareBatch(ctx, "INSERT INTO "+table)
	if err != nil {
		return nil, err
	}
	defer b.Close() //nolint:errcheck // sent, or an error is returned
	cols := b.Columns()
	for i := range n {
		row := make([]any, len(cols))
		for j, col := range cols {
			row[j] = sample(t, col.Name(), string(col.Type()), first+i)
		}
		if err := b.Append(row...); err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, b.Send()
}

// Every column of every table that the sink writes comes back as it was sent, with every
// compression that the driver knows.
func TestEveryColumnType(t *testing.T) {
	t.Parallel()
	e, c := start(t)
	schema(t, c)
	for _, m := range []clickhouse.CompressionMethod{
		clickhouse.CompressionNone, clickhouse.CompressionLZ4, clickhouse.CompressionZSTD, clickhouse.CompressionGZIP,
		clickhouse.CompressionDeflate, clickhouse.CompressionBrotli,
	} {
		c := connect(t, e.DSN(), func(o *clickhouse.Options) {
			o.Compression = &clickhouse.Compression{Method: m, Level: 1}
			o.Settings = clickhouse.Settings{"enable_http_compression": 1}
		})
		for _, table := range []string{"hookline.events", "hookline.attempts", "hookline.dead_letters"} {
			run(t, c, "TRUNCATE TABLE "+table)
			sent, err := fill(t, c, table, fmt.Sprint(table, m), 0, 300)
			if err != nil {
				t.Fatalf("%s, %s: %v", table, m, err)
			}
			got := read(t, c, "SELECT * FROM "+table+" ORDER BY src_offset")
			if len(got) != len(sent) {
				t.Fatalf("%s, %s: %d rows, want %d", table, m, len(got), len(sent))
			}
			for i := range sent {
				for j := range sent[i] {
					if !equal(sent[i][j], got[i][j]) {
						t.Fatalf("%s, %s, row %d, column %d: sent %#v, got %#v", table, m, i, j, sent[i][j], got[i][j])
					}
				}
			}
		}
	}
}

func equal(a, b any) bool {
	if x, ok := a.(time.Time); ok {
		y, ok := b.(time.Time)
		return ok && x.Equal(y)
	}
	return reflect.DeepEqual(a, b)
}

func read(t testing.TB, c driver.Conn, sql string) (out [][]any) {
	t.Helper()
	rows, err := c.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close() //nolint:errcheck // Err tells
	types := rows.ColumnTypes()
	for rows.Next() {
		row := make([]any, len(types))
		for i, typ := range types {
			row[i] = reflect.New(typ.ScanType()).Interface()
		}
		if err := rows.Scan(row...); err != nil {
			t.Fatal(err)
		}
		for i := range row {
			row[i] = reflect.ValueOf(row[i]).Elem().Interface()
		}
		out = append(out, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// rollups are the rows of attempts that each target has counted.
var rollups = map[string]string{
	"attempts_1m": "SELECT sum(attempts + parked) + (SELECT countIf(attempt = 0 AND outcome != 'parked') FROM hookline.attempts) FROM hookline.attempts_1m",
	"attempts_1h": "SELECT sum(attempts + parked) + (SELECT countIf(attempt = 0 AND outcome != 'parked') FROM hookline.attempts) FROM hookline.attempts_1h",
	"failures_1h": "SELECT sum(n) + (SELECT countIf(outcome = 'delivered') FROM hookline.attempts) FROM hookline.failures_1h",
	"funnel_1h":   "SELECT sum(n) + (SELECT countIf(outcome IN ('parked', 'unrouted')) FROM hookline.attempts) FROM hookline.funnel_1h",
}

func wantCounts(t *testing.T, c driver.Conn, want uint64) {
	t.Helper()
	if n := number(t, c, "SELECT count() FROM hookline.attempts"); n != want {
		t.Errorf("attempts: %d rows, want %d", n, want)
	}
	for table, sql := range rollups {
		if n := number(t, c, sql); n != want {
			t.Errorf("%s counts %d rows, want %d", table, n, want)
		}
	}
}

// Blocks of no row, one row and 200,000 rows are each written as one part, and a token counts once
// in the table and in every rollup.
func TestBlocksAndTokens(t *testing.T) {
	t.Parallel()
	_, c := start(t)
	schema(t, c)
	run(t, c, "SYSTEM STOP MERGES")
	total := 0
	for i, n := range []int{0, 1, 200_000} {
		for range 2 {
			if _, err := fill(t, c, "hookline.attempts", fmt.Sprint("token ", i), total, n); err != nil {
				t.Fatalf("%d rows: %v", n, err)
			}
		}
		total += n
		wantCounts(t, c, uint64(total))
	}
	if n := number(t, c, "SELECT count() FROM system.parts WHERE database = 'hookline' AND table = 'attempts' AND active"); n != 2 {
		t.Errorf("two blocks with rows made %d parts", n)
	}
	if n := number(t, c, "SELECT uniqExact(src_offset) FROM hookline.attempts"); n != uint64(total) {
		t.Errorf("%d different rows, want %d", n, total)
	}
	var lat []float32
	if err := c.QueryRow(t.Context(), "SELECT quantilesTDigestIfMerge(0.5, 0.9, 0.99, 0.999)(lat) FROM hookline.attempts_1h").Scan(&lat); err != nil || len(lat) != 4 || lat[3] == 0 {
		t.Errorf("quantiles %v, %v", lat, err)
	}
}

func TestExceptionCodes(t *testing.T) {
	t.Parallel()
	_, c := start(t)
	run(t, c, "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
	for sql, want := range map[string]int32{
		"SELECT * FROM nowhere": 60, "SELEC 1 FROM t FRO": 62, "SELECT nothing FROM t": 47, "SELECT 1 FROM nobase.t": 81,
		"SELECT groupArray(number) FROM numbers(100000000) SETTINGS max_memory_usage = 10000000":                  241,
		"SELECT count() FROM numbers(100000000000) WHERE sipHash64(number) = 1 SETTINGS max_execution_time = 0.2": 159,
		"SELECT throwIf(number = 90000) FROM numbers(100000) SETTINGS max_block_size = 1000":                      395,
		"SELECT 1 SETTINGS no_such_setting = 1":                                                                   115,
		"CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a":                                                 57,
		"INSERT INTO t SELECT throwIf(number = 9) FROM numbers(10)":                                               395,
	} {
		err := c.Exec(t.Context(), sql)
		if rows, qerr := c.Query(t.Context(), sql); err == nil && qerr != nil {
			err = qerr
		} else if qerr == nil {
			for rows.Next() {
			}
			err = rows.Err()
			rows.Close() //nolint:errcheck // Err told
		}
		if code(err) != want {
			t.Errorf("%s: code %d (%v), want %d", sql, code(err), err, want)
		}
	}
	ctx := clickhouse.Context(t.Context(), clickhouse.WithSettings(clickhouse.Settings{"nonsense": 1}))
	if err := c.Exec(ctx, "SELECT 1"); code(err) != 115 {
		t.Errorf("an unknown setting: %v, want 115", err)
	}
}

func TestParameters(t *testing.T) {
	t.Parallel()
	_, c := start(t)
	ctx := clickhouse.Context(t.Context(), clickhouse.WithParameters(clickhouse.Parameters{"n": "42", "s": "it's \\\\ a \\ttab"}))
	var n uint8
	var s string
	if err := c.QueryRow(ctx, "SELECT {n:UInt8}, {s:String}").Scan(&n, &s); err != nil || n != 42 || s != "it's \\ a \ttab" {
		t.Errorf("server side: %d, %q, %v", n, s, err)
	}
	if err := c.QueryRow(t.Context(), "SELECT {n:UInt8}, {s:String}", clickhouse.Named("n", 7), clickhouse.Named("s", "o'\\\n\tx")).Scan(&n, &s); err != nil || n != 7 || s != "o'\\\n\tx" {
		t.Errorf("named: %d, %q, %v", n, s, err)
	}
	if err := c.QueryRow(t.Context(), "SELECT toUInt8(?), ?", 9, "o'\\\n").Scan(&n, &s); err != nil || n != 9 || s != "o'\\\n" {
		t.Errorf("positional: %d, %q, %v", n, s, err)
	}
}

// Eight clients read and write at once; every block is there once.
func TestParallelClients(t *testing.T) {
	t.Parallel()
	e, c := start(t)
	schema(t, c)
	const clients, blocks, rows = 8, 2, 500
	var wg sync.WaitGroup
	for k := range clients {
		wg.Go(func() {
			c := connect(t, e.DSN())
			for i := range blocks {
				first := (k*blocks + i) * rows
				for range 2 {
					if _, err := fill(t, c, "hookline.attempts", fmt.Sprint("block ", first), first, rows); err != nil {
						t.Errorf("client %d: %v", k, err)
					}
				}
				if n := number(t, c, "SELECT count() FROM hookline.attempts WHERE src_offset >= ? AND src_offset < ?", first, first+rows); n != rows {
					t.Errorf("client %d sees %d of its %d rows", k, n, rows)
				}
			}
		})
	}
	wg.Wait()
	wantCounts(t, c, clients*blocks*rows)
}

// When the engine is killed in the middle of an insert, the same insert with the same token makes
// everything exact, whatever the kill left behind.
func TestKillMidInsert(t *testing.T) {
	t.Parallel()
	e, c := start(t)
	schema(t, c)
	const rows = 10_000
	total := 0
	for round := range 3 {
		token := fmt.Sprint("round ", round)
		sent := make(chan error, 1)
		go func() { _, err := fill(t, c, "hookline.attempts", token, total, rows); sent <- err }()
		// The kill comes while the block is on its way, parsed, or being written to the views.
		after := time.NewTimer(time.Duration(60+60*round) * time.Millisecond)
		select {
		case <-after.C:
		case err := <-sent:
			sent <- err
		}
		e.Kill()
		<-sent //nolint:errcheck // it may have come through before the kill
		e.Restart()
		eventually(t, "insert after the restart", func() bool {
			_, err := fill(t, c, "hookline.attempts", token, total, rows)
			return err == nil
		})
		total += rows
		wantCounts(t, c, uint64(total))
	}
}

func TestPassword(t *testing.T) {
	t.Parallel()
	e, _ := start(t, func(c *engine.Config) { c.Password = "se cret" })
	if r := send(t, "GET", e.DSN()+"/ping", nil); r.status != 200 {
		t.Errorf("ping: %d", r.status)
	}
	if r := post(t, e.DSN(), values("password", "other"), "SELECT 1"); r.status != 403 || r.header.Get("X-ClickHouse-Exception-Code") != "516" {
		t.Errorf("a wrong password: %d %s", r.status, r.body)
	}
	if r := post(t, e.DSN(), values(), "SELECT 1", "X-ClickHouse-User", "default", "X-ClickHouse-Key", "se cret"); r.body != "1\n" {
		t.Errorf("the right password: %d %s", r.status, r.body)
	}
	c := connect(t, e.DSN(), func(o *clickhouse.Options) { o.Auth.Username, o.Auth.Password = "default", "se cret" })
	if n := number(t, c, "SELECT toUInt64(1)"); n != 1 {
		t.Error("the driver is refused")
	}
}
