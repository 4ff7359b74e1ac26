package analytics

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hookline/hookline/deploy/local/enginetest"
	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

func (r *rig) exec(sql string) {
	r.t.Helper()
	if err := r.conn.Exec(context.Background(), strings.ReplaceAll(sql, "hookline.", r.db+".")); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
}

// Each of these runs in a database of its own on one engine: an engine takes seconds to start.
func TestOnOneEngine(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t)
	for name, test := range map[string]func(*testing.T, *rig){
		"EveryRecordOnce":            everyRecordOnce,
		"KilledAtEveryStep":          killedAtEveryStep,
		"AnnouncedBatchKeepsItsEnds": announcedBatchKeepsItsEnds,
		"InsertFailsInAView":         insertFailsInAView,
		"TableGone":                  tableGone,
		"CommitsFail":                commitsFail,
		"MembershipLost":             membershipLost,
		"Rebalance":                  rebalance,
		"TrimmedLog":                 trimmedLog,
		"Extremes":                   extremes,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newRig(t, e))
		})
	}
}

func everyRecordOnce(t *testing.T, r *rig) {
	r.attempts(1, 3000)
	r.events(1, 300)
	letter := event.Event{ID: "evt_u9", Type: "message.sent", MessageID: "m9", Tenant: "t1", AcceptedMs: 1, Sequence: -1}
	ticket := tier.Ticket{Endpoint: "ep-1", Attempt: 16, Seq: 5, FirstMs: time.Now().UnixMilli(), Status: 503, Error: "http_503: answered 503 at /secret/path", Reason: tier.Exhausted}
	r.produce(
		&kgo.Record{Topic: r.broker.Prefix + tier.DeadSuffix, Partition: 1, Key: []byte("m9"), Value: []byte("body"), Headers: tier.AppendDead(nil, letter.Headers(nil), &ticket)},
		&kgo.Record{Topic: r.broker.Prefix + tier.DeadSuffix, Value: []byte("?"), Headers: tier.AppendPoison(nil, nil, "events/0:7: no key")},
		&kgo.Record{Topic: r.broker.Prefix + event.EventsSuffix, Value: []byte("no key, no type")},
		&kgo.Record{Topic: r.broker.Prefix + attempt.Suffix, Value: []byte{1, 2}},
	)
	run := r.start(nil)
	for _, suffix := range []string{attempt.Suffix, event.EventsSuffix, tier.DeadSuffix} {
		r.drained(suffix)
	}
	r.compare()
	eventually(t, "readiness", func() bool { return run.Ready() == nil })
	if bad := run.metric(t, "bad_records_total"); bad != 2 {
		t.Errorf("%v bad records, want 2", bad)
	}
	for sql, want := range map[string]int64{
		"(SELECT count() FROM hookline.events)":                                            300,
		"(SELECT uniqExact(sequence, src_partition) FROM hookline.events)":                 300,
		"(SELECT uniqExact(sequence - src_offset) FROM hookline.events)":                   1,
		"(SELECT min(sequence) >= 1048576 FROM hookline.events)":                           1,
		"(SELECT countIf(body_bytes = 28 AND tenant_id = 't1') FROM hookline.events)":      300,
		"(SELECT count() FROM hookline.dead_letters)":                                      2,
		"(SELECT countIf(reason = 'poison' AND event_id = '') FROM hookline.dead_letters)": 1,
		"(SELECT countIf(reason = 'exhausted' AND error_class = 'http_503' AND attempts = 16 AND last_status = 503 AND state = 'open') FROM hookline.dead_letters)": 1,
		"(SELECT count() FROM system.tables WHERE database = 'hookline' AND name LIKE 'probe%')":                                                                    0,
	} {
		if got := r.scalar(strings.ReplaceAll(strings.ReplaceAll(sql, "hookline.", r.db+"."), "'hookline'", "'"+r.db+"'")); got != want {
			t.Errorf("%s is %d, want %d", sql, got, want)
		}
	}
	if once := run.metric(t, "exactly_once"); once != 1 {
		t.Errorf("exactly_once is %v", once)
	}
	run.end(t)
	for p, o := range r.committed(attempt.Suffix) {
		if n, err := decodeIntent(o.At, o.Metadata); err != nil || n.End != 0 || len(n.Topic) != 22 {
			t.Errorf("partition %d is committed with %q, %v", p, o.Metadata, err)
		}
	}
}

