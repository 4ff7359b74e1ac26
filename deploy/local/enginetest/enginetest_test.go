package enginetest_test

import (
	"context"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/hookline/hookline/deploy/local/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

func open(t *testing.T, e *enginetest.Engine) driver.Conn {
	t.Helper()
	opts, err := clickhouse.ParseDSN(e.DSN())
	if err != nil {
		t.Fatal(err)
	}
	c, err := clickhouse.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() }) //nolint:errcheck // only reads
	return c
}

func count(t *testing.T, c driver.Conn) (n uint64) {
	t.Helper()
	if err := c.QueryRow(context.Background(), "SELECT count() FROM t").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func insert(t *testing.T, c driver.Conn, token string) error {
	t.Helper()
	ctx := clickhouse.Context(context.Background(), clickhouse.WithSettings(clickhouse.Settings{"insert_deduplication_token": token}))
	b, err := c.PrepareBatch(ctx, "INSERT INTO t (a, s)")
	if err != nil {
		return err
	}
	defer b.Close() //nolint:errcheck // sent, or an error is returned
	if err := b.Append(uint64(1), "one"); err != nil {
		return err
	}
	return b.Send()
}

// The whole life of an engine through the driver: data stays over a clean restart and over a kill,
// a killed one refuses, a token counts once.
func TestLife(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t)
	c := open(t, e)
	if err := c.Exec(context.Background(), "CREATE TABLE t (a UInt64, s String) ENGINE = MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 100"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := insert(t, c, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, c); n != 1 {
		t.Fatalf("token twice: %d rows", n)
	}
	e.Restart()
	if err := insert(t, c, "y"); err != nil {
		t.Fatal(err)
	}
	e.Kill()
	if err := insert(t, c, "z"); err == nil {
		t.Fatal("a killed engine takes inserts")
	}
	e.Restart()
	if err := insert(t, c, "y"); err != nil {
		t.Fatal(err)
	}
	if n := count(t, c); n != 2 {
		t.Fatalf("after a kill: %d rows, want 2", n)
	}
}
