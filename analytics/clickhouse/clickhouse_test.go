package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	driverpkg "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/hookline/hookline/deploy/local/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

func closeAfter(t *testing.T, conn driver.Conn) driver.Conn {
	t.Helper()
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

func TestOptions(t *testing.T) {
	t.Parallel()
	f := func(dsn, addr string, protocol driverpkg.Protocol) {
		t.Helper()
		o, err := Options(dsn, 5)
		if err != nil {
			t.Fatalf("%s: %v", dsn, err)
		}
		if strings.Join(o.Addr, ",") != addr || o.Protocol != protocol || o.Auth.Database != "" || o.MaxOpenConns != 5 ||
			o.Compression.Method != driverpkg.CompressionLZ4 || o.DialTimeout != dialTimeout || o.ReadTimeout != readTimeout {
			t.Errorf("%s: %+v", dsn, o)
		}
	}
	f("clickhouse://u:p@a:9000,b:9000", "a:9000,b:9000", driverpkg.Native)
	f("clickhouse://a:9000/hookline", "a:9000", driverpkg.Native)
	f("http://127.0.0.1:8123", "127.0.0.1:8123", driverpkg.HTTP)
	f("https://a:8443/default", "a:8443", driverpkg.HTTP)
	if o, err := Options("clickhouse://a:9000?dial_timeout=1s&read_timeout=2s&compress=zstd", 1); err != nil || o.DialTimeout != time.Second ||
		o.ReadTimeout != 2*time.Second || o.Compression.Method != driverpkg.CompressionZSTD {
		t.Errorf("what the DSN says is not kept: %+v, %v", o, err)
	}
	for _, dsn := range []string{"", "off", "mysql://a", "http://a:8123/other", "clickhouse://u:hunter2@a:%zz"} {
		if _, err := Options(dsn, 1); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
	if _, err := Options("http://a:8123", 0); err == nil {
		t.Error("no connections at all are fine")
	}
}

func TestClasses(t *testing.T) {
	t.Parallel()
	exception := func(code int32) error {
		return fmt.Errorf("insert: %w", &driverpkg.Exception{Code: code, Message: "x"})
	}
	f := func(err error, class Class, label string) {
		t.Helper()
		if c, l := ClassOf(err), Label(err); c != class || l != label {
			t.Errorf("%v: %s %s, want %s %s", err, c, l, class, label)
		}
	}
	for _, code := range []int32{252, 241, 202, 159, 209, 210, 242, 999} {
		f(exception(code), Retry, fmt.Sprint(code))
		f(&driverpkg.HTTPError{StatusCode: 500, Err: exception(code)}, Retry, fmt.Sprint(code))
	}
	for _, code := range []int32{16, 36, 53, 60, 81, 497, 516} {
		f(exception(code), Stop, fmt.Sprint(code))
		f(&driverpkg.HTTPError{StatusCode: 404, Err: exception(code)}, Stop, fmt.Sprint(code))
	}
	f(exception(4711), Retry, "other")
	for _, err := range []error{io.EOF, &net.OpError{Op: "dial", Err: errors.New("refused")}, context.DeadlineExceeded, driverpkg.ErrAcquireConnTimeout, &driverpkg.HTTPError{StatusCode: 502, Err: errors.New("proxy")}} {
		f(err, Retry, "network")
	}
	f(&driverpkg.HTTPError{StatusCode: 401, Err: errors.New("a gate")}, Stop, "network")
	f(fmt.Errorf("%w: old", ErrUnsupported), Stop, "network")
	if s := Short(fmt.Errorf("insert: %w", &url.Error{Op: "Post", URL: "http://u:p@h?insert_deduplication_token=x", Err: io.EOF})); s != "post to ClickHouse: EOF" {
		t.Error(s)
	}
}

func TestSupported(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"25.8.1.1": true, "26.1": true, "100.1.2": true, "25.7.9": false, "24.12.1": false, "18.16.1": false, "": false, "x.y": false} {
		if supported(version) != want {
			t.Errorf("%q: %v", version, !want)
		}
	}
}

// The probe tells a server that counts a repeated insert once from one that does not, and leaves
// nothing behind.
func TestProbe(t *testing.T) {
	t.Parallel()
	ctx, e := context.Background(), enginetest.Start(t)
	conn, err := Open(e.DSN(), 2)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, conn)
	server, err := Inspect(ctx, conn)
	if err != nil {
		t.Fatal(err)
	}
	if !server.Settings["async_insert"] || !server.Settings["deduplicate_blocks_in_dependent_materialized_views"] {
		t.Fatalf("%+v", server)
	}
	for _, sql := range []string{"CREATE DATABASE hookline", "CREATE TABLE hookline.attempts (x UInt8) ENGINE = MergeTree ORDER BY x"} {
		if err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := Probe(ctx, conn, "hookline", "attempts", server); err != nil {
		t.Fatal(err)
	}
	for name, setting := range map[string]string{"raw": "insert_deduplicate", "views": "deduplicate_blocks_in_dependent_materialized_views"} {
		opts, err := Options(e.DSN(), 2)
		if err != nil {
			t.Fatal(err)
		}
		opts.Settings = driverpkg.Settings{setting: 0, "deduplicate_insert": "backward_compatible_choice"}
		other, err := driverpkg.Open(opts)
		if err != nil {
			t.Fatal(err)
		}
		closeAfter(t, other)
		blind := Server{Version: server.Version, Settings: map[string]bool{}} // so that the insert does not say it itself
		if err := Probe(ctx, other, "hookline", "attempts", blind); !errors.Is(err, ErrCountsTwice) {
			t.Errorf("%s not deduplicated: %v", name, err)
		}
		if err := Probe(ctx, other, "hookline", "attempts", server); err != nil {
			t.Errorf("an insert that carries its settings depends on the defaults (%s): %v", name, err)
		}
	}
	var left uint64
	if err := conn.QueryRow(ctx, "SELECT count() FROM system.tables WHERE name LIKE 'probe%'").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d tables of probes are left, error %v", left, err)
	}
}
