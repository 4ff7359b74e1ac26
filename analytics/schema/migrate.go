package schema

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

var errChanged = errors.New("an applied migration was changed afterwards")

// Plan returns what Migrate would do, oldest first. It changes nothing.
func Plan(ctx context.Context, conn driver.Conn, database string) ([]Step, error) {
	f, err := formOf(ctx, conn, database)
	if err != nil {
		return nil, err
	}
	all, err := steps(f)
	if err != nil {
		return nil, err
	}
	applied, err := applied(ctx, conn, database)
	if err != nil {
		return nil, err
	}
	var out []Step
	for _, s := range all {
		sum, ok := applied[uint32(s.Version)]
		if ok && sum != s.checksum() {
			return nil, fmt.Errorf("%w: %04d_%s is not what was applied to database %s", errChanged, s.Version, s.Name, database)
		}
		if !ok {
			out = append(out, s)
		}
	}
	return out, nil
}

// Migrate applies what is missing and returns it. It may run in several processes at once, and it
// may be stopped at any point and run again.
func Migrate(ctx context.Context, conn driver.Conn, database string) ([]Step, error) {
	todo, err := Plan(ctx, conn, database)
	if err != nil {
		return nil, err
	}
	for i, s := range todo {
		for _, sql := range s.Statements {
			if err := conn.Exec(ctx, sql); err != nil {
				return todo[:i], fmt.Errorf("migration %04d_%s, statement %q: %w", s.Version, s.Name, head(sql), err)
			}
		}
		if err := remember(ctx, conn, database, s); err != nil {
			return todo[:i], err
		}
	}
	return todo, nil
}

// remember writes down that a version was applied; twice does no harm.
func remember(ctx context.Context, conn driver.Conn, database string, s Step) error {
	f, err := formOf(ctx, conn, database)
	if err != nil {
		return err
	}
	engine := f.word("ReplacingMergeTree")
	err = conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS `+database+`.schema_migrations
(
    version    UInt32,
    name       String,
    checksum   String,
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = `+engine+`
ORDER BY version`)
	if err == nil {
		err = conn.Exec(ctx, "INSERT INTO "+database+".schema_migrations (version, name, checksum) SETTINGS async_insert = 0 VALUES (?, ?, ?)",
			uint32(s.Version), s.Name, s.checksum())
	}
	if err != nil {
		return fmt.Errorf("note migration %04d_%s as applied: %w", s.Version, s.Name, err)
	}
	return nil
}

// applied returns the checksums of the versions that were applied.
func applied(ctx context.Context, conn driver.Conn, database string) (map[uint32]string, error) {
	var n uint64
	if err := conn.QueryRow(ctx, "SELECT count() FROM system.tables WHERE database = ? AND name = 'schema_migrations'", database).Scan(&n); err != nil {
		return nil, fmt.Errorf("look for %s.schema_migrations: %w", database, err)
	}
	out := make(map[uint32]string)
	if n == 0 {
		return out, nil
	}
	rows, err := conn.Query(ctx, "SELECT version, any(checksum) FROM "+database+".schema_migrations GROUP BY version")
	if err != nil {
		return nil, fmt.Errorf("read %s.schema_migrations: %w", database, err)
	}
	defer rows.Close() //nolint:errcheck // Err tells
	for rows.Next() {
		var version uint32
		var sum string
		if err := rows.Scan(&version, &sum); err != nil {
			return nil, fmt.Errorf("read a row of %s.schema_migrations: %w", database, err)
		}
		out[version] = sum
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read %s.schema_migrations: %w", database, err)
	}
	return out, nil
}

// formOf looks at the database, which need not be there.
func formOf(ctx context.Context, conn driver.Conn, database string) (form, error) {
	f := form{database: database}
	rows, err := conn.Query(ctx, "SELECT engine FROM system.databases WHERE name = ?", database)
	if err != nil {
		return f, fmt.Errorf("look up database %s: %w", database, err)
	}
	defer rows.Close() //nolint:errcheck // Err tells
	for rows.Next() {
		var engine string
		if err := rows.Scan(&engine); err != nil {
			return f, fmt.Errorf("read the engine of database %s: %w", database, err)
		}
		f.replicated = engine == "Replicated"
	}
	if err := rows.Err(); err != nil {
		return f, fmt.Errorf("look up database %s: %w", database, err)
	}
	return f, nil
}

// checksum does not depend on the database: a file is the same everywhere.
func (s Step) checksum() string {
	text, err := files.ReadFile(fmt.Sprintf("migrations/%04d_%s.sql", s.Version, s.Name))
	if err != nil {
		return "" // a Step is made from its file
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// head is the first line of a statement.
func head(sql string) string {
	line, _, _ := strings.Cut(sql, "\n")
	return line
}
