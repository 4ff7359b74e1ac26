package report

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Conn is what a question needs of a connection to ClickHouse; driver.Conn has it.
type Conn interface {
	Query(ctx context.Context, query string, args ...any) (driver.Rows, error)
}

// Deps are what the main builds once.
type Deps struct {
	Conn Conn
	// Lag tells how far ClickHouse is behind the log now; nil is never behind.
	Lag func(context.Context) (time.Duration, error)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Reporter answers questions. Safe for concurrent use; how many run at once is the
// caller's to bound.
type Reporter struct {
	conn Conn
	lag  func(context.Context) (time.Duration, error)
	now  func() time.Time

	settings clickhouse.Settings // of every query
}

// New returns a reporter over a connection.
func New(deps Deps) *Reporter {
	r := &Reporter{conn: deps.Conn, lag: deps.Lag, now: deps.Now, settings: bounds()}
	if r.lag == nil {
		r.lag = func(context.Context) (time.Duration, error) { return 0, nil }
	}
	if r.now == nil {
		r.now = time.Now
	}
	return r
}

// Limits of one query. A report of a user must not starve the sink.
const (
	queryTime   = 30 * time.Second
	queryMemory = 4 << 30
	queryGroups = 20_000_000
)

// bounds are the settings that every query runs under.
func bounds() clickhouse.Settings {
	return clickhouse.Settings{
		"readonly":                  1,
		"max_execution_time":        int(queryTime / time.Second),
		"max_memory_usage":          queryMemory,
		"max_rows_to_group_by":      queryGroups,
		"group_by_overflow_mode":    "throw",
		"use_skip_indexes_if_final": 1,
		"join_use_nulls":            0,
		"max_threads":               2,
		"log_comment":               "hookline report",
		"do_not_merge_across_partitions_select_final": 1, // the partition is a function of the key
	}
}

// Run asks one question. Errors are ErrTooMuch, ErrNoTables, or of ClickHouse being away.
func (r *Reporter) Run(ctx context.Context, q *Query) (*Result, error) {
	d, ok := find(q.Report)
	if !ok {
		return nil, ErrUnknown
	}
	out := &Result{Report: q.Report, Columns: d.columns}
	out.AsOf, out.Lag = r.asOf(ctx)
	if out.Lag > 0 { // what was due since may be done, and not be here yet
		late := *q
		late.now = out.AsOf.Add(-out.Lag).Truncate(time.Millisecond)
		q = &late
	}
	rows, err := r.ask(ctx, d.build(q))
	if err != nil {
		return nil, fmt.Errorf("report %s: %w", q.Report, err)
	}
	if len(rows) > q.Limit {
		rows, out.Truncated = rows[:q.Limit], true
	}
	out.Rows = rows
	return out, nil
}

// SQL is the query of a question with its parameters, ready for clickhouse-client.
func (q *Query) SQL() string {
	d, ok := find(q.Report)
	if !ok {
		return ""
	}
	return d.build(q).String()
}

// asOf looks at the clock and the lag before the query is sent: what is true of the log then
// is true of the answer. A negative lag is one that could not be measured.
func (r *Reporter) asOf(ctx context.Context) (time.Time, time.Duration) {
	now := r.now().UTC()
	lag, err := r.lag(ctx)
	if err != nil {
		return now, -1
	}
	return now, max(0, lag)
}

// ask runs one statement and returns all of its rows, each value in the type that the driver
// scans it into; pointers are followed, nil is NULL.
func (r *Reporter) ask(ctx context.Context, s *statement) ([][]any, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(maps.Clone(r.settings)))
	rows, err := r.conn.Query(ctx, s.text, s.bound()...)
	if err != nil {
		return nil, classify(err)
	}
	out, err := collect(rows)
	if cerr := rows.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, classify(err)
	}
	return out, nil
}

func collect(rows driver.Rows) ([][]any, error) {
	types := rows.ColumnTypes()
	dest := make([]any, len(types))
	out := [][]any{}
	for rows.Next() {
		for i, t := range types {
			dest[i] = reflect.New(t.ScanType()).Interface()
		}
		if err := rows.Scan(dest...); err != nil {
			return nil, err
		}
		row := make([]any, len(dest))
		for i, d := range dest {
			row[i] = plain(reflect.ValueOf(d).Elem())
		}
		out = append(out, row)
	}
	return out, rows.Err()
}

// plain follows pointers and makes one type of each kind: nil, string, int64, uint64,
// float64, bool, time.Time.
func plain(v reflect.Value) any {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if t, ok := v.Interface().(time.Time); ok {
		if t.UnixMilli() == 0 {
			return nil // the tables' none
		}
		return t.UTC()
	}
	switch {
	case v.CanInt():
		return v.Int()
	case v.CanUint():
		return v.Uint()
	case v.CanFloat():
		return finite(v.Float())
	case v.Kind() == reflect.String:
		return v.String()
	}
	return v.Interface()
}
