package clickhouse

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// The oldest server that the driver supports and our promises were tested for.
const minMajor, minMinor = 25, 8

// Server is what Inspect learned.
type Server struct {
	Version  string
	Settings map[string]bool // those of ours that it knows
}

// settings are all that an insert may carry, apart from its token.
func settings() map[string]any {
	return map[string]any{
		"async_insert":       0,
		"insert_deduplicate": 1,
		"deduplicate_insert": "enable", // newer servers; overrides the one before
		"deduplicate_blocks_in_dependent_materialized_views": 1,
		"max_execution_time":               60,
		"max_insert_block_size":            1048449,
		"max_partitions_per_insert_block":  100,
		"input_format_parallel_parsing":    0,
		"insert_null_as_default":           0,
		"use_async_block_ids_cache":        0,
		"materialized_views_ignore_errors": 0, // a rollup that fails must fail the insert
		"parallel_view_processing":         0,
		"throw_if_deduplication_in_dependent_materialized_views_enabled_with_async_insert": 1,
	}
}

// Inspect asks a server who it is. An error wraps ErrUnsupported when it is too old.
func Inspect(ctx context.Context, conn driver.Conn) (Server, error) {
	var s Server
	if err := conn.QueryRow(ctx, "SELECT version()").Scan(&s.Version); err != nil {
		return s, fmt.Errorf("ask ClickHouse for its version: %w", err)
	}
	if !supported(s.Version) {
		return s, fmt.Errorf("%w: version %s, want %d.%d or newer", ErrUnsupported, s.Version, minMajor, minMinor)
	}
	names := []string{"insert_deduplication_token", "log_comment"}
	for name := range settings() {
		names = append(names, name)
	}
	rows, err := conn.Query(ctx, "SELECT name FROM system.settings WHERE name IN ("+quoteAll(names)+")")
	if err != nil {
		return s, fmt.Errorf("ask ClickHouse for its settings: %w", err)
	}
	defer rows.Close() //nolint:errcheck // Err tells
	s.Settings = make(map[string]bool)
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return s, fmt.Errorf("read a setting of ClickHouse: %w", err)
		}
		s.Settings[name] = true
	}
	if err := rows.Err(); err != nil {
		return s, fmt.Errorf("read the settings of ClickHouse: %w", err)
	}
	if !s.Settings["insert_deduplication_token"] {
		return s, fmt.Errorf("%w: it knows no insert_deduplication_token", ErrUnsupported)
	}
	return s, nil
}

func supported(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err1 := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	return err1 == nil && err2 == nil && (a > minMajor || a == minMajor && b >= minMinor)
}

// quoteAll writes a list of string literals.
func quoteAll(words []string) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(w) + "'")
	}
	return b.String()
}
