package schema_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/hookline/hookline/analytics/clickhouse"
	"github.com/hookline/hookline/analytics/schema"
	"github.com/hookline/hookline/deploy/local/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

func open(t *testing.T, e *enginetest.Engine) driver.Conn {
	t.Helper()
	conn, err := clickhouse.Open(e.DSN(), 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

func exec(t *testing.T, conn driver.Conn, sql string) {
	t.Helper()
	if err := conn.Exec(context.Background(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Plan changes nothing, several processes at once apply once, a second time does nothing, and the
// names stay inside the database that was asked for.
func TestMigrate(t *testing.T) {
	t.Parallel()
	ctx, conn := context.Background(), open(t, enginetest.Start(t))
	for range 2 {
		plan, err := schema.Plan(ctx, conn, "first")
		if err != nil || len(plan) == 0 || plan[0].Version != 1 {
			t.Fatalf("plan %v, error %v", plan, err)
		}
	}
	if err := schema.Check(ctx, conn, "first"); !errors.Is(err, schema.ErrSchema) || !strings.Contains(err.Error(), "attempts_1h_mv is missing") {
		t.Fatalf("check of nothing: %v", err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := schema.Migrate(ctx, conn, "first"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := schema.Check(ctx, conn, "first"); err != nil {
		t.Fatal(err)
	}
	if done, err := schema.Migrate(ctx, conn, "first"); err != nil || len(done) != 0 {
		t.Fatalf("a second time: %v, %v", done, err)
	}
	var other uint64
	if err := conn.QueryRow(ctx, "SELECT count() FROM system.tables WHERE database = 'hookline'").Scan(&other); err != nil || other != 0 {
		t.Fatalf("%d tables in another database, error %v", other, err)
	}
	if err := conn.QueryRow(ctx, "SELECT count() FROM system.tables WHERE database = 'first' AND engine != 'MaterializedView'").Scan(&other); err != nil || other != 8 {
		t.Fatalf("%d tables, want 7 and the versions, error %v", other, err)
	}

	exec(t, conn, "ALTER TABLE first.schema_migrations UPDATE checksum = 'x' WHERE 1 SETTINGS mutations_sync = 1")
	if _, err := schema.Migrate(ctx, conn, "first"); err == nil || !strings.Contains(err.Error(), "0001_tables") {
		t.Fatalf("an edited migration: %v", err)
	}
	if _, err := schema.Migrate(ctx, conn, "a`b"); err == nil {
		t.Fatal("a database name with a quote was taken")
	}
}

// A migration that was stopped half-way is completed.
func TestMigrateAfterCrash(t *testing.T) {
	t.Parallel()
	ctx, conn := context.Background(), open(t, enginetest.Start(t))
	plan, err := schema.Plan(ctx, conn, "half")
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range plan[0].Statements[:5] {
		exec(t, conn, sql)
	}
	if _, err := schema.Migrate(ctx, conn, "half"); err != nil {
		t.Fatal(err)
	}
	if err := schema.Check(ctx, conn, "half"); err != nil {
		t.Fatal(err)
	}
	f := func(change, undo, want string) {
		t.Helper()
		exec(t, conn, change)
		err := schema.Check(ctx, conn, "half")
		if want == "" && err != nil || want != "" && (!errors.Is(err, schema.ErrSchema) || !strings.Contains(err.Error(), want)) {
			t.Errorf("after %s: %v, want %q", change, err, want)
		}
		exec(t, conn, undo)
	}
	f("ALTER TABLE half.attempts ADD COLUMN extra String", "ALTER TABLE half.attempts DROP COLUMN extra", "")
	f("ALTER TABLE half.attempts DROP COLUMN parks", "ALTER TABLE half.attempts ADD COLUMN parks UInt16", "column attempts.parks is missing")
	f("ALTER TABLE half.events MODIFY COLUMN body_bytes UInt64", "ALTER TABLE half.events MODIFY COLUMN body_bytes UInt32", "column events.body_bytes is UInt64, not UInt32")
	f("ALTER TABLE half.funnel_1h MODIFY SETTING non_replicated_deduplication_window = 10",
		"ALTER TABLE half.funnel_1h MODIFY SETTING non_replicated_deduplication_window = 10000", "funnel_1h remembers 10 inserts")
	f("ALTER TABLE half.funnel_1h RESET SETTING non_replicated_deduplication_window",
		"ALTER TABLE half.funnel_1h MODIFY SETTING non_replicated_deduplication_window = 10000", "funnel_1h remembers 0 inserts")
	f("DROP TABLE half.failures_1h_mv", "SELECT 1", "failures_1h_mv is missing")
}
