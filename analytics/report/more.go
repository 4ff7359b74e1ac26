package report

import "time"

// longSpan is where reports over time change from the rollup by minute to that by hour.
const longSpan = 48 * hour

// cells chooses the rollup for a question and returns its name, column and alignment.
func cells(q *Query, step time.Duration) (table, column, start string) {
	if q.Until.Sub(q.Since) > longSpan+skew || step >= hour && step%hour == 0 {
		return "hookline.attempts_1h", "hour", "toStartOfHour"
	}
	return "hookline.attempts_1m", "minute", "toStartOfMinute"
}

// stepOf is the asked step, or one that makes at most some 300 points.
func stepOf(q *Query) time.Duration {
	span := q.Until.Sub(q.Since)
	step := q.Step
	if step == 0 {
		for _, step = range []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, hour, 6 * hour, day} {
			if span <= 300*step {
				break
			}
		}
	}
	if span > longSpan+skew {
		step = max(hour, step.Truncate(hour))
	}
	return step
}

func overTime(q *Query) (c *conditions, table, column string) {
	step := stepOf(q)
	table, column, start := cells(q, step)
	c = newConditions()
	c.rollup(column, start, q)
	c.filters(q)
	c.set("step", int64(step/time.Second))
	return c, table, column
}

func latency(q *Query) *statement {
	c, table, column := overTime(q)
	return c.statement(q, `
WITH quantilesTDigestIfMerge(0.5, 0.9, 0.99, 0.999)(lat) AS l
SELECT toStartOfInterval(`+column+`, toIntervalSecond({step:Int64})) AS at,
       sum(attempts) AS attempts_n, sum(delivered) AS delivered_n,
       if(attempts_n = 0, NULL, l[1] / 1e3), if(attempts_n = 0, NULL, l[2] / 1e3),
       if(attempts_n = 0, NULL, l[3] / 1e3), if(attempts_n = 0, NULL, l[4] / 1e3),
       max(total_us_max) / 1e3
FROM `+table+`
WHERE `+c.String()+`
GROUP BY at
ORDER BY at`)
}

func queueWait(q *Query) *statement {
	c, table, column := overTime(q)
	return c.statement(q, `
WITH quantilesTDigestIfMerge(0.5, 0.9, 0.99, 0.999)(qwait) AS w
SELECT toStartOfInterval(`+column+`, toIntervalSecond({step:Int64})) AS at,
       sum(attempts) AS attempts_n, attempts_n / {step:Int64},
       if(attempts_n = 0, NULL, w[1] / 1e3), if(attempts_n = 0, NULL, w[2] / 1e3), if(attempts_n = 0, NULL, w[3] / 1e3)
FROM `+table+`
WHERE `+c.String()+`
GROUP BY at
ORDER BY at`)
}

func endToEnd(q *Query) *statement {
	table, column, start := cells(q, time.Minute)
	c := newConditions()
	c.rollup(column, start, q)
	c.filters(q)
	return c.statement(q, `
WITH quantilesTDigestIfMerge(0.5, 0.9, 0.99, 0.999)(e2e) AS l
SELECT event_type, sum(delivered) AS delivered_n, l[1] / 1e3, l[2] / 1e3, l[3] / 1e3, l[4] / 1e3
FROM `+table+`
WHERE `+c.String()+`
GROUP BY event_type
HAVING delivered_n > 0
ORDER BY delivered_n DESC, event_type`)
}

// funnel: attempt 0 are deaths without an attempt, such as those of an expired delivery.
func funnel(q *Query) *statement {
	c := newConditions()
	c.rollup("hour", "toStartOfHour", q)
	c.add("outcome IN ('delivered', 'retry', 'dead')")
	c.filters(q)
	return c.statement(q, `
SELECT attempt,
       sumIf(n, outcome = 'delivered') AS delivered_n, sumIf(n, outcome = 'retry'), sumIf(n, outcome = 'dead'),
       if(sum(delivered_n) OVER () = 0, NULL,
          sum(delivered_n) OVER (ORDER BY attempt ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) / sum(delivered_n) OVER ())
FROM hookline.funnel_1h
WHERE `+c.String()+`
GROUP BY attempt
ORDER BY attempt`)
}

func topFailing(q *Query) *statement {
	c := newConditions()
	c.rollup("hour", "toStartOfHour", q)
	c.add("outcome IN ('retry', 'dead')")
	c.filters(q)
	return c.statement(q, `
SELECT tenant_id, endpoint_id, sum(n) AS failed, sumIf(n, outcome = 'dead') AS dead_n,
       arrayStringConcat(topKWeighted(2)(toString(error_class), n), ' ') AS classes, max(last_at) AS last_failed_at
FROM hookline.failures_1h
WHERE `+c.String()+`
GROUP BY tenant_id, endpoint_id
ORDER BY failed DESC, tenant_id, endpoint_id`)
}

