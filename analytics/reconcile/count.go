package reconcile

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	chcode "github.com/hookline/hookline/analytics/clickhouse"
)

// Sums count deliveries; an event without any is one.
type Sums struct {
	Accepted, Delivered, Dead, Unrouted, Dropped, Pending, Unaccounted uint64
}

func (s *Sums) add(o Sums) {
	s.Accepted += o.Accepted
	s.Delivered += o.Delivered
	s.Dead += o.Dead
	s.Unrouted += o.Unrouted
	s.Dropped += o.Dropped
	s.Pending += o.Pending
	s.Unaccounted += o.Unaccounted
}

// events of one hour and of the partitions of events whose rows lie in one partition of
// attempts, one row for each event id and time of acceptance: k records, and what rows say.
//
// chains are endpoints with rows of their own; finals is how often the least of them ended,
// so that what is above one is a further record of the same id that was delivered anew.
// A row of a lost lane (retry without a time) promises nothing and is no reason to wait.
const perEvent = `
SELECT r.p AS p, r.event_id AS id, r.k AS k,
       e.chains > 0 AS chained,
       if(chained, greatest(e.owed, 1), 0) AS owed,
       k - chained AS others,
       least(owed, e.delivered) AS delivered_n,
       least(owed - delivered_n, e.dead) AS dead_n,
       least(owed - delivered_n - dead_n, e.pending) AS pending_n,
       least(others, e.unrouted) AS unrouted_n,
       least(others - unrouted_n, e.dropped) AS dropped_n,
       least(others - unrouted_n - dropped_n, e.ruled_dead) AS ruled_n,
       least(others - unrouted_n - dropped_n - ruled_n, toUInt64(greatest(toInt64(e.finals) - 1, 0))) AS again_n,
       owed + others - delivered_n - dead_n - pending_n - unrouted_n - dropped_n - ruled_n - again_n AS missing
FROM (
  SELECT src_partition AS p, event_id, accepted_at, uniqExact(src_offset) AS k
  FROM hookline.events
  WHERE accepted_at >= {from:DateTime64(3,'UTC')} AND accepted_at < {to:DateTime64(3,'UTC')}
    AND has({parts:Array(UInt16)}, src_partition)
    AND src_offset < arrayElement({ends:Array(UInt64)}, indexOf({parts:Array(UInt16)}, src_partition))
  GROUP BY src_partition, event_id, accepted_at
) AS r
LEFT JOIN (
  SELECT event_id, accepted_at,
         countIf(endpoint_id != '' AND (n_delivered + n_dead > 0 OR waits > toDateTime64(0, 3, 'UTC'))) AS chains,
         maxIf(owed_n, endpoint_id != '') AS owed,
         countIf(endpoint_id != '' AND n_delivered > 0) AS delivered,
         countIf(endpoint_id != '' AND n_delivered = 0 AND n_dead > 0) AS dead,
         countIf(endpoint_id != '' AND n_delivered + n_dead = 0 AND waits > toDateTime64(0, 3, 'UTC')
                 AND (waits >= {horizon:DateTime64(3,'UTC')} OR last >= {last_row:UInt64})) AS pending,
         minIf(n_delivered + n_dead, endpoint_id != '') AS finals,
         sumIf(n_unrouted, endpoint_id = '') AS unrouted, sumIf(n_dropped, endpoint_id = '') AS dropped, sumIf(n_dead, endpoint_id = '') AS ruled_dead
  FROM (
    SELECT event_id, accepted_at, endpoint_id,
           max(deliveries) AS owed_n, max(next_retry_at) AS waits, max(src_offset) AS last,
           uniqExactIf(src_offset, outcome = 'delivered') AS n_delivered, uniqExactIf(src_offset, outcome = 'dead') AS n_dead,
           uniqExactIf(src_offset, outcome = 'unrouted') AS n_unrouted, uniqExactIf(src_offset, outcome = 'dropped') AS n_dropped
    FROM hookline.attempts
    WHERE accepted_at >= {from:DateTime64(3,'UTC')} AND accepted_at < {to:DateTime64(3,'UTC')}
      AND attempted_at >= {from:DateTime64(3,'UTC')} - INTERVAL 1 HOUR
      AND src_partition = {rows:UInt16} AND event_id != '' AND trigger IN ('auto', 'probe')
    GROUP BY event_id, accepted_at, endpoint_id
  )
  GROUP BY event_id, accepted_at
) AS e ON e.event_id = r.event_id AND e.accepted_at = r.accepted_at`

const sumSQL = `
SELECT p, toUInt64(sum(owed + others)), toUInt64(sum(delivered_n + again_n)), toUInt64(sum(dead_n + ruled_n)),
       toUInt64(sum(unrouted_n)), toUInt64(sum(dropped_n)), toUInt64(sum(pending_n)), toUInt64(sum(missing))
FROM (` + perEvent + `
)
GROUP BY p
ORDER BY p`

