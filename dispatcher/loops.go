package dispatcher

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/idwindow"
	"github.com/hookline/hookline/ingest/event/scan"
)

// pumpEvery is how soon lanes notice room that no finished delivery of theirs made: a fresh
// proof of the endpoint view, bytes given back by other lanes.
const pumpEvery = 50 * time.Millisecond

func every(ctx context.Context, interval time.Duration, fn func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			fn()
		}
	}
}

func (d *Dispatcher) pumpLoop(ctx context.Context) {
	every(ctx, pumpEvery, func() {
		for _, p := range d.owned() {
			p.pump()
		}
	})
}

// sweepLoop parks deliveries that waited too long for their endpoint, and lets those pass
// whose endpoint has got more room or whose turn has come.
func (d *Dispatcher) sweepLoop(ctx context.Context) {
	every(ctx, sweepEvery, func() {
		now := time.Now()
		for _, dl := range d.gates.widened(now) {
			d.queue(dl)
		}
		for _, dl := range d.gates.expired(now) {
			d.park(dl, d.gates.why(dl, now))
		}
	})
}

// trimLoop deletes what is committed of due. Never a partition's last record: a broker that
// keeps its end offset with it would hand out old offsets again after a restart.
func (d *Dispatcher) trimLoop(ctx context.Context) {
	adm := kadm.NewClient(d.scans)
	every(ctx, d.cfg.TrimInterval, func() {
		for _, p := range d.owned() {
			p.mu.Lock()
			to, trimmed := p.due.committed, p.due.trimmed
			p.mu.Unlock()
			if to <= trimmed {
				continue
			}
			end, err := scan.End(ctx, d.scans, d.topics.due, p.number, false)
			if err != nil {
				d.throttled.warn("trim failed, it is tried again", "topic", d.topics.due, "partition", p.number, "error", err)
				continue
			}
			if to = min(to, end-1); to <= trimmed {
				continue
			}
			var offsets kadm.Offsets
			offsets.Add(kadm.Offset{Topic: d.topics.due, Partition: p.number, At: to})
			resp, err := adm.DeleteRecords(ctx, offsets)
			if err == nil {
				err = resp.Error()
			}
			if err != nil {
				d.throttled.warn("trim failed, it is tried again", "topic", d.topics.due, "partition", p.number, "error", err)
				continue
			}
			p.mu.Lock()
			p.due.trimmed = to
			p.mu.Unlock()
		}
	})
}

// segmentLoop leaves segments of the idempotency windows in dedupe for later owners.
func (d *Dispatcher) segmentLoop(ctx context.Context) {
	every(ctx, d.cfg.SegmentInterval, func() {
		for _, p := range d.owned() {
			d.writeSegments(ctx, p)
		}
	})
}

// pastSegment is a segment in dedupe, kept here to be removed once it is too old to matter.
type pastSegment struct {
	key []byte
	at  time.Time
}

// writeSegments produces what is due of one lane, in order. A segment that was not acked is
// produced again before any later one: a hole would claim that no event lies in it.
func (d *Dispatcher) writeSegments(ctx context.Context, p *partition) {
	p.mu.Lock()
	if p.started && !p.closing && len(p.segments) == 0 {
		p.segments = p.ids.Segments(p.idsNext, p.fresh.committed)
	}
	pending := p.segments
	var old []pastSegment
	for len(p.written) > 0 && time.Since(p.written[0].at) > d.cfg.IdempotencyAge {
		old = append(old, p.written[0])
		p.written = p.written[1:]
	}
	p.mu.Unlock()
	for _, s := range pending {
		if !d.produceSegment(ctx, p, s.Key(), s.Append(nil)) {
			return
		}
		p.mu.Lock()
		p.segments, p.idsNext = p.segments[1:], s.To
		p.written = append(p.written, pastSegment{key: s.Key(), at: time.Now()})
		p.mu.Unlock()
	}
	for i, s := range old {
		if !d.produceSegment(ctx, p, s.key, nil) {
			p.mu.Lock()
			p.written = append(old[i:], p.written...)
			p.mu.Unlock()
			return
		}
	}
}

func (d *Dispatcher) produceSegment(ctx context.Context, p *partition, key, value []byte) bool {
	if ctx.Err() != nil || !p.live() {
		return false
	}
	acked := make(chan error, 1)
	d.copies.Produce(d.background, &kgo.Record{Topic: d.topics.dedupe, Partition: p.number, Key: key, Value: value},
		func(_ *kgo.Record, err error) { acked <- err })
	select {
	case err := <-acked:
		if err != nil {
			d.throttled.warn("window segment not written, it is tried again", "partition", p.number, "error", err)
		}
		return err == nil
	case <-ctx.Done():
		return false
	}
}

// idsLoaded gives the idempotency window its past and decides the events that waited for it.
func (p *partition) idsLoaded(r idwindow.Rebuilt) {
	var work admitted
	now := time.Now()
	p.mu.Lock()
	p.idsNext = r.Next
	for i := range r.Segments {
		p.written = append(p.written, pastSegment{key: r.Segments[i].Key(), at: now})
	}
	for _, sl := range p.ids.Loaded(r.Entries, r.Next) {
		if p.closing {
			break
		}
		if p.claimLocked(sl, &work) {
			p.fanOutLocked(sl, sl.marked, &work)
		}
	}
	p.mu.Unlock()
	p.d.start(&work)
}

// throttle logs one message at most once per interval, with the number left out between.
type throttle struct {
	log   *slog.Logger
	every time.Duration

	mu   sync.Mutex
	last map[string]time.Time
	left map[string]int
}

func newThrottle(log *slog.Logger, every time.Duration) *throttle {
	return &throttle{log: log, every: every, last: make(map[string]time.Time), left: make(map[string]int)}
}

// warn takes constant messages only: they are its keys.
func (t *throttle) warn(msg string, args ...any) {
	t.mu.Lock()
	now := time.Now()
	if now.Sub(t.last[msg]) < t.every {
		t.left[msg]++
		t.mu.Unlock()
		return
	}
	left := t.left[msg]
	t.last[msg], t.left[msg] = now, 0
	t.mu.Unlock()
	t.log.Warn(msg, append(args, "left_out", left)...)
}
