package report

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 7, 19, 12, 0, 0, 0, time.UTC)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		report, query, field string // field = the one at fault, "" = good
	}{
		{"health", "", ""},
		{"health", "since=15m&until=5m&tenant=dev&endpoint=acme-dlr&type=message.sent&format=csv&limit=10", ""},
		{"health", "since=2026-07-19T09:15:25Z&until=2026-07-19T09:15:26%2B02:00", "since"}, // not before until
		{"health", "since=7d&until=2026-07-19T11:00:00Z", ""},
		{"health", "since=1d12h", ""},
		{"health", "since=yesterday", "since"},
		{"health", "since=-15m", "since"},
		{"health", "since=15", "since"},
		{"health", "since=900d", "since"},
		{"health", "since=99999999999999d", "since"},
		{"health", "since=0001-01-01T00:00:00Z", "since"},
		{"health", "since=5m&until=15m", "since"},
		{"health", "until=9999-12-31T23:59:59Z", "since"},
		{"health", "tenant=a%27b", "tenant"},
		{"health", "tenant=a&tenant=b", "tenant"},
		{"health", "endpoint=" + strings.Repeat("a", 65), "endpoint"},
		{"health", "type=a..b", "type"},
		{"health", "event_id=evt_1", "event_id"}, // the rollup knows no events
		{"health", "nonsense=1", "nonsense"},
		{"health", "format=xml", "format"},
		{"health", "limit=0", "limit"},
		{"health", "limit=100001", "limit"},
		{"health", "limit=100000", ""},
		{"health", "step=5m", "step"},
		{"latency", "step=5m", ""},
		{"latency", "step=90s", "step"},
		{"trace", "", "event_id"},
		{"trace", "event_id=evt_1", ""},
		{"trace", "event_id=a.b", "event_id"},
		{"trace", "message_id=a/b%27c", ""},
		{"trace", "message_id=a%20b", "message_id"},
		{"trace", "message_id=" + strings.Repeat("m", 129), "message_id"},
		{"trace", "message_id=" + strings.Repeat("m", 5000), "message_id"},
		{"audit", "tenant=dev", "tenant"},
	} {
		v, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Parse(c.report, v, noon)
		fault, _ := errors.AsType[*FieldError](err)
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%s?%s: %v", c.report, c.query, err)
		case c.field != "" && (fault == nil || fault.Field != c.field || fault.Missing != (c.report == "trace" && c.query == "")):
			t.Errorf("%s?%.60s: %v, want a fault of %s", c.report, c.query, err, c.field)
		}
	}
	if _, err := Parse("nonsense", nil, noon); !errors.Is(err, ErrUnknown) {
		t.Errorf("an unknown report: %v", err)
	}
	q, err := Parse("health", url.Values{"since": {"1h30m"}, "until": {"30m"}}, noon)
	if err != nil || !q.Since.Equal(noon.Add(-90*time.Minute)) || !q.Until.Equal(noon.Add(-30*time.Minute)) {
		t.Errorf("%+v %v", q, err)
	}
}

func TestEveryQueryIsBounded(t *testing.T) {
	t.Parallel()
	names := []string{"health", "latency", "failures", "trace", "e2e", "funnel", "top-failing", "dead-letters", "queue-wait", "phases", "circuit", "audit", "pending"}
	if got := Names(); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(names))) {
		t.Errorf("reports %v", got)
	}
	for _, name := range Names() {
		for _, since := range []string{"1h", "30d"} {
			v := url.Values{"since": {since}}
			if name == "trace" {
				v.Set("message_id", `a'b\c`)
			}
			q, err := Parse(name, v, noon)
			if err != nil {
				t.Fatal(err)
			}
			sql := q.SQL()
			for _, part := range []string{"{since:DateTime64(3,'UTC')}", "{until:DateTime64(3,'UTC')}", "LIMIT {row_limit:UInt64}", "SET param_since = '2026-0"} {
				if !strings.Contains(sql, part) {
					t.Errorf("%s has no %s:\n%s", name, part, sql)
				}
			}
			if name == "trace" && (strings.Count(sql, `a\'b`) != 1 || strings.Contains(sql, `'a'b`)) {
				t.Errorf("a value is not quoted:\n%s", sql)
			}
			if Help(name) == "" {
				t.Errorf("%s has no help", name)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "since=15m", "event_id=evt_1&until=2026-07-19T09:15:25Z", "message_id=%27%5C", "since=1d2h&step=5m"} {
		f.Add("trace", s)
		f.Add("latency", s)
	}
	f.Fuzz(func(t *testing.T, name, query string) {
		v, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		q, err := Parse(name, v, noon)
		if err != nil {
			if _, ok := errors.AsType[*FieldError](err); !ok && !errors.Is(err, ErrUnknown) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		if !q.Since.Before(q.Until) || q.Limit < 1 || q.Limit > MaxRows || q.Until.Sub(q.Since) > maxBack+skew {
			t.Fatalf("unbounded: %+v", q)
		}
		d, _ := find(name)
		s := d.build(q)
		// Whatever was given, the text is one of few: values are in args alone.
		for _, given := range []string{q.Tenant, q.Endpoint, q.EventID, q.MessageID} {
			if len(given) > 12 && strings.Contains(s.text, given) && !strings.Contains(d.build(&Query{Report: name, Since: q.Since, Until: q.Until, Limit: 1}).text, given) {
				t.Fatalf("a value is in the text: %q", given)
			}
		}
	})
}
