package clickhouse

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Column is one column of a block.
type Column struct {
	Name   string
	Type   string // as the table has it
	Values any    // a slice of the type's Go values, one for each row
}

// Block is what one insert writes. It is read only, so it can be sent again.
type Block interface {
	Table() string // without the database
	Rows() int
	Columns() []Column
}

// Inserter writes blocks. Safe for concurrent use.
type Inserter struct {
	conn     driver.Conn
	database string
	settings clickhouse.Settings
	known    map[string]bool
}

// NewInserter returns an Inserter for the tables of a database on a server that was inspected.
func NewInserter(conn driver.Conn, database string, server Server) *Inserter {
	in := &Inserter{conn: conn, database: database, settings: clickhouse.Settings{}, known: server.Settings}
	for name, value := range settings() {
		if server.Settings[name] {
			in.settings[name] = value
		}
	}
	return in
}

// Insert writes a block under a token, whole or not at all. After nil the rows are in the table
// and in its rollups once, whether this call has written them or an earlier one with the same
// token. After an error they may be, and the same block is to be sent again under the same token.
func (in *Inserter) Insert(ctx context.Context, token string, b Block) error {
	if b.Rows() == 0 {
		return nil
	}
	cols := b.Columns()
	names := make([]string, len(cols))
	types := make([]clickhouse.ColumnNameAndType, len(cols))
	for i, c := range cols {
		names[i] = "`" + c.Name + "`"
		types[i] = clickhouse.ColumnNameAndType{Name: c.Name, Type: c.Type}
	}
	settings := maps.Clone(in.settings)
	settings["insert_deduplication_token"] = token
	if in.known["log_comment"] {
		settings["log_comment"] = "hookline " + token
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(settings), clickhouse.WithColumnNamesAndTypes(types))
	table := in.database + "." + b.Table()
	batch, err := in.conn.PrepareBatch(ctx, "INSERT INTO "+table+" ("+strings.Join(names, ", ")+")")
	if err != nil {
		return fmt.Errorf("prepare insert into %s: %w", table, err)
	}
	defer batch.Close() //nolint:errcheck // after Send it does nothing, before it the error is another
	for i, c := range cols {
		if err := batch.Column(i).Append(c.Values); err != nil {
			return fmt.Errorf("fill column %s of %s: %w", c.Name, table, err)
		}
	}
	if n := batch.Rows(); n != b.Rows() {
		return fmt.Errorf("fill block of %s: %d rows, want %d", table, n, b.Rows())
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("insert into %s: %w", table, err)
	}
	return nil
}
