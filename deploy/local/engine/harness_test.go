package engine_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	analytics "github.com/hookline/hookline/analytics/schema"
	"github.com/hookline/hookline/deploy/local/engine"
	"github.com/hookline/hookline/deploy/local/enginetest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == parentArg {
		parent(os.Args[2:])
	}
	enginetest.Main(m)
}

// connect opens the real driver.
func connect(t testing.TB, dsn string, change ...func(*clickhouse.Options)) driver.Conn {
	t.Helper()
	opts, err := clickhouse.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(opts)
	}
	c, err := clickhouse.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() }) //nolint:errcheck // only reads
	return c
}

func start(t testing.TB, change ...func(*engine.Config)) (*enginetest.Engine, driver.Conn) {
	t.Helper()
	e := enginetest.Start(t, change...)
	return e, connect(t, e.DSN())
}

func run(t testing.TB, c driver.Conn, sql string, args ...any) {
	t.Helper()
	if err := c.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%.200s: %v", sql, err)
	}
}

// number runs a query that has one number as its result.
func number(t testing.TB, c driver.Conn, sql string, args ...any) (n uint64) {
	t.Helper()
	if err := c.QueryRow(context.WithoutCancel(t.Context()), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%.200s: %v", sql, err)
	}
	return n
}

// schema creates all tables of analytics.
func schema(t testing.TB, c driver.Conn) {
	t.Helper()
	if _, err := analytics.Migrate(t.Context(), c, "hookline"); err != nil {
		t.Fatal(err)
	}
}

// reply is what came back over HTTP.
type reply struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

// post sends a query as curl would.
func post(t testing.TB, dsn string, args url.Values, body string, head ...string) reply {
	t.Helper()
	return send(t, http.MethodPost, dsn+"/?"+args.Encode(), strings.NewReader(body), head...)
}

func send(t testing.TB, method, target string, body io.Reader, head ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, target, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(head); i += 2 {
		req.Header.Set(head[i], head[i+1])
	}
	tr := &http.Transport{DisableCompression: true}
	defer tr.CloseIdleConnections()
	res, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	defer res.Body.Close() //nolint:errcheck // read to its end
	var b bytes.Buffer
	_, err = b.ReadFrom(res.Body)
	return reply{res.StatusCode, res.Header, b.String(), err}
}

// eventually waits for something that another process does.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-tick.C {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: not within 20 s", what)
}

func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v
}

func code(err error) int32 {
	if x, ok := errors.AsType[*clickhouse.Exception](err); ok {
		return x.Code
	}
	return 0
}
