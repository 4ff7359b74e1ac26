package retrytiers

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// trimLoop deletes what is behind the commits.
func (m *Mover) trimLoop(ctx context.Context) {
	tick := time.NewTicker(m.cfg.TrimInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := m.trim(ctx); err != nil && ctx.Err() == nil {
			m.met.trimErr.Inc()
			if suppressed, ok := m.trimLog.allow(m.now()); ok {
				m.log.Warn("trim failed, the next one repeats it", "error", err, "suppressed", suppressed)
			}
		}
	}
}

// trimPoint is the first offset to keep: nothing that is not committed as done is deleted,
// and never a partition's last record.
func trimPoint(committed, end int64) int64 { return min(committed, end-1) }

// trim deletes records of owned slots up to what this process has seen committed. A slot
// that is revoked meanwhile is trimmed all the same: its next owner starts at or after it.
func (m *Mover) trim(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	behind := make(map[place]*slot)
	topics := make(map[string]bool)
	m.mu.Lock()
	for p, s := range m.board.slots {
		if !s.broken && s.committed > s.trimmed {
			behind[p] = s
			topics[p.topic] = true
		}
	}
	m.mu.Unlock()
	if len(behind) == 0 {
		return nil
	}
	names := make([]string, 0, len(topics))
	for t := range topics {
		names = append(names, t)
	}
	starts, err := m.adm.ListStartOffsets(ctx, names...)
	if err != nil {
		return fmt.Errorf("look up log starts: %w", err)
	}
	ends, err := m.adm.ListEndOffsets(ctx, names...)
	if err != nil {
		return fmt.Errorf("look up log ends: %w", err)
	}
	targets := make(kadm.Offsets)
	m.mu.Lock()
	for p, s := range behind {
		start, end := starts[p.topic][p.partition], ends[p.topic][p.partition]
		if start.Err != nil || end.Err != nil {
			continue // the next trim asks again
		}
		if to := trimPoint(s.committed, end.Offset); to > start.Offset {
			targets.Add(kadm.Offset{Topic: p.topic, Partition: p.partition, At: to})
		}
	}
	m.mu.Unlock()
	if len(targets) == 0 {
		return nil
	}
	deleted, err := m.adm.DeleteRecords(ctx, targets)
	if err != nil {
		return fmt.Errorf("delete records: %w", err)
	}
	return m.trimmed(behind, starts, targets, deleted)
}

// trimmed takes note of what was deleted and returns what was refused.
func (m *Mover) trimmed(behind map[place]*slot, starts kadm.ListedOffsets, targets kadm.Offsets, deleted kadm.DeleteRecordsResponses) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var failed error
	deleted.Each(func(d kadm.DeleteRecordsResponse) {
		if d.Err != nil {
			failed = fmt.Errorf("delete records of %s/%d: %w", d.Topic, d.Partition, d.Err)
			return
		}
		to, ok := targets.Lookup(d.Topic, d.Partition)
		s := behind[place{d.Topic, d.Partition}]
		if !ok || s == nil {
			return
		}
		s.trimmed = to.At
		m.met.trimmed.WithLabelValues(s.suffix).Add(float64(to.At - starts[d.Topic][d.Partition].Offset))
	})
	return failed
}
