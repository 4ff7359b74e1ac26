package schema

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// ErrSchema is wrapped by errors about tables that are not as they must be.
var ErrSchema = errors.New("the tables in ClickHouse are not those of this version")

// minWindow is the least number of inserts that a table must remember.
const minWindow = 1000

// Check returns nil when the database has every table, view and column with its type, and the
// deduplication window on all of them. Columns that were added are fine. An error that wraps
// ErrSchema says all that is wrong.
func Check(ctx context.Context, conn driver.Conn, database string) error {
	want, err := Tables()
	if err != nil {
		return err
	}
	have, err := present(ctx, conn, database)
	if err != nil {
		return err
	}
	var wrong []string
	for _, t := range want {
		wrong = append(wrong, differences(t, have[t.Name])...)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%w (run hookline analytics migrate): %s", ErrSchema, strings.Join(wrong, "; "))
	}
	return nil
}

// found is a table of the server.
type found struct {
	engine  string // with its settings
	columns map[string]string
}

var windowSetting = regexp.MustCompile(`\b(?:non_)?replicated_deduplication_window = (\d+)`)

// differences tells what of t is not there.
func differences(t Table, f *found) []string {
	switch {
	case f == nil:
		return []string{t.Name + " is missing"}
	case t.View:
		if !strings.HasPrefix(f.engine, "MaterializedView") {
			return []string{t.Name + " is no materialized view"}
		}
		return nil
	}
	var out []string
	for _, c := range t.Columns {
		switch typ, ok := f.columns[c.Name]; {
		case !ok:
			out = append(out, fmt.Sprintf("column %s.%s is missing", t.Name, c.Name))
		case !sameType(typ, c.Type):
			out = append(out, fmt.Sprintf("column %s.%s is %s, not %s", t.Name, c.Name, typ, c.Type))
		}
	}
	m := windowSetting.FindStringSubmatch(f.engine)
	replicated := strings.HasPrefix(f.engine, "Replicated") || strings.HasPrefix(f.engine, "Shared")
	if m == nil && replicated {
		return out // its default is large
	}
	n := 0
	if m != nil {
		n, _ = strconv.Atoi(m[1]) // digits; more than fit are as good as many
	}
	if n < minWindow {
		out = append(out, fmt.Sprintf("%s remembers %d inserts, want a deduplication window of at least %d", t.Name, n, minWindow))
	}
	return out
}

// present reads the tables of the database.
func present(ctx context.Context, conn driver.Conn, database string) (map[string]*found, error) {
	out := make(map[string]*found)
	rows, err := conn.Query(ctx, "SELECT name, if(engine_full = '', engine, engine_full) FROM system.tables WHERE database = ?", database)
	if err != nil {
		return nil, fmt.Errorf("list the tables of %s: %w", database, err)
	}
	defer rows.Close() //nolint:errcheck // Err tells
	for rows.Next() {
		var name string
		f := &found{columns: make(map[string]string)}
		if err := rows.Scan(&name, &f.engine); err != nil {
			return nil, fmt.Errorf("read a table of %s: %w", database, err)
		}
		out[name] = f
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list the tables of %s: %w", database, err)
	}
	columns, err := conn.Query(ctx, "SELECT table, name, type FROM system.columns WHERE database = ?", database)
	if err != nil {
		return nil, fmt.Errorf("list the columns of %s: %w", database, err)
	}
	defer columns.Close() //nolint:errcheck // Err tells
	for columns.Next() {
		var table, name, typ string
		if err := columns.Scan(&table, &name, &typ); err != nil {
			return nil, fmt.Errorf("read a column of %s: %w", database, err)
		}
		if f := out[table]; f != nil {
			f.columns[name] = typ
		}
	}
	if err := columns.Err(); err != nil {
		return nil, fmt.Errorf("list the columns of %s: %w", database, err)
	}
	return out, nil
}
