package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hookline/hookline/analytics/clickhouse"
	groups "github.com/hookline/hookline/analytics/progress"
	"github.com/hookline/hookline/analytics/report"
	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

// questions is what both listeners ask of ClickHouse, over a pool of its own: the sink never
// waits for a reader.
type questions struct {
	reporter *report.Reporter
	slots    chan struct{} // operators' questions under way
	log      *slog.Logger
}

const (
	// questionConns are for operators' questions and for the look-ups that ingest lets in.
	questionConns = maxQuestions + 8
	maxQuestions  = 4
	// lagKept is how long a measured lag is told again.
	lagKept = time.Second
)

// analyticsOff says whether the settings name no ClickHouse.
func analyticsOff(dsn string) bool { return dsn == "" || dsn == "off" }

// openQuestions makes the pool. Nothing is sent until something is asked. It leaves n.questions
// nil without ClickHouse.
func (n *node) openQuestions() error {
	if analyticsOff(n.cfg.ClickHouseDSN) || n.questions != nil {
		return nil
	}
	conn, err := clickhouse.Open(n.cfg.ClickHouseDSN, questionConns)
	if err != nil {
		return err
	}
	n.onClose(func() { _ = conn.Close() }) // nothing is under way then
	prefix := n.cfg.Kafka.Prefix
	offsets := groups.NewReader(n.cluster.adm, n.base.options("admin"))
	group := event.GroupName(prefix, roleAnalytics)
	topics := []string{prefix + event.EventsSuffix, prefix + attempt.Suffix, prefix + tier.DeadSuffix}
	n.questions = &questions{
		reporter: report.New(report.Deps{Conn: conn, Lag: groups.Cached(lagKept, func(ctx context.Context) (time.Duration, error) {
			return offsets.Lag(ctx, group, topics...)
		})}),
		slots: make(chan struct{}, maxQuestions),
		log:   n.log.With("role", "questions"),
	}
	return nil
}

// enter takes a place among the operators' questions, waiting for a moment.
func (q *questions) enter(ctx context.Context) (leave func(), err error) {
	wait, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	select {
	case q.slots <- struct{}{}:
		return func() { <-q.slots }, nil
	case <-wait.Done():
		return nil, errors.New("too many questions are under way")
	}
}

// lookups answers what producers ask of ingest.
type lookups struct{ reporter *report.Reporter }

// LookupEvent implements ingest.Lookup.
func (l lookups) LookupEvent(ctx context.Context, tenant, id string) ([]byte, time.Time, error) {
	return l.pull(ctx, report.Subject{Tenant: tenant, EventID: id})
}

// LookupMessage implements ingest.Lookup.
func (l lookups) LookupMessage(ctx context.Context, tenant, messageID string) ([]byte, time.Time, error) {
	return l.pull(ctx, report.Subject{Tenant: tenant, MessageID: messageID})
}

func (l lookups) pull(ctx context.Context, s report.Subject) ([]byte, time.Time, error) {
	if s.Tenant == "" {
		return nil, time.Time{}, errors.New("a look-up without a tenant")
	}
	found, err := l.reporter.Lookup(ctx, s)
	if err != nil {
		return nil, time.Time{}, err
	}
	// What is not there may have come after what ClickHouse has taken.
	asOf := found.AsOf.Add(-max(0, found.Lag))
	if len(found.Events) == 0 {
		return nil, asOf, nil
	}
	raw, err := json.Marshal(found.Pull(found.Events[0].MessageID))
	if err != nil {
		return nil, asOf, fmt.Errorf("encode the answer of a look-up: %w", err)
	}
	return raw, asOf, nil
}
