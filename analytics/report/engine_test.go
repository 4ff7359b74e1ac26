package report

import (
	"context"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/hookline/hookline/analytics/clickhouse"
	"github.com/hookline/hookline/analytics/schema"
	"github.com/hookline/hookline/deploy/local/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// base is the hour that the rows of the tests lie in: young enough for the TTL of the tables.
var base = time.Now().UTC().Truncate(time.Hour).Add(-3 * time.Hour)

// at is a time after base.
func at(d time.Duration) time.Time { return base.Add(d) }

type db struct {
	t    testing.TB
	conn driver.Conn
}

// open starts an engine with the tables.
func open(t testing.TB) *db {
	t.Helper()
	return &db{t, dial(t, enginetest.Start(t).DSN())}
}

func dial(t testing.TB, dsn string) driver.Conn {
	t.Helper()
	conn, err := clickhouse.Open(dsn, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// migrate makes the tables.
func (d *db) migrate() *db {
	d.t.Helper()
	if _, err := schema.Migrate(d.t.Context(), d.conn, clickhouse.Database); err != nil {
		d.t.Fatal(err)
	}
	return d
}

// row is an attempt; zero fields are what most rows have.
type row struct {
	event, message, tenant, endpoint string
	accepted, at, next               time.Time
	attempt, status, deliveries      int
	outcome, class, trigger, circuit string
	totalUs, sequence                int
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// attempts inserts rows; their offsets in partition 0 count on from first.
func (d *db) attempts(first int, rows ...row) {
	d.t.Helper()
	batch, err := d.conn.PrepareBatch(d.t.Context(), `INSERT INTO hookline.attempts (attempted_at, occurred_at, accepted_at, tenant_id, endpoint_id,
		event_type, event_id, message_id, sequence, attempt, deliveries, trigger, outcome, status_code, error_class, circuit, next_retry_at,
		total_us, queue_wait_us, src_partition, src_offset)`)
	if err != nil {
		d.t.Fatal(err)
	}
	for i, r := range rows {
		if r.sequence == 0 {
			r.sequence = 1000 + len(r.event)
		}
		next := r.next
		if next.IsZero() {
			next = time.UnixMilli(0)
		}
		err := batch.Append(r.at, r.accepted, r.accepted, r.tenant, r.endpoint, "message.sent", r.event, r.message, uint64(r.sequence),
			uint16(r.attempt), uint16(r.deliveries), or(r.trigger, "auto"), r.outcome, uint16(r.status), r.class, or(r.circuit, "closed"), next,
			uint32(r.totalUs), uint64(2000), uint16(0), uint64(first+i))
		if err != nil {
			d.t.Fatal(err)
		}
	}
	if err := batch.Send(); err != nil {
		d.t.Fatal(err)
	}
}

// events inserts accepted events, their offsets counting on from first.
func (d *db) events(first int, rows ...row) {
	d.t.Helper()
	batch, err := d.conn.PrepareBatch(d.t.Context(), `INSERT INTO hookline.events (accepted_at, occurred_at, tenant_id, event_type, event_id, message_id, sequence, src_partition, src_offset)`)
	if err != nil {
		d.t.Fatal(err)
	}
	for i, r := range rows {
		if err := batch.Append(r.accepted, r.accepted, r.tenant, "message.sent", r.event, r.message, uint64(0), uint16(0), uint64(first+i)); err != nil {
			d.t.Fatal(err)
		}
	}
	if err := batch.Send(); err != nil {
		d.t.Fatal(err)
	}
}

// sample is small enough to be counted by hand.
func (d *db) sample() {
	d.t.Helper()
	s := time.Second
	e := func(id, message, tenant string, accepted time.Duration) row {
		return row{event: id, message: message, tenant: tenant, accepted: at(accepted)}
	}
	e1, e2, e3, e4 := e("evt_1", "m1", "dev", 0), e("evt_2", "m2", "dev", 10*s), e("evt_3", "m3", "dev", 20*s), e("evt_4", "m4", "dev", 30*s)
	e5, e6, e7, e8 := e("evt_5", "m1", "acme", 40*s), e("evt_6", "m1", "dev", time.Hour+5*s), e("evt_7", "m7", "dev", 50*s), e("evt_8", "m8", "dev", 55*s)
	d.events(0, e1, e2, e3, e4, e5, e6, e7, e7, e8)
	r := func(ev row, endpoint string, after time.Duration, attempt int, outcome string, status int, class string, owed, us int) row {
		ev.endpoint, ev.at, ev.attempt, ev.outcome, ev.status, ev.class, ev.deliveries, ev.totalUs = endpoint, ev.accepted.Add(after), attempt, outcome, status, class, owed, us
		return ev
	}
	waits := func(r row, until time.Time) row { r.next = until; return r }
	d.attempts(0,
		waits(r(e1, "a", s, 1, "retry", 500, "http_5xx", 2, 1000), e1.accepted.Add(3*s)),
		r(e1, "b", s, 1, "delivered", 200, "", 2, 2000),
		r(e1, "a", 3*s, 2, "delivered", 200, "", 2, 3000),
		waits(r(e2, "b", s, 1, "retry", 503, "http_503", 1, 2000), e2.accepted.Add(5*s)),
		waits(r(e2, "b", 5*s, 2, "parked", 0, "rate_limited", 1, 0), later),
		r(e3, "", s, 0, "unrouted", 0, "", 0, 0),
		r(e5, "z", s, 1, "dead", 410, "http_410", 1, 1000),
		r(e6, "a", s, 1, "delivered", 200, "", 2, 4000),
		r(e7, "a", s, 1, "delivered", 200, "", 1, 5000),
		r(e7, "", 2*s, 0, "dropped", 0, "", 0, 0),
		r(e8, "c", s, 1, "delivered", 204, "", 1, 7000),
		r(e("evt_9", "m9", "dev", 58*s), "c", s, 1, "delivered", 204, "", 1, 7000), // its event has not come yet
		r(row{accepted: at(59 * s)}, "", s, 0, "dead", 0, "", 0, 0),                // poison
	)
}

// later is when what waits in the sample is tried again.
var later = time.Now().UTC().Truncate(time.Second).Add(time.Hour)

// reporter asks with a fixed lag.
func (d *db) reporter() *Reporter {
	return New(Deps{Conn: d.conn, Lag: func(context.Context) (time.Duration, error) { return 1234567 * time.Microsecond, nil }})
}
