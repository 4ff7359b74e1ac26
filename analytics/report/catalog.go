package report

import (
	"slices"
	"strings"
	"time"
)

// definition is one report.
type definition struct {
	name    string
	help    string
	back    time.Duration // since, when none is given
	takes   []string      // parameters
	needsID bool
	build   func(*Query) *statement
	columns []string // names of what build selects, in its order
}

const (
	hour = time.Hour
	day  = 24 * time.Hour
)

// takes lists parameters: those of all reports, and more.
func takes(more ...string) []string {
	return append([]string{"since", "until", "limit", "format", "tenant"}, more...)
}

func split(names string) []string { return strings.Split(names, ", ") }

var definitions = []definition{
	{"health", "how each endpoint does", day, takes("endpoint", "type"), false, health,
		split("tenant_id, endpoint_id, attempts, delivered_share, dead, p50_ms, p90_ms, p99_ms, state")},
	{"latency", "attempts and their latencies over time", day, takes("endpoint", "type", "step"), false, latency,
		split("at, attempts, delivered, p50_ms, p90_ms, p99_ms, p999_ms, max_ms")},
	{"failures", "why attempts fail", day, takes("endpoint", "type"), false, failures,
		split("error_class, status_code, failures, share, dead, last_at")},
	{"trace", "every attempt of one event or message", 32 * day, takes("endpoint", "type", "event_id", "message_id"), true, trace,
		split("attempted_at, tenant_id, endpoint_id, event_id, message_id, event_type, attempt, outcome, status_code, error_class, tier, trigger, circuit, parks, queue_wait_us, ttfb_us, total_us, due_error_ms, next_retry_at, worker")},
	{"e2e", "from the producer's time to the delivery", day, takes("endpoint", "type"), false, endToEnd,
		split("event_type, delivered, p50_ms, p90_ms, p99_ms, p999_ms")},
	{"funnel", "which attempt delivers", 7 * day, takes("endpoint"), false, funnel,
		split("attempt, delivered, retried, dead, delivered_share_so_far")},
	{"top-failing", "endpoints with the most failures", day, takes("endpoint", "type"), false, topFailing,
		split("tenant_id, endpoint_id, failures, dead, classes, last_at")},
	{"dead-letters", "deliveries that died, by day", 30 * day, takes("endpoint", "type"), false, deadLetters,
		split("day, dead, first_attempts, dead_per_million")},
	{"queue-wait", "how long attempts waited for us", day, takes("endpoint", "type", "step"), false, queueWait,
		split("at, attempts, attempts_per_second, p50_ms, p90_ms, p99_ms")},
	{"phases", "where the time of an attempt goes", hour, takes("endpoint", "type"), false, phases,
		split("tenant_id, endpoint_id, attempts, reused_share, dns_ms, connect_ms, tls_ms, ttfb_ms, total_ms, dns_p99_ms, connect_p99_ms, tls_p99_ms, ttfb_p99_ms, total_p99_ms")},
	{"circuit", "endpoints whose breaker was not closed", day, takes("endpoint"), false, circuit,
		split("tenant_id, endpoint_id, circuit, first_at, last_at, rows")},
	{"audit", "gaps and repeats in what ClickHouse holds", day, []string{"since", "until", "limit", "format"}, false, audit,
		split("topic, partition, first_offset, last_offset, rows, repeats, missing")},
	{"pending", "deliveries that are not final yet", day + hour, takes("endpoint", "type"), false, pending,
		split("tenant_id, endpoint_id, pending, first, retry, parked, overdue, next_retry_at, oldest_accepted_at")},
}

// Names are the reports in the order in which help lists them.
func Names() []string {
	out := make([]string, len(definitions))
	for i := range definitions {
		out[i] = definitions[i].name
	}
	return out
}

// Help is one line about a report, empty for none.
func Help(name string) string {
	if d, ok := find(name); ok {
		return d.help
	}
	return ""
}

func find(name string) (*definition, bool) {
	i := slices.IndexFunc(definitions, func(d definition) bool { return d.name == name })
	if i < 0 {
		return nil, false
	}
	return &definitions[i], true
}

// health: endpoint_id is empty on rows about whole events, which no endpoint answers for.
func health(q *Query) *statement {
	c := newConditions()
	c.rollup("minute", "toStartOfMinute", q)
	c.add("endpoint_id != ''")
	c.filters(q)
	return c.statement(q, `
WITH quantilesTDigestIfMerge(0.5, 0.9, 0.99, 0.999)(lat) AS l
SELECT tenant_id, endpoint_id,
       sum(attempts) AS attempts_n,
       if(attempts_n = 0, NULL, sum(delivered) / attempts_n) AS share,
       sum(dead) AS dead_n,
       if(attempts_n = 0, NULL, l[1] / 1e3) AS p50,
       if(attempts_n = 0, NULL, l[2] / 1e3) AS p90,
       if(attempts_n = 0, NULL, l[3] / 1e3) AS p99,
       multiIf(attempts_n = 0 AND dead_n > 0, 'failing', attempts_n = 0, 'degraded',
               share >= 0.99, 'healthy', share >= 0.9, 'degraded', 'failing') AS health_state
FROM hookline.attempts_1m
WHERE `+c.String()+`
GROUP BY tenant_id, endpoint_id
ORDER BY share ASC NULLS FIRST, attempts_n DESC, tenant_id, endpoint_id`)
}

