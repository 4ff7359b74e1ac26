package dispatcher

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/hookline/hookline/ingest/event/scan"
)

// readFailed gets what the reader's client does not retry by itself. It runs in the reader's
// goroutine.
func (d *Dispatcher) readFailed(topic string, number int32, err error) {
	p := d.partition(number)
	if p == nil {
		return
	}
	if !errors.Is(err, kerr.OffsetOutOfRange) {
		d.throttled.warn("fetch failed", "topic", topic, "partition", number, "error", err)
		return
	}
	if p.halt(topic) {
		go d.reposition(p, topic)
	}
}

// halt stops the reading of a topic whose position the broker refused: the client would ask
// for it again and again. It reports false when that is under way already.
func (p *partition) halt(topic string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stream(topic)
	if !p.started || p.closing || s.halted {
		return false
	}
	s.halted = true
	p.d.reader.RemoveLater(topic, p.number)
	return true
}

// reposition finds out why a position was refused and reads on. A position inside the log is
// refused for a moment by a leader that is behind; one below its start has lost records,
// which is counted and said; one past its end is not reset and waits for an operator.
func (d *Dispatcher) reposition(p *partition, topic string) {
	d.reader.Settle() // what was polled before is in the backlog now
	select {
	case <-p.ctx.Done():
		return
	case <-time.After(repositionPause):
	}
	d.persist(p, func() error { return d.tryReposition(p, topic) })
}

// repositionPause keeps a leader that refuses what it should serve from being asked at once.
const repositionPause = 50 * time.Millisecond

func (d *Dispatcher) tryReposition(p *partition, topic string) error {
	start, err := scan.Start(p.ctx, d.scans, topic, p.number)
	if err != nil {
		return fmt.Errorf("find start of %s/%d: %w", topic, p.number, err)
	}
	end, err := scan.End(p.ctx, d.scans, topic, p.number, true)
	if err != nil {
		return fmt.Errorf("find end of %s/%d: %w", topic, p.number, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return nil
	}
	s := p.stream(topic)
	at := s.nextPolledLocked()
	if at > end {
		return fmt.Errorf("%s/%d: position %d, end %d: %w", topic, p.number, at, end, errPastEnd)
	}
	if at < start {
		d.metrics.recordsGone.WithLabelValues(d.topics.room(topic)).Add(float64(start - at))
		d.log.Error("records expired before they were delivered", "topic", topic, "partition", p.number, "from", at, "to", start)
		if s.backlog.len() == 0 { // else the next record that comes closes the gap
			s.ledger.Skip(start)
			p.dirty = true
		}
		at = start
	}
	s.halted, s.paused = false, false // Add resumes
	d.reader.Add(topic, p.number, at)
	return nil
}
