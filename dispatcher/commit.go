package dispatcher

import (
	"context"
	"time"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/lane"
	"github.com/hookline/hookline/dispatcher/ledger"
)

const (
	// recommitEvery keeps the offsets of quiet partitions alive: a broker expires offsets
	// of topics that the group does not subscribe to, and due is one.
	recommitEvery = 30 * time.Second
	commitTimeout = 5 * time.Second
)

// commit commits what is safe of the given lanes. The caller holds commitMu, the lock that
// revoke takes before it seals a lane, so a lane that was given up is never committed.
func (d *Dispatcher) commit(ctx context.Context, parts []*partition) error {
	now := time.Now()
	var offsets []lane.Offset
	var touched []*partition
	for _, p := range parts {
		var ok bool
		if offsets, ok = p.appendOffsets(offsets, now); ok {
			touched = append(touched, p)
		}
	}
	if len(offsets) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	if err := d.member.Commit(ctx, offsets); err != nil {
		d.metrics.commitFailures.Inc()
		for _, p := range touched { // what is not known to be committed is committed again
			p.mu.Lock()
			p.dirty = true
			p.mu.Unlock()
		}
		return err
	}
	for _, o := range offsets {
		if p := d.partition(o.Partition); p != nil {
			p.mu.Lock()
			p.stream(o.Topic).committed = o.At
			p.lastCommit = now
			p.mu.Unlock()
		}
	}
	return nil
}

// appendOffsets appends both positions of the lane if anything changed since the last commit
// or that is 30 s ago. Both go together, since both name the same attempts offset.
func (p *partition) appendOffsets(dst []lane.Offset, now time.Time) ([]lane.Offset, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.started || p.closed || !p.dirty && now.Sub(p.lastCommit) < recommitEvery {
		return dst, false
	}
	p.dirty = false
	rowsFrom := p.rowsFromLocked() // before the bitmaps: a row acked in between is read again
	for _, s := range []*stream{p.fresh, p.due} {
		at := s.ledger.Watermark()
		meta := ledger.Encode(at, ledger.Metadata{Attempts: rowsFrom, Runs: s.ledger.AppendDone(nil)}, ledger.MaxMetadata)
		dst = append(dst, lane.Offset{Topic: s.topic, Partition: p.number, At: at, Metadata: meta})
	}
	return dst, true
}

// rowsFromLocked is the attempts offset that a new owner must read from: the lowest row of a
// slot that is still open, of a mark whose record was not read yet, else the offset behind
// the last row that this process got acked. Rows under way lie behind that one, since one
// producer writes them in order.
func (p *partition) rowsFromLocked() int64 {
	number := attempt.PartitionFor(p.number, p.d.topics.attemptsN)
	from := max(p.rowFloor, p.d.rows.acked(number))
	for sl := range p.partial {
		if sl.lowRow >= 0 {
			from = min(from, sl.lowRow)
		}
	}
	for _, s := range []*stream{p.fresh, p.due} {
		for offset, marks := range s.marks {
			if offset < s.ledger.Next() {
				delete(s.marks, offset) // its record is gone
				continue
			}
			from = min(from, lowestRow(marks))
		}
	}
	return from
}

// commitLoop is the one committer of the process.
func (d *Dispatcher) commitLoop(ctx context.Context) {
	tick := time.NewTicker(d.cfg.CommitInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		d.commitMu.Lock()
		err := d.commit(ctx, d.owned())
		d.commitMu.Unlock()
		if err != nil && ctx.Err() == nil {
			d.throttled.warn("commit failed, it is tried again", "error", err)
		}
	}
}
