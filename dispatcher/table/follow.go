package table

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event/scan"
)

// Run loads the view and follows the topic until ctx is done, then returns nil. It outlasts
// any failure of the brokers: the proof grows old meanwhile and what was applied stays. The
// error is one that waiting does not mend: no permission, or a topic that lost its end or was
// made again, in which case nothing that was read can be trusted and the process should
// start anew. Run may be called once.
func (t *Table) Run(ctx context.Context) error {
	defer t.publish(func() { t.ended = true })
	cl, err := kgo.NewClient(readOptions(t.cfg.Kafka)...)
	if err != nil {
		return fmt.Errorf("make client of table %s: %w", t.cfg.Topic, err)
	}
	defer cl.Close()
	for {
		err := t.follow(ctx, cl)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errReload), scan.Retriable(err):
			// The scan has already retried for its budget, so this line comes rarely.
			t.cfg.Log.Warn("table is loaded anew", "error", err)
		default:
			return fmt.Errorf("run table %s: %w", t.cfg.Topic, err)
		}
	}
}

// errReload means that changes may have been missed and only a load can tell.
var errReload = errors.New("changes may have been missed")

// follow loads the view and applies what comes until something is wrong.
func (t *Table) follow(ctx context.Context, cl *kgo.Client) error {
	view, tail, err := load(ctx, cl, t.cfg.Topic, nil)
	if err != nil {
		return err
	}
	t.replace(view, tail.Position())
	t.advance(tail.Position(), tail.Sent())
	for {
		before := tail.Sent()
		recs, next, end, err := t.next(ctx, tail)
		switch {
		case startMoved(err), err == nil && stale(before, tail.Sent()):
			return errors.Join(errReload, err)
		case err != nil:
			return err
		}
		t.apply(recs)
		proof := time.Time{}
		if next >= end {
			proof = tail.Sent()
		}
		t.advance(next, proof)
	}
}

// next is one poll. It keeps the position over the failures of a broker.
func (t *Table) next(ctx context.Context, tail *scan.Tail) (recs []*kgo.Record, next, end int64, err error) {
	for {
		wait := pollWait
		t.mu.Lock()
		if t.asking > 0 {
			wait = askWait
		}
		t.mu.Unlock()
		recs, next, end, err = tail.Next(ctx, wait)
		if err == nil || ctx.Err() != nil || !scan.Retriable(err) {
			return recs, next, end, err
		}
		t.cfg.Log.Warn("table cannot be read", "error", err)
	}
}

// apply takes records in order. The view shows all of them at once, then OnChange hears.
func (t *Table) apply(recs []*kgo.Record) {
	if len(recs) == 0 {
		return
	}
	values := make([][]byte, len(recs))
	keys := make([]string, len(recs))
	t.viewMu.Lock()
	for i, r := range recs {
		keys[i], values[i] = t.view.apply(r)
	}
	t.viewMu.Unlock()
	if t.cfg.OnChange == nil {
		return
	}
	for i, r := range recs {
		t.cfg.OnChange(keys[i], values[i], r.Offset)
	}
}

// replace puts a loaded view in the place of the old one and tells OnChange the difference,
// in the order of the log, with the keys that are gone last: their tombstones were somewhere
// below position and have been compacted away.
func (t *Table) replace(view View, position int64) {
	type change struct {
		key string
		Entry
	}
	var changes []change
	var gone []string
	for k, e := range view.entries {
		if old, ok := t.view.entries[k]; !ok || !old.same(e) {
			changes = append(changes, change{k, e})
		}
	}
	for k := range t.view.entries {
		if _, ok := view.entries[k]; !ok {
			gone = append(gone, k)
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.Offset, b.Offset) })
	slices.Sort(gone)

	t.viewMu.Lock()
	t.view = view
	t.viewMu.Unlock()
	if t.cfg.OnChange == nil {
		return
	}
	for _, c := range changes {
		t.cfg.OnChange(c.key, c.Value, c.Offset)
	}
	for _, k := range gone {
		t.cfg.OnChange(k, nil, position-1)
	}
}

// advance publishes the position, and the proof unless it is zero.
func (t *Table) advance(next int64, proof time.Time) {
	t.publish(func() {
		t.applied = max(t.applied, next)
		if proof.After(t.proven) {
			t.proven = proof
		}
	})
}
