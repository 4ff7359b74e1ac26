package retrytiers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/lane"
	"github.com/hookline/hookline/dispatcher/ledger"
)

// onAssigned takes slots over. They are opened by a goroutine of their own: the group must
// not wait for offsets and log ends.
func (m *Mover) onAssigned(_ context.Context, a lane.Assignment) {
	var slots []*slot
	if old := m.take(a); len(old) > 0 {
		// The group says twice that we own them. What was between is not known: start over.
		m.lose(old)
	}
	m.mu.Lock()
	for topic, partitions := range a {
		for _, p := range partitions {
			s, err := m.newSlot(topic, p)
			if err != nil {
				m.stop(err)
				continue
			}
			m.board.add(s)
			slots = append(slots, s)
		}
	}
	m.mu.Unlock()
	m.assigned.Store(true)
	m.log.Info("slots assigned", "slots", len(slots))
	m.wg.Go(func() { m.open(slots) })
}

func (m *Mover) newSlot(topic string, partition int32) (*slot, error) {
	suffix := strings.TrimPrefix(topic, m.prefix)
	floor, ok := m.cfg.Ladder.Floor(suffix, partition)
	width, _ := m.cfg.Ladder.Width(suffix, partition)
	if !ok {
		// Partitions were added to the topic while we ran.
		return nil, fmt.Errorf("assigned %s/%d, which is no slot of the ladder: run hookline topics verify", topic, partition)
	}
	return &slot{
		topic: topic, suffix: suffix, partition: partition,
		floor: floor, width: width, lead: leadOf(floor, width),
		committed: -1,
	}, nil
}

// open starts the reading of slots, each where the group left off.
func (m *Mover) open(slots []*slot) {
	byTopic := make(map[string][]*slot)
	for _, s := range slots {
		byTopic[s.topic] = append(byTopic[s.topic], s)
	}
	for topic, slots := range byTopic {
		err := m.retry(m.work, "open slots of "+topic, func() error { return m.openTopic(topic, slots) })
		if err != nil && m.work.Err() == nil {
			m.stop(err)
		}
	}
}

// logEnds asks for the first and the next offset of a topic's partitions.
func (m *Mover) logEnds(ctx context.Context, topic string) (starts, ends kadm.ListedOffsets, err error) {
	if starts, err = m.adm.ListStartOffsets(ctx, topic); err == nil {
		ends, err = m.adm.ListEndOffsets(ctx, topic)
	}
	return starts, ends, err
}

func (m *Mover) openTopic(topic string, slots []*slot) error {
	ctx, cancel := context.WithTimeout(m.work, requestTimeout)
	defer cancel()
	partitions := make([]int32, 0, len(slots))
	for _, s := range slots {
		partitions = append(partitions, s.partition)
	}
	committed, err := m.member.Committed(ctx, topic, partitions)
	if err != nil {
		return err
	}
	// After the commits: a trim in between can then only look like one that was ours.
	starts, ends, err := m.logEnds(ctx, topic)
	if err != nil {
		return err
	}
	m.reader.Settle() // what was read for an earlier owner here is out of the way
	var failed error
	for _, s := range slots {
		start, end := starts[topic][s.partition], ends[topic][s.partition]
		if err := errors.Join(start.Err, end.Err); err != nil {
			failed = fmt.Errorf("look up log of %s/%d: %w", topic, s.partition, err)
			continue
		}
		c := committed[s.partition]
		at, err := locate(c.At, c.Metadata, start.Offset, end.Offset)
		if err != nil {
			m.pastEnd(s, err)
			continue
		}
		m.begin(s, c.At, at)
	}
	return failed
}

// begin makes a slot readable and adds it to the reader, unless it was opened by an earlier
// try or has ended meanwhile.
func (m *Mover) begin(s *slot, committed int64, p position) {
	m.readerMu.Lock()
	defer m.readerMu.Unlock()
	m.mu.Lock()
	if s.closing || s.gone || s.ledger != nil {
		m.mu.Unlock()
		return
	}
	s.ledger = ledger.New(p.at, ledger.Limits{Offsets: maxAhead})
	for _, r := range p.marks {
		s.ledger.MarkRange(r.From, r.To)
	}
	s.committed, s.dirty = committed, true
	m.mu.Unlock()
	m.note(s, committed, p)
	m.reader.Add(s.topic, s.partition, p.at)
}

// note counts and logs what is unusual about a position.
func (m *Mover) note(s *slot, committed int64, p position) {
	if p.trimmed {
		m.met.belowStart.Inc()
		m.log.Error("log begins above the commit, records were removed before their release",
			"topic", s.topic, "partition", s.partition, "committed", committed, "start", p.at)
	}
	if p.corrupt != nil {
		m.met.metadata.Inc()
		m.log.Warn("commit metadata is unreadable, what it marked is repeated",
			"topic", s.topic, "partition", s.partition, "error", p.corrupt)
	}
}

// pastEnd ends the run: going on would skip records.
func (m *Mover) pastEnd(s *slot, err error) {
	var past *errPastEnd
	if errors.As(err, &past) {
		past.topic, past.partition = s.topic, s.partition
	}
	m.mu.Lock()
	s.broken = true
	m.mu.Unlock()
	m.stop(err)
}