// The server is killed, comes back, hangs, comes back. Meanwhile memory stays within its bound and
// the sink is ready: rows wait in Kafka. Then every row is there once.
func TestServerAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, enginetest.Start(t))
	r.attempts(1, 1000)
	const memory = 256 << 10
	run := r.start(func(cfg *Config, _ *Sink) {
		cfg.MemoryBytes, cfg.BatchBytes, cfg.InsertTimeout, cfg.Inserts = memory, 64<<10, 5*time.Second, 2
	})
	eventually(t, "first rows", func() bool { return run.metric(t, "rows_inserted_total") > 0 })
	bounded := func() {
		t.Helper()
		// One poll may come on top, of every partition.
		if used, _ := run.memory.inUse(); used > memory+4*(128<<10) {
			t.Fatalf("%d bytes in memory", used)
		}
	}
	for round, away := range []func(){r.engine.Kill, r.engine.Pause} {
		r.attempts(uint64(10+round), 1000)
		away()
		retries := run.metric(t, "insert_retries_total")
		r.attempts(uint64(20+round), 1000)
		eventually(t, "repeated inserts", func() bool { bounded(); return run.metric(t, "insert_retries_total") > retries+1 })
		if err := run.Ready(); err != nil {
			t.Errorf("not ready while the server is away: %v", err)
		}
		if round == 0 {
			r.engine.Restart()
		} else {
			r.engine.Resume()
		}
	}
	r.drained(attempt.Suffix)
	r.compare()
	eventually(t, "empty memory", func() bool { used, _ := run.memory.inUse(); return used == 0 })
}

// An insert that fails in a view behind rollups that were written already is repeated.
func insertFailsInAView(t *testing.T, r *rig) {
	run := r.start(nil)
	eventually(t, "the tables", func() bool { return run.metric(t, "exactly_once") == 1 })
	r.exec("CREATE TABLE hookline.zz (x UInt8) ENGINE = MergeTree ORDER BY x")
	r.exec("CREATE MATERIALIZED VIEW hookline.zz_mv TO hookline.zz AS SELECT throwIf(sequence % 3 = 0) AS x FROM hookline.attempts")
	r.attempts(1, 1500)
	eventually(t, "failures", func() bool { return run.metric(t, "insert_retries_total") > 8 })
	r.exec("DROP TABLE hookline.zz_mv SYNC")
	r.drained(attempt.Suffix)
	r.compare()
}

// A table that is gone stops its inserts and no others, is told, and heals without a restart.
func tableGone(t *testing.T, r *rig) {
	run := r.start(nil)
	eventually(t, "readiness", func() bool { return run.Ready() == nil && run.metric(t, "exactly_once") == 1 })
	r.exec("RENAME TABLE hookline.attempts TO hookline.away")
	r.attempts(1, 300)
	r.events(1, 300)
	r.drained(event.EventsSuffix)
	eventually(t, "not ready", func() bool { return run.Ready() != nil && run.metric(t, "partitions_failing") > 0 })
	if err := run.Ready(); !strings.Contains(err.Error(), "attempts") {
		t.Errorf("not ready: %v", err)
	}
	r.exec("RENAME TABLE hookline.away TO hookline.attempts")
	r.drained(attempt.Suffix)
	eventually(t, "readiness", func() bool { return run.Ready() == nil })
	r.compare()
}