// rawFailures is the span up to which failures are counted exactly from the raw rows; the
// rollup of longer spans begins and ends with whole hours.
const rawFailures = 6 * hour

func failures(q *Query) *statement {
	c := newConditions()
	from, count, last := "hookline.failures_1h", "sum(n)", "max(last_at)"
	deadN := "sumIf(n, outcome = 'dead')"
	if q.Until.Sub(q.Since) <= rawFailures+skew {
		from, count, last, deadN = "hookline.attempts FINAL", "count()", "max(attempted_at)", "countIf(outcome = 'dead')"
		c.raw("attempted_at", q)
	} else {
		c.rollup("hour", "toStartOfHour", q)
	}
	c.add("outcome IN ('retry', 'dead')")
	c.filters(q)
	return c.statement(q, `
SELECT error_class, status_code,
       `+count+` AS failed,
       failed / sum(failed) OVER () AS share,
       `+deadN+` AS dead_n,
       `+last+` AS last_failed_at
FROM `+from+`
WHERE `+c.String()+`
GROUP BY error_class, status_code
ORDER BY failed DESC, error_class, status_code`)
}

func trace(q *Query) *statement {
	c := newConditions()
	c.raw("attempted_at", q)
	c.filters(q)
	return c.statement(q, `
SELECT attempted_at, tenant_id, endpoint_id, event_id, message_id, event_type,
       attempt, outcome, status_code, error_class, tier, trigger, circuit, parks,
       queue_wait_us, ttfb_us, total_us, due_error_ms, next_retry_at, worker
FROM hookline.attempts FINAL
WHERE `+c.String()+`
ORDER BY accepted_at, event_id, endpoint_id, attempted_at, attempt, src_offset`)
}

// pending: a chain (one event's way to one endpoint) is pending when none of its rows is
// final; what an event is owed but has no row of yet is pending under endpoint "". Chains
// that have failed or parked are few, so that finals are only looked up for their events;
// for the rest one number per event is kept. A waiting chain has a row at least once a day,
// since no wait is longer, so that the default window misses none. A record of an event that was
// forwarded, and a repeat, have a verdict each: an event waits while it has more records than those.
func pending(q *Query) *statement {
	c := newConditions()
	c.filters(q)
	where := "1"
	if len(c.terms) > 0 {
		where = c.String()
	}
	c.set("since", q.Since)
	c.set("until", q.Until)
	c.set("now", q.now)
	rows := `attempted_at >= {since:DateTime64(3,'UTC')} AND attempted_at < {until:DateTime64(3,'UTC')} AND trigger != 'test' AND event_id != ''`
	first := ""
	if q.Endpoint == "" { // what has no row has no endpoint yet
		first = `
UNION ALL
SELECT e.tenant_id AS tenant, '' AS endpoint, e.accepted AS accepted, toDateTime64(0, 3, 'UTC') AS retry_at,
       'first' AS kind, if(r.owed = 0, 1, r.owed - r.seen) AS n
FROM (SELECT tenant_id, event_id, min(accepted_at) AS accepted, count() AS records FROM hookline.events
      WHERE accepted_at >= {since:DateTime64(3,'UTC')} AND accepted_at < {until:DateTime64(3,'UTC')} AND ` + where + `
      GROUP BY tenant_id, event_id) AS e
LEFT JOIN (SELECT event_id, max(deliveries) AS owed, uniqExactIf(endpoint_id, endpoint_id != '') AS seen,
                  countIf(endpoint_id = '') AS verdicts
           FROM hookline.attempts WHERE ` + rows + ` AND ` + where + ` GROUP BY event_id) AS r ON r.event_id = e.event_id
WHERE r.owed > r.seen OR (r.owed = 0 AND r.verdicts < e.records)`
	}
	return c.statement(q, `
SELECT tenant, endpoint,
       sum(n) AS pending_n,
       sumIf(n, kind = 'first') AS first_n, sumIf(n, kind = 'retry') AS retry_n, sumIf(n, kind = 'parked') AS parked_n,
       countIf(retry_at > toDateTime64(0, 3, 'UTC') AND retry_at < {now:DateTime64(3,'UTC')}) AS overdue_n,
       minIf(retry_at, retry_at > toDateTime64(0, 3, 'UTC')) AS next_at,
       min(accepted) AS oldest_at
FROM (
SELECT tenant_id AS tenant, endpoint_id AS endpoint, min(accepted_at) AS accepted, max(next_retry_at) AS retry_at,
       if(argMax(outcome, (attempted_at, src_offset)) = 'parked', 'parked', 'retry') AS kind, 1 AS n
FROM hookline.attempts
WHERE `+rows+` AND outcome IN ('retry', 'parked', 'delivered', 'dead') AND endpoint_id != '' AND `+where+`
  AND event_id IN (SELECT event_id FROM hookline.attempts WHERE `+rows+` AND outcome IN ('retry', 'parked') AND `+where+`)
GROUP BY tenant_id, endpoint_id, event_id
HAVING argMax(outcome, (attempted_at, src_offset)) IN ('retry', 'parked') AND countIf(outcome = 'delivered') = 0`+first+`
)
GROUP BY tenant, endpoint
ORDER BY pending_n DESC, tenant, endpoint`)
}
