package retrytiers

import (
	"context"
	"slices"
	"time"

	"github.com/hookline/hookline/dispatcher/lane"
	"github.com/hookline/hookline/dispatcher/ledger"
)

// requestTimeout bounds one request to the cluster, a commit among them: a revoke waits for
// the commit that is in flight.
const requestTimeout = 5 * time.Second

// commitLoop is the one committer.
func (m *Mover) commitLoop(ctx context.Context) {
	tick := time.NewTicker(m.cfg.CommitInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		m.commitMu.Lock()
		m.mu.Lock()
		slots := slices.Clone(m.board.order)
		m.mu.Unlock()
		m.commit(slots, false)
		m.commitMu.Unlock()
	}
}

// intent is one slot's part of a commit.
type intent struct {
	slot   *slot
	offset lane.Offset
	runs   []ledger.Run
}

// commit commits the slots that are still ours and have something new, or all that are still
// ours. commitMu must be held. A failure is counted and logged; the next commit repeats it.
func (m *Mover) commit(slots []*slot, all bool) {
	now := m.now()
	intents := m.intents(slots, all, now)
	if len(intents) == 0 {
		return
	}
	offsets := make([]lane.Offset, len(intents))
	for i := range intents {
		o := &intents[i].offset
		o.Metadata = ledger.Encode(o.At, ledger.Metadata{Attempts: -1, Runs: intents[i].runs}, ledger.MaxMetadata)
		offsets[i] = *o
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	err := m.member.Commit(ctx, offsets)
	m.mu.Lock()
	for _, in := range intents {
		if err != nil {
			in.slot.dirty = true // some may have been taken, but nobody may rely on it
			continue
		}
		in.slot.committed, in.slot.commitTime = in.offset.At, now
	}
	m.mu.Unlock()
	if err == nil {
		m.met.commits.Inc()
		return
	}
	m.met.commitErr.Inc()
	if suppressed, ok := m.commitLog.allow(now); ok {
		m.log.Warn("commit failed, the next one repeats it", "error", err, "suppressed", suppressed)
	}
}

// intents reads the ledgers under the lock. Encoding is left for after it.
func (m *Mover) intents(slots []*slot, all bool, now time.Time) []intent {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []intent
	for _, s := range slots {
		if s.gone || s.broken || s.ledger == nil {
			continue
		}
		if !all && !s.dirty && now.Sub(s.commitTime) < m.cfg.RecommitInterval {
			continue
		}
		at := s.ledger.Watermark()
		if at < s.committed {
			continue // never back
		}
		s.dirty = false
		out = append(out, intent{
			slot:   s,
			offset: lane.Offset{Topic: s.topic, Partition: s.partition, At: at},
			runs:   s.ledger.AppendDone(nil),
		})
	}
	return out
}