// Two sinks hand partitions to each other under load, one of them without saying so.
func rebalance(t *testing.T, r *rig) {
	small := func(cfg *Config, _ *Sink) { cfg.BatchRows = 300 }
	a := r.start(small)
	r.attempts(1, 1500)
	for round := range uint64(2) {
		eventually(t, "progress", func() bool { return a.metric(t, "rows_inserted_total") > 0 })
		b := r.start(small)
		r.attempts(10+round, 1000)
		eventually(t, "both own", func() bool { return len(a.owned()) > 0 && len(b.owned()) > 0 })
		eventually(t, "one leads", func() bool { return a.Leads() != b.Leads() })
		r.attempts(20+round, 500)
		a.end(t)
		eventually(t, "the other leads", b.Leads)
		a = b
	}
	r.drained(attempt.Suffix)
	r.compare()
}

// What retention has removed is told; what is left of an announced batch goes in under its token.
func trimmedLog(t *testing.T, r *rig) {
	r.attempts(1, 2000)
	topic := r.broker.Prefix + attempt.Suffix
	adm := kadm.NewClient(r.client)
	to, commits := kadm.Offsets{}, kadm.Offsets{}
	ids, err := adm.ListTopics(context.Background(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for p := range int32(attemptsN) {
		to.AddOffset(topic, p, 100, -1)
		commits.Add(kadm.Offset{Topic: topic, Partition: p, At: 50, Metadata: intent{
			Topic: topicID(ids[topic].ID), End: 120 + int64(p), AtMs: time.Now().UnixMilli()}.encode()})
	}
	if err := adm.CommitAllOffsets(context.Background(), event.GroupName(r.broker.Prefix, role), commits); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.DeleteRecords(context.Background(), to); err != nil {
		t.Fatal(err)
	}
	run := r.start(nil)
	r.drained(attempt.Suffix)
	r.compare() // with what the log has left
	if n := run.metric(t, "log_gaps_total"); n != attemptsN {
		t.Errorf("%v gaps, want %d", n, attemptsN)
	}
	if n := run.metric(t, "intents_replayed_total"); n != attemptsN {
		t.Errorf("%v batches again, want %d", n, attemptsN)
	}
}

// Commits that are refused, or taken and not answered, are repeated; nothing is inserted before its
// announcement was taken, and the position is committed once more afterwards.
func commitsFail(t *testing.T, r *rig) {
	r.attempts(1, 1500)
	run := r.start(func(cfg *Config, _ *Sink) { cfg.BatchRows = 300 })
	if fake := r.broker.Fake(); fake != nil { // a real cluster does not fail on demand
		fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.CoordinatorLoadInProgress, Count: 6})
		eventually(t, "refused commits", func() bool { return run.metric(t, "commit_failures_total") > 0 })
	}
	r.drained(attempt.Suffix)
	r.compare()
	if r.broker.Fake() != nil {
		commits := run.metric(t, "commits_total")
		for _, f := range run.owned() {
			if _, due := f.suspicion(); !due.IsZero() {
				f.suspect(time.Now()) // as if the time had passed
				f.wake()
			}
		}
		eventually(t, "one more commit", func() bool { return run.metric(t, "commits_total") > commits })
	}
}

// The coordinator forgets the member in the middle: it drops its partitions without a commit, joins
// again and repeats what it had announced.
func membershipLost(t *testing.T, r *rig) {
	r.attempts(1, 1500)
	run := r.start(func(cfg *Config, _ *Sink) { cfg.BatchRows = 200 })
	eventually(t, "first rows", func() bool { return run.metric(t, "rows_inserted_total") > 0 })
	if fake := r.broker.Fake(); fake != nil {
		before := run.feed(r.broker.Prefix+attempt.Suffix, 0)
		fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.UnknownMemberID})
		r.attempts(3, 1500)
		eventually(t, "a new assignment", func() bool {
			f := run.feed(r.broker.Prefix+attempt.Suffix, 0)
			return f != nil && f != before
		})
	}
	r.attempts(2, 1500)
	r.drained(attempt.Suffix)
	r.compare()
	if used, _ := run.memory.inUse(); used != 0 {
		t.Errorf("%d bytes in memory with nothing to do", used)
	}
}
