package analytics

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hookline/hookline/dispatcher/attempt"
)

// tally is what a table must say, by key.
type tally map[string]string

// expected counts the attempts topic, with no part of the sink.
func (r *rig) expected() map[string]tally {
	r.t.Helper()
	type sums [9]int64
	minutes, hours := map[string]*sums{}, map[string]*sums{}
	failures, funnel, raw := map[string]int64{}, map[string]int64{}, map[string]int64{}
	at := func(m map[string]*sums, k string) *sums {
		if m[k] == nil {
			m[k] = &sums{}
		}
		return m[k]
	}
	yes := func(b bool) int64 {
		if b {
			return 1
		}
		return 0
	}
	for _, rec := range r.log(attempt.Suffix) {
		var a attempt.Record
		if attempt.Decode(rec.Value, &a) != nil {
			continue
		}
		raw[fmt.Sprintf("%d", rec.Partition)]++
		posted, first := a.Attempt > 0 && a.Outcome != attempt.Parked, a.Attempt == 1
		ok := a.Outcome == attempt.Delivered
		for unit, m := range map[int64]map[string]*sums{60: minutes, 3600: hours} {
			s := at(m, fmt.Sprintf("%d|%s|%s|%s", a.AttemptedMs/1000/unit*unit, a.Tenant, a.Endpoint, a.EventType))
			for i, n := range []int64{
				yes(posted), yes(first && a.Outcome != attempt.Parked), yes(ok), yes(ok && first), yes(a.Outcome == attempt.Retry), yes(a.Outcome == attempt.Parked),
				yes(a.Outcome == attempt.Dead), int64(a.RequestBytes), int64(a.TotalUs),
			} {
				s[i] += n
			}
		}
		hour := a.AttemptedMs / 1000 / 3600 * 3600
		if !ok {
			failures[fmt.Sprintf("%d|%s|%s|%s|%s|%d|%s", hour, a.Tenant, a.Endpoint, a.EventType, a.ErrorClass, a.StatusCode, a.Outcome)]++
		}
		if a.Outcome != attempt.Parked && a.Outcome != attempt.Unrouted {
			funnel[fmt.Sprintf("%d|%s|%s|%d|%s", hour, a.Tenant, a.Endpoint, a.Attempt, a.Outcome)]++
		}
	}
	out := map[string]tally{"attempts": {}, "attempts_1m": {}, "attempts_1h": {}, "failures_1h": {}, "funnel_1h": {}}
	for k, s := range minutes {
		out["attempts_1m"][k] = fmt.Sprint(*s)
	}
	for k, s := range hours {
		out["attempts_1h"][k] = fmt.Sprint(*s)
	}
	for name, m := range map[string]map[string]int64{"attempts": raw, "failures_1h": failures, "funnel_1h": funnel} {
		for k, n := range m {
			out[name][k] = fmt.Sprint(n)
		}
	}
	return out
}

const rollupSums = "[toInt64(sum(attempts)), toInt64(sum(first_attempts)), toInt64(sum(delivered)), toInt64(sum(delivered_first)), toInt64(sum(retried)), toInt64(sum(parked)), toInt64(sum(dead)), toInt64(sum(bytes_out)), toInt64(sum(total_us_sum))]"

// stored asks the tables for the same. The raw table is read without FINAL: a row twice shows.
func (r *rig) stored() map[string]tally {
	r.t.Helper()
	key := func(columns ...string) string {
		parts := make([]string, len(columns))
		for i, c := range columns {
			if c == "minute" || c == "hour" {
				c = "toUnixTimestamp(" + c + ")"
			}
			parts[i] = "toString(" + c + ")"
		}
		return strings.Join(parts, " || '|' || ")
	}
	out := map[string]tally{}
	for table, q := range map[string][2]string{
		"attempts":    {key("src_partition"), "toString(count())"},
		"attempts_1m": {key("minute", "tenant_id", "endpoint_id", "event_type"), rollupSums},
		"attempts_1h": {key("hour", "tenant_id", "endpoint_id", "event_type"), rollupSums},
		"failures_1h": {key("hour", "tenant_id", "endpoint_id", "event_type", "error_class", "status_code", "outcome"), "toString(sum(n))"},
		"funnel_1h":   {key("hour", "tenant_id", "endpoint_id", "attempt", "outcome"), "toString(sum(n))"},
	} {
		value := q[1]
		if value == rollupSums {
			value = "replaceAll(toString(" + value + "), ',', ' ')"
		}
		rows, err := r.conn.Query(context.Background(), "SELECT "+q[0]+" AS k, "+value+" FROM "+r.db+"."+table+" GROUP BY k")
		if err != nil {
			r.t.Fatalf("read %s: %v", table, err)
		}
		t := tally{}
		for rows.Next() {
			var k, v string
			if err := rows.Scan(&k, &v); err != nil {
				r.t.Fatal(err)
			}
			t[k] = v
		}
		if err := rows.Err(); err != nil {
			r.t.Fatal(err)
		}
		if err := rows.Close(); err != nil {
			r.t.Fatal(err)
		}
		out[table] = t
	}
	return out
}

// compare checks that raw table and rollups say what the topic says.
func (r *rig) compare() {
	r.t.Helper()
	want, got := r.expected(), r.stored()
	for _, table := range slices.Sorted(maps.Keys(want)) {
		if maps.Equal(want[table], got[table]) {
			continue
		}
		shown := 0
		for _, k := range slices.Sorted(maps.Keys(want[table])) {
			if g := got[table][k]; g != want[table][k] && shown < 3 {
				shown++
				r.t.Errorf("%s: %s is %q, the topic says %q", table, k, g, want[table][k])
			}
		}
		r.t.Errorf("%s has %d keys, the topic %d", table, len(got[table]), len(want[table]))
	}
}
