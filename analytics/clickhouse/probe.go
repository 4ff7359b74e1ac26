package clickhouse

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// probeBlock is a tiny block.
type probeBlock struct{ table string }

func (p probeBlock) Table() string { return p.table }
func (p probeBlock) Rows() int     { return 2 }
func (p probeBlock) Columns() []Column {
	return []Column{{Name: "k", Type: "LowCardinality(String)", Values: []string{"a", "b"}}, {Name: "n", Type: "UInt64", Values: []uint64{1, 2}}}
}

// Probe inserts a tiny block twice under one token into a table of its own with two chained rollups
// and compares what they count. ErrCountsTwice means that the server, as it is set up, cannot keep
// the promise of one row per record. The tables are made like the table like, replicated or not,
// and dropped again.
func Probe(ctx context.Context, conn driver.Conn, database, like string, server Server) (err error) {
	var engine string
	if err := conn.QueryRow(ctx, "SELECT engine FROM system.tables WHERE database = ? AND name = ?", database, like).Scan(&engine); err != nil {
		return fmt.Errorf("look up the engine of %s.%s: %w", database, like, err)
	}
	if err := dropStale(ctx, conn, database); err != nil {
		return err
	}
	p := newProbe(database, strings.HasPrefix(engine, "Replicated"))
	defer func() {
		drop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		for _, sql := range p.drop() {
			if dropErr := conn.Exec(drop, sql); dropErr != nil && err == nil {
				err = fmt.Errorf("drop the tables of the probe: %w", dropErr)
			}
		}
	}()
	for _, sql := range p.create() {
		if err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("make the tables of the probe: %w", err)
		}
	}
	in := NewInserter(conn, database, server)
	for range 2 {
		if err := in.Insert(ctx, "hookline-probe-"+p.id, probeBlock{p.names[0]}); err != nil {
			return fmt.Errorf("probe the deduplication of ClickHouse: %w", err)
		}
	}
	for _, table := range []string{p.names[0], p.names[1], p.names[2]} {
		var rows uint64
		if err := conn.QueryRow(ctx, "SELECT sum(n) FROM "+database+"."+table).Scan(&rows); err != nil {
			return fmt.Errorf("read the probe: %w", err)
		}
		if rows != 3 {
			return fmt.Errorf("%w (%s of the probe has a sum of %d instead of 3)", ErrCountsTwice, strings.TrimSuffix(table, p.id), rows)
		}
	}
	return nil
}

// dropStale drops what processes have left that died in their probe.
func dropStale(ctx context.Context, conn driver.Conn, database string) error {
	var names []string
	err := conn.QueryRow(ctx, `SELECT arraySort(x -> position(x, '_mv_') = 0, groupArray(name)) FROM system.tables
		WHERE database = ? AND match(name, '^probe_(raw|1m|1h|1m_mv|1h_mv)_[0-9a-f]{16}$') AND metadata_modification_time < now() - INTERVAL 1 HOUR`, database).Scan(&names)
	if err != nil {
		return fmt.Errorf("look for the tables of earlier probes: %w", err)
	}
	for _, name := range names {
		if err := conn.Exec(ctx, "DROP TABLE IF EXISTS "+database+"."+name+" SYNC"); err != nil {
			return fmt.Errorf("drop a table of an earlier probe: %w", err)
		}
	}
	return nil
}

// probe names the tables: raw, rollup and rollup of the rollup, then the two views.
type probe struct {
	id, database, replicated string
	names                    [5]string
}

func newProbe(database string, replicated bool) probe {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand documents it
	p := probe{id: hex.EncodeToString(b[:]), database: database}
	if replicated {
		p.replicated = "Replicated"
	}
	for i, name := range []string{"probe_raw_", "probe_1m_", "probe_1h_", "probe_1m_mv_", "probe_1h_mv_"} {
		p.names[i] = name + p.id
	}
	return p
}

func (p probe) create() []string {
	window := "non_replicated_deduplication_window = 10000"
	if p.replicated != "" {
		window = "replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800"
	}
	t := func(i int) string { return p.database + "." + p.names[i] }
	sums := " (k LowCardinality(String), n SimpleAggregateFunction(sum, UInt64)) ENGINE = " + p.replicated + "AggregatingMergeTree ORDER BY k SETTINGS " + window
	return []string{
		"CREATE TABLE " + t(0) + " (k LowCardinality(String), n UInt64) ENGINE = " + p.replicated + "ReplacingMergeTree ORDER BY (k, n) SETTINGS " + window,
		"CREATE TABLE " + t(1) + sums,
		"CREATE TABLE " + t(2) + sums,
		"CREATE MATERIALIZED VIEW " + t(3) + " TO " + t(1) + " AS SELECT k, sum(n) AS n FROM " + t(0) + " GROUP BY k",
		"CREATE MATERIALIZED VIEW " + t(4) + " TO " + t(2) + " AS SELECT k, sum(n) AS n FROM " + t(1) + " GROUP BY k",
	}
}

func (p probe) drop() (out []string) {
	for i := len(p.names) - 1; i >= 0; i-- {
		out = append(out, "DROP TABLE IF EXISTS "+p.database+"."+p.names[i]+" SYNC")
	}
	return out
}