// fetchFailed hears of errors that the reader's client does not retry. It runs in the
// reader's goroutine.
func (m *Mover) fetchFailed(topic string, partition int32, err error) {
	m.mu.Lock()
	s := m.board.slots[place{topic, partition}]
	known := s != nil && !s.closing && !s.reopen && s.ledger != nil
	if known {
		s.reopen = true
	}
	m.mu.Unlock()
	if !known {
		return // an error of a slot that ends or is being opened again, or of no partition
	}
	if suppressed, ok := m.openLog.allow(m.now()); ok {
		m.log.Warn("slot will be opened again", "topic", topic, "partition", partition, "error", err, "suppressed", suppressed)
	}
	if loss := (*kgo.ErrDataLoss)(nil); errors.As(err, &loss) {
		m.pastEnd(s, fmt.Errorf("read %s/%d: %w", topic, partition, err))
		return
	}
	m.met.reopened.Inc()
	m.reader.RemoveLater(topic, partition)
	m.wg.Go(func() {
		err := m.retry(m.work, "open slot again", func() error { return m.resume(s) })
		if err != nil && m.work.Err() == nil {
			m.stop(err)
		}
	})
}

// resume reads on where a slot stopped, or at the log start if that has moved past it.
func (m *Mover) resume(s *slot) error {
	ctx, cancel := context.WithTimeout(m.work, requestTimeout)
	defer cancel()
	starts, ends, err := m.logEnds(ctx, s.topic)
	if err != nil {
		return err
	}
	start, end := starts[s.topic][s.partition], ends[s.topic][s.partition]
	if err := errors.Join(start.Err, end.Err); err != nil {
		return fmt.Errorf("look up log of %s/%d: %w", s.topic, s.partition, err)
	}
	m.readerMu.Lock()
	defer m.readerMu.Unlock()
	m.mu.Lock()
	next := s.ledger.Next()
	over := s.closing || s.gone
	p, err := locate(next, "", start.Offset, end.Offset)
	if err == nil && !over {
		s.ledger.Skip(p.at)
		s.reopen, s.paused, s.dirty = false, false, true // Add resumes
	}
	m.mu.Unlock()
	switch {
	case over:
		return nil
	case err != nil:
		m.pastEnd(s, err)
		return nil
	}
	m.note(s, next, p)
	m.reader.Add(s.topic, s.partition, p.at)
	return nil
}

// take returns the slots of an assignment that are ours.
func (m *Mover) take(a lane.Assignment) []*slot {
	m.mu.Lock()
	defer m.mu.Unlock()
	var slots []*slot
	for topic, partitions := range a {
		for _, p := range partitions {
			if s := m.board.slots[place{topic, p}]; s != nil {
				slots = append(slots, s)
			}
		}
	}
	return slots
}

// end stops the reading of slots and what they do.
func (m *Mover) end(slots []*slot) {
	m.readerMu.Lock()
	defer m.readerMu.Unlock()
	m.mu.Lock()
	m.board.close(slots)
	m.mu.Unlock()
	for _, s := range slots {
		m.reader.RemoveLater(s.topic, s.partition)
	}
}

// onRevoked hands slots over: nothing new, wait for what is with the producer, one last
// commit under the lock of the committer, and no commit of them after that.
func (m *Mover) onRevoked(ctx context.Context, a lane.Assignment) {
	slots := m.take(a)
	m.end(slots)
	m.flush(ctx, slots)
	m.commitMu.Lock()
	defer m.commitMu.Unlock()
	m.commit(slots, true)
	m.mu.Lock()
	m.board.remove(slots)
	m.mu.Unlock()
	m.log.Info("slots revoked", "slots", len(slots))
	m.wakeLoop() // the wheel has room for the slots that stay
}

// onLost drops slots: somebody else may own them already.
func (m *Mover) onLost(_ context.Context, a lane.Assignment) {
	slots := m.take(a)
	m.lose(slots)
	m.log.Warn("slots lost", "slots", len(slots))
}

func (m *Mover) lose(slots []*slot) {
	m.mu.Lock()
	m.board.remove(slots) // first, so that a commit that begins now leaves them out
	m.mu.Unlock()
	m.end(slots)
	m.wakeLoop()
}

// abandon drops what is left when the membership has ended without a revoke.
func (m *Mover) abandon() {
	m.mu.Lock()
	slots := slices.Clone(m.board.order)
	m.mu.Unlock()
	m.lose(slots)
}

// flush waits until nothing of slots is with the producer, at most FlushTimeout.
func (m *Mover) flush(ctx context.Context, slots []*slot) {
	timeout := time.NewTimer(m.cfg.FlushTimeout)
	defer timeout.Stop()
	for _, s := range slots {
		m.mu.Lock()
		var idle chan struct{}
		if s.inflight > 0 {
			idle = make(chan struct{})
			s.idle = idle
		}
		m.mu.Unlock()
		if idle == nil {
			continue
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return
		case <-timeout.C:
			return
		}
	}
}
