package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hookline/hookline/analytics/progress"
)

// errLate ends a round whose offsets were not passed in time: somebody is behind, and what
// ClickHouse holds proves nothing yet.
var errLate = errors.New("not everything of the round has come to ClickHouse in time")

// proof is what the offsets of a round allow to be counted.
type proof struct {
	// groups are the partitions of events by the partition of attempts that has their rows.
	groups map[int32][]int32
	below  map[int32]uint64 // by partition of events: all below has its rows in ClickHouse
	// What waited until before horizon, with its last row below lastRow, has come to due and
	// been handled: a further row of it is in ClickHouse. By partition of attempts; a horizon
	// in 1970 proves nothing.
	horizon map[int32]time.Time
	lastRow map[int32]uint64
}

// prove looks at the offsets, in the order that the proofs need, and waits until the sink has
// passed them.
func (r *Reconciler) prove(ctx context.Context) (*proof, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Wait)
	defer cancel()
	moved, err := r.offsets.Committed(ctx, r.cfg.Movers)
	if err != nil {
		return nil, err
	}
	trimmed, err := r.offsets.Starts(ctx, r.cfg.Retry...)
	if err != nil {
		return nil, err
	}
	old := r.history.latest(func(topic string, p int32) int64 { return max(moved.At(topic, p, 0), trimmed.At(topic, p, 0)) })
	if old != nil {
		r.metrics.provenAt(old.at)
	}
	due, err := r.offsets.Ends(ctx, r.cfg.Due) // after moved: it holds all that was moved
	if err != nil {
		return nil, err
	}
	dispatched, behind, err := r.passDue(ctx, due)
	if err != nil {
		return nil, err
	}
	starts, err := r.offsets.Starts(ctx, r.cfg.Events)
	if err != nil {
		return nil, err
	}
	rows, err := r.offsets.Ends(ctx, r.cfg.Attempts) // after dispatched: it holds all rows of it
	if err != nil {
		return nil, err
	}
	need := progress.Offsets{r.cfg.Attempts: rows[r.cfg.Attempts], r.cfg.Events: {}}
	out := &proof{groups: map[int32][]int32{}, below: map[int32]uint64{}, horizon: map[int32]time.Time{}, lastRow: map[int32]uint64{}}
	n := int32(len(rows[r.cfg.Attempts]))
	if n == 0 {
		return nil, fmt.Errorf("topic %s has no partitions", r.cfg.Attempts)
	}
	for p := range starts[r.cfg.Events] {
		at := dispatched.At(r.cfg.Events, p, 0)
		need[r.cfg.Events][p] = at
		a := r.cfg.AttemptsOf(p, n)
		out.groups[a], out.below[p] = append(out.groups[a], p), uint64(max(0, at))
		if _, seen := out.horizon[a]; !seen {
			out.horizon[a] = time.UnixMilli(0)
			if old != nil {
				out.horizon[a], out.lastRow[a] = old.at.Add(-r.cfg.Grace), uint64(max(0, old.attempts.At(r.cfg.Attempts, a, 0)))
			}
		}
		if behind[p] {
			out.horizon[a], out.lastRow[a] = time.UnixMilli(0), 0
		}
	}
	for a := range out.groups {
		slices.Sort(out.groups[a])
	}
	return out, r.passAll(ctx, r.cfg.Analytics, need)
}

// patience is the part of Wait that dispatchers have to come to the end of due. Those that
// have not are counted all the same, without a judgement on what waits.
const patience = 4

// passDue waits for the dispatchers to pass the ends of due. It returns their commits, of one
// instant, and the partitions that they have not passed.
func (r *Reconciler) passDue(ctx context.Context, due progress.Offsets) (progress.Offsets, map[int32]bool, error) {
	limit := time.NewTimer(r.cfg.Wait / patience)
	defer limit.Stop()
	for {
		starts, err := r.offsets.Starts(ctx, r.cfg.Due)
		if err != nil {
			return nil, nil, err
		}
		committed, err := r.offsets.Committed(ctx, r.cfg.Dispatcher)
		if err != nil {
			return nil, nil, err
		}
		behind := map[int32]bool{}
		for p, end := range due[r.cfg.Due] {
			if max(committed.At(r.cfg.Due, p, 0), starts.At(r.cfg.Due, p, 0)) < end {
				behind[p] = true
			}
		}
		if len(behind) == 0 {
			return committed, behind, nil
		}
		select {
		case <-limit.C:
			return committed, behind, nil
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("wait for the dispatchers: %w", ctx.Err())
		case <-time.After(poll):
		}
	}
}

const poll = 250 * time.Millisecond

// passAll waits until a group has committed up to need.
func (r *Reconciler) passAll(ctx context.Context, group string, need progress.Offsets) error {
	for {
		committed, err := r.offsets.Committed(ctx, group)
		if err != nil {
			return err
		}
		late := ""
		for topic, ps := range need {
			for p, end := range ps {
				if committed.At(topic, p, 0) < end {
					late = fmt.Sprintf("%s/%d is at %d, %d are needed", topic, p, committed.At(topic, p, 0), end)
				}
			}
		}
		if late == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", errLate, late)
		case <-time.After(poll):
		}
	}
}

// remember takes the snapshot for rounds to come: attempts first, then retry.
func (r *Reconciler) remember(ctx context.Context) error {
	s := snapshot{at: r.now()}
	var err error
	if s.attempts, err = r.offsets.Ends(ctx, r.cfg.Attempts); err != nil {
		return err
	}
	if s.retry, err = r.offsets.Ends(ctx, r.cfg.Retry...); err != nil {
		return err
	}
	r.history.add(s)
	return nil
}
