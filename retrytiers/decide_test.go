package retrytiers

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/retrytiers/tier"
)

func TestDecide(t *testing.T) {
	now := time.UnixMilli(1_790_000_000_000)
	f := func(name string, due time.Time, partition int32, want verdict) {
		t.Helper()
		r := newRecord("a", due, partition)
		got := decide(r.Headers, now.UnixMilli(), time.Minute, 12)
		if (want.why == "") != (got.why == "") || !strings.Contains(got.why, want.why) {
			t.Errorf("%s: why is %q, want %q", name, got.why, want.why)
		}
		got.why, want.why = "", ""
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	ms := func(d time.Duration) int64 { return now.Add(d).UnixMilli() }
	due := func(d time.Duration) verdict {
		return verdict{kind: release, at: ms(d), dueMs: ms(d), target: 3}
	}
	f("within the width", now.Add(40*time.Second), 3, due(40*time.Second))
	f("at once", now, 3, due(0))
	f("overdue", now.Add(-time.Hour), 3, due(-time.Hour))
	f("a clock ahead by half a width", now.Add(90*time.Second), 3, due(90*time.Second))
	f("beyond", now.Add(90*time.Second+time.Millisecond), 3,
		verdict{kind: lap, at: ms(0), dueMs: ms(90*time.Second + time.Millisecond), target: 3})
	f("a day", now.Add(24*time.Hour), 3, verdict{kind: lap, at: ms(0), dueMs: ms(24 * time.Hour), target: 3})
	f("no such lane", now, 12, verdict{kind: poison, at: ms(0), dueMs: ms(0), why: "partition 12, there are 12"})

	r := newRecord("a", now, 0)
	bad := decide(r.Headers[:len(r.Headers)-6], ms(0), time.Minute, 12)
	if bad.kind != poison || !strings.Contains(bad.why, tier.HeaderDueMs) {
		t.Errorf("a broken ticket is %+v", bad)
	}
}

func TestEntryRecord(t *testing.T) {
	l := tier.DefaultLadder()
	topic := func(suffix string) string { return "p." + suffix }
	r := newRecord("a", time.UnixMilli(10_000_000), 5)
	e := &entry{kind: release, target: 5, dueMs: 10_000_000, key: r.Key, value: r.Value, headers: r.Headers, why: "why"}
	if got := e.record(l, topic, 12, 10_000_000); got.Topic != "p.due" || got.Partition != 5 || !got.Timestamp.IsZero() || len(got.Headers) != len(r.Headers) {
		t.Errorf("released as %s/%d at %s", got.Topic, got.Partition, got.Timestamp)
	}
	e.kind = lap
	e.headers = append(e.headers, kgo.RecordHeader{Key: tier.HeaderTier, Value: []byte("retry.1h")})
	if got := e.record(l, topic, 12, 10_000_000-(2*time.Hour).Milliseconds()); got.Topic != "p.retry.1h" || got.Partition != 44 {
		t.Errorf("two hours lap through %s/%d", got.Topic, got.Partition)
	}
	if got := e.record(l, topic, 12, 10_000_000-(95*time.Second).Milliseconds()); got.Topic != "p.retry.2m" || got.Partition != 5 {
		t.Errorf("95 s lap through %s/%d", got.Topic, got.Partition)
	} else if ticket, err := tier.DecodeTicket(got.Headers); err != nil || ticket.Tier != "retry.2m" || string(e.headers[len(e.headers)-1].Value) != "retry.1h" {
		t.Errorf("a lap is told as %q, %v", ticket.Tier, err)
	}
	e.kind = poison
	got := e.record(l, topic, 12, 0)
	letter := tier.DecodeDead(got)
	if got.Topic != "p.dead" || got.Partition != tier.DeadPartition(r.Key, 12) || letter.Reason != tier.Poison || letter.LastError != "why" {
		t.Errorf("poison goes to %s/%d as %+v", got.Topic, got.Partition, letter)
	}
}