// deadLetters: a day with many retries of the days before and few first attempts distorts
// the ratio.
func deadLetters(q *Query) *statement {
	c := newConditions()
	c.rollup("hour", "toStartOfHour", q)
	c.filters(q)
	return c.statement(q, `
SELECT toStartOfDay(hour) AS of_day, sum(dead) AS dead_n, sum(first_attempts) AS first_n,
       if(first_n = 0, NULL, 1e6 * dead_n / first_n)
FROM hookline.attempts_1h
WHERE `+c.String()+`
GROUP BY of_day
ORDER BY of_day`)
}

func phases(q *Query) *statement {
	c := newConditions()
	c.raw("attempted_at", q)
	c.add("attempt > 0 AND outcome IN ('delivered', 'retry', 'dead')")
	c.filters(q)
	return c.statement(q, `
SELECT tenant_id, endpoint_id, count() AS attempts_n, avg(conn_reused),
       avg(dns_us) / 1e3, avg(connect_us) / 1e3, avg(tls_us) / 1e3, avg(ttfb_us) / 1e3, avg(total_us) / 1e3,
       quantileTDigest(0.99)(dns_us) / 1e3, quantileTDigest(0.99)(connect_us) / 1e3, quantileTDigest(0.99)(tls_us) / 1e3,
       quantileTDigest(0.99)(ttfb_us) / 1e3, quantileTDigest(0.99)(total_us) / 1e3
FROM hookline.attempts FINAL
WHERE `+c.String()+`
GROUP BY tenant_id, endpoint_id
ORDER BY attempts_n DESC, tenant_id, endpoint_id`)
}

// circuit finds runs of attempts under one state of the breaker, of those endpoints only
// that had another state than closed.
func circuit(q *Query) *statement {
	c := newConditions()
	c.raw("attempted_at", q)
	c.add("endpoint_id != ''")
	c.filters(q)
	return c.statement(q, `
SELECT tenant_id, endpoint_id, state, min(at) AS first_at, max(at) AS last_at, count() AS rows_n
FROM (
  SELECT tenant_id, endpoint_id, state, at,
         sum(turned) OVER (PARTITION BY tenant_id, endpoint_id ORDER BY at, src_partition, src_offset) AS run
  FROM (
    SELECT tenant_id, endpoint_id, circuit AS state, attempted_at AS at, src_partition, src_offset,
           toUInt8(toInt16(circuit) != lagInFrame(toInt16(circuit), 1, toInt16(0))
             OVER (PARTITION BY tenant_id, endpoint_id ORDER BY attempted_at, src_partition, src_offset
                   ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)) AS turned
    FROM hookline.attempts FINAL
    WHERE `+c.String()+`
      AND (tenant_id, endpoint_id) IN (SELECT tenant_id, endpoint_id FROM hookline.attempts WHERE `+c.String()+` AND circuit != 'closed')
  )
)
WHERE state != 'closed'
GROUP BY tenant_id, endpoint_id, run, state
ORDER BY first_at DESC, tenant_id, endpoint_id`)
}

// audit: rows come in a little out of the order of their offsets, so that those between the
// first and the last offset of the window are counted in a window that is wider.
func audit(q *Query) *statement {
	c := newConditions()
	c.raw("at", q)
	one := func(table, column string) string {
		return `
SELECT '` + table + `' AS topic, part, any(lo) AS first_o, any(hi) AS last_o, count() AS rows_n,
       rows_n - uniqExact(src_offset) AS repeats_n, last_o - first_o + 1 - uniqExact(src_offset) AS missing_n
FROM hookline.` + table + ` AS a
INNER JOIN (SELECT src_partition AS part, min(src_offset) AS lo, max(src_offset) AS hi
            FROM hookline.` + table + `
            WHERE ` + column + ` >= {since:DateTime64(3,'UTC')} AND ` + column + ` < {until:DateTime64(3,'UTC')}
            GROUP BY src_partition) AS b ON a.src_partition = b.part
WHERE a.` + column + ` >= {since:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND a.` + column + ` < {until:DateTime64(3,'UTC')} + INTERVAL 1 HOUR
  AND a.src_offset >= b.lo AND a.src_offset <= b.hi
GROUP BY part`
	}
	return c.statement(q, `
SELECT topic, part, first_o, last_o, rows_n, repeats_n, missing_n
FROM (`+one("attempts", "attempted_at")+`
UNION ALL`+one("events", "accepted_at")+`
)
ORDER BY topic, part`)
}
