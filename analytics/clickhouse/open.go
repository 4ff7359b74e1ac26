package clickhouse

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Database is where hookline keeps its tables (CONTRACT section 7).
const Database = "hookline"

const (
	dialTimeout = 5 * time.Second  // also how long a caller waits for a free connection
	readTimeout = 75 * time.Second // of one answer; above max_execution_time of an insert
	lifetime    = 10 * time.Minute // connections move to servers that have come back
)

// Options reads a DSN, clickhouse:// (native) or http(s)://, and completes it: LZ4, a pool of conns
// connections, timeouts. What the DSN says itself is kept, but for the database: statements name it.
func Options(dsn string, conns int) (*clickhouse.Options, error) {
	switch scheme, _, _ := strings.Cut(dsn, "://"); scheme {
	case "clickhouse", "http", "https":
	default: // not repeated: it may hold a password
		return nil, errors.New("read the ClickHouse DSN: want clickhouse://HOST:9000 or http(s)://HOST:8123")
	}
	if strings.HasPrefix(dsn, "https://") && !strings.Contains(dsn, "secure=") { // the driver wants it said twice
		sep := "?"
		if strings.Contains(dsn, "?") {
			sep = "&"
		}
		dsn += sep + "secure=true"
	}
	opts, err := clickhouse.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("read the ClickHouse DSN: %w", err)
	}
	if conns < 1 {
		return nil, fmt.Errorf("open ClickHouse with %d connections, want at least 1", conns)
	}
	switch opts.Auth.Database {
	case "", "default", Database:
	default:
		return nil, fmt.Errorf("the ClickHouse DSN names database %q; the tables are in database %s, so leave it out", opts.Auth.Database, Database)
	}
	// The database need not exist yet, and a connection to one that does not is refused.
	opts.Auth.Database = ""
	if opts.Compression == nil {
		opts.Compression = &clickhouse.Compression{Method: clickhouse.CompressionLZ4}
	}
	opts.MaxOpenConns, opts.MaxIdleConns = conns, conns
	if opts.DialTimeout == 0 {
		opts.DialTimeout = dialTimeout
	}
	if opts.ReadTimeout == 0 {
		opts.ReadTimeout = readTimeout
	}
	if opts.ConnMaxLifetime == 0 {
		opts.ConnMaxLifetime = lifetime
	}
	// A connection keeps the buffers of its largest batch, and inserts are seconds apart.
	opts.FreeBufOnConnRelease = true
	opts.ClientInfo.Products = append(opts.ClientInfo.Products, struct{ Name, Version string }{"hookline", "1"})
	return opts, nil
}

// Open makes a connection pool; nothing is sent until it is used.
func Open(dsn string, conns int) (driver.Conn, error) {
	opts, err := Options(dsn, conns)
	if err != nil {
		return nil, err
	}
	conn, err := clickhouse.Open(opts)
	if err != nil {
		return nil, fmt.Errorf("open ClickHouse: %w", err)
	}
	if conn == nil {
		return nil, errors.New("open ClickHouse: no connection pool")
	}
	return conn, nil
}