// idsSQL shows an operator which events are meant. It goes to the log at level debug, as a
// query: ids have no place there.
const idsSQL = `
SELECT p, id, missing
FROM (` + perEvent + `
)
WHERE missing > 0
ORDER BY p, id
LIMIT 100`

// question is one hour of one partition of attempts.
type question struct {
	from    time.Time
	rows    int32
	parts   []uint16
	ends    []uint64
	horizon time.Time
	lastRow uint64
}

func (p *proof) question(hour time.Time, rows int32) *question {
	q := &question{from: hour, rows: rows, horizon: p.horizon[rows], lastRow: p.lastRow[rows]}
	for _, part := range p.groups[rows] {
		q.parts, q.ends = append(q.parts, uint16(part)), append(q.ends, p.below[part])
	}
	return q
}

func (q *question) args() []any {
	return []any{
		clickhouse.DateNamed("from", q.from, clickhouse.MilliSeconds), clickhouse.DateNamed("to", q.from.Add(time.Hour), clickhouse.MilliSeconds),
		clickhouse.DateNamed("horizon", q.horizon, clickhouse.MilliSeconds), clickhouse.Named("last_row", q.lastRow),
		clickhouse.Named("rows", uint16(q.rows)), clickhouse.Named("parts", q.parts), clickhouse.Named("ends", q.ends),
	}
}

// ids is the query that lists the events, ready for clickhouse-client.
func (q *question) ids() string {
	at := func(t time.Time) string { return t.UTC().Format("'2006-01-02 15:04:05.000'") }
	list := func(v any) string { return "'" + strings.ReplaceAll(fmt.Sprint(v), " ", ",") + "'" }
	return fmt.Sprintf("SET param_from = %s, param_to = %s, param_horizon = %s, param_last_row = '%d', param_rows = '%d', param_parts = %s, param_ends = %s; %s",
		at(q.from), at(q.from.Add(time.Hour)), at(q.horizon), q.lastRow, q.rows, list(q.parts), list(q.ends), strings.Join(strings.Fields(idsSQL), " "))
}

// Limits of one query: it must not take from the sink what that needs.
func countSettings() clickhouse.Settings {
	return clickhouse.Settings{
		"readonly": 1, "max_execution_time": 60, "max_memory_usage": 4 << 30, "max_threads": 1, "join_use_nulls": 0,
		"log_comment": "hookline reconcile",
	}
}

const countTime = 60 * time.Second

// occupied returns the hours since from in which anything was accepted.
func (r *Reconciler) occupied(ctx context.Context, from time.Time) (map[time.Time]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	rows, err := r.conn.Query(clickhouse.Context(ctx, clickhouse.WithSettings(countSettings())),
		"SELECT DISTINCT toStartOfHour(accepted_at) AS hour FROM hookline.events WHERE accepted_at >= {from:DateTime64(3,'UTC')}",
		clickhouse.DateNamed("from", from, clickhouse.MilliSeconds))
	if code := chcode.Code(err); code == 60 || code == 81 { // UNKNOWN_TABLE, UNKNOWN_DATABASE: the sink or an operator makes them
		return nil, fmt.Errorf("%w: the tables are not there yet", errLate)
	}
	if err != nil {
		return nil, fmt.Errorf("list hours with events: %w", err)
	}
	defer rows.Close() //nolint:errcheck // what it would say, Err has said
	out := map[time.Time]bool{}
	for rows.Next() {
		var hour time.Time
		if err := rows.Scan(&hour); err != nil {
			return nil, fmt.Errorf("list hours with events: %w", err)
		}
		out[hour.UTC()] = true
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list hours with events: %w", err)
	}
	return out, nil
}

// count asks one question; partitions without events are not in the answer.
func (r *Reconciler) count(ctx context.Context, q *question) (map[int32]Sums, error) {
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	rows, err := r.conn.Query(clickhouse.Context(ctx, clickhouse.WithSettings(countSettings())), sumSQL, q.args()...)
	if err != nil {
		return nil, fmt.Errorf("count the hour %s: %w", q.from.Format(time.RFC3339), err)
	}
	defer rows.Close() //nolint:errcheck // what it would say, Err has said
	out := map[int32]Sums{}
	for rows.Next() {
		var p uint16
		var s Sums
		if err := rows.Scan(&p, &s.Accepted, &s.Delivered, &s.Dead, &s.Unrouted, &s.Dropped, &s.Pending, &s.Unaccounted); err != nil {
			return nil, fmt.Errorf("count the hour %s: %w", q.from.Format(time.RFC3339), err)
		}
		out[int32(p)] = s
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("count the hour %s: %w", q.from.Format(time.RFC3339), err)
	}
	return out, nil
}
