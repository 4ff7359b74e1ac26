package dispatcher

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/hookline/hookline/dispatcher/idwindow"
	"github.com/hookline/hookline/dispatcher/lane"
	"github.com/hookline/hookline/ingest/event"
)

// assigned starts taking over the lanes of new partitions. It returns at once: the group
// must not wait for it.
func (d *Dispatcher) assigned(ctx context.Context, a lane.Assignment) {
	now := time.Now()
	if len(d.pick(a)) > 0 {
		// The group says twice that we own them. What was between is not known: start over.
		d.lost(ctx, a)
	}
	for _, number := range a[d.topics.events] {
		p := newPartition(d, number)
		d.mu.Lock()
		d.lanes[number] = p
		d.mu.Unlock()
		go d.open(p, now)
	}
}

// revoked drains the lanes, commits them once and ends them. Others own them when it returns.
func (d *Dispatcher) revoked(ctx context.Context, a lane.Assignment) {
	parts := d.pick(a)
	for _, p := range parts {
		p.close()
	}
	deadline := time.NewTimer(d.cfg.DrainTimeout)
	defer deadline.Stop()
drain:
	for _, p := range parts {
		select {
		case <-p.idle:
		case <-deadline.C:
			d.log.Warn("lanes given up with deliveries in flight: the next owner repeats them")
			break drain
		}
	}
	d.commitMu.Lock()
	if err := d.commit(ctx, parts); err != nil {
		d.log.Warn("last commit of revoked lanes failed: the next owner repeats a little", "error", err)
	}
	d.end(parts)
	d.commitMu.Unlock()
}

// lost ends lanes that others may own already: nothing of them is committed.
func (d *Dispatcher) lost(_ context.Context, a lane.Assignment) {
	parts := d.pick(a)
	for _, p := range parts {
		p.close()
	}
	for _, p := range parts {
		p.disown() // before the lock: a commit that waits for it must find the lane closed
	}
	d.commitMu.Lock()
	d.end(parts)
	d.commitMu.Unlock()
}

// endAll ends whatever the group did not take back, for example after a fencing.
func (d *Dispatcher) endAll() {
	all := lane.Assignment{}
	for _, p := range d.owned() {
		all[d.topics.events] = append(all[d.topics.events], p.number)
	}
	d.lost(context.Background(), all)
}

func (d *Dispatcher) pick(a lane.Assignment) []*partition {
	var out []*partition
	for _, number := range a[d.topics.events] {
		if p := d.partition(number); p != nil {
			out = append(out, p)
		}
	}
	return out
}

// end makes results of the lanes worthless. The caller holds commitMu.
func (d *Dispatcher) end(parts []*partition) {
	for _, p := range parts {
		p.seal()
		d.reader.RemoveLater(d.topics.events, p.number)
		d.reader.RemoveLater(d.topics.due, p.number)
		d.mu.Lock()
		if d.lanes[p.number] == p {
			delete(d.lanes, p.number)
		}
		d.mu.Unlock()
	}
}

// open takes a lane over and starts reading it. It tries until it works or the lane is
// given up; a lane whose log contradicts what was committed waits for an operator.
func (d *Dispatcher) open(p *partition, since time.Time) {
	d.persist(p, func() error { return d.tryOpen(p, since) })
}

// persist calls try until it works or the lane is given up, and shows a lane that only an
// operator can help.
func (d *Dispatcher) persist(p *partition, try func() error) {
	pause := newPause()
	stuck := false
	defer func() {
		if stuck {
			d.metrics.lanesStuck.Dec()
		}
	}()
	for {
		err := try()
		if err == nil || p.ctx.Err() != nil {
			return
		}
		if errors.Is(err, errPastEnd) && !stuck {
			stuck = true
			d.metrics.lanesStuck.Inc()
		}
		d.log.Error("lane cannot be read, it is tried again", "partition", p.number, "error", err)
		select {
		case <-p.ctx.Done():
			return
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// newPause is the wait between tries that never end.
func newPause() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(50*time.Millisecond),
		backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
}

func (d *Dispatcher) tryOpen(p *partition, since time.Time) error {
	// A proof from before the assignment could hide an endpoint whose change was answered
	// when this process did not own the lane yet, and so was not waited for.
	if err := d.view.WaitProven(p.ctx, since); err != nil {
		return err
	}
	t, err := p.takeOver(p.ctx)
	if err != nil {
		return err
	}
	d.reader.Settle() // what was read for an earlier owner here is out of the way
	p.begin(t)
	// The first commit comes before the first record: it names the attempts offset from
	// which the next owner reads, and without it a crash would repeat all that was finished.
	d.commitMu.Lock()
	err = d.commit(p.ctx, []*partition{p})
	d.commitMu.Unlock()
	if err != nil {
		return err
	}
	p.mu.Lock()
	if !p.closing {
		d.reader.Add(p.fresh.topic, p.number, p.fresh.ledger.Next())
		d.reader.Add(p.due.topic, p.number, p.due.ledger.Next())
	}
	watermark := p.fresh.ledger.Next()
	p.mu.Unlock()
	go d.loadIDs(p, watermark, d.place(p.number, t.topicID))
	return nil
}

// loadIDs rebuilds the idempotency window; events with a key wait for it, others do not.
func (d *Dispatcher) loadIDs(p *partition, watermark int64, place event.Place) {
	pause := newPause()
	for {
		rebuilt, err := idwindow.Load(p.ctx, idwindow.Source{
			Client: d.scans, Events: d.topics.events, Dedupe: d.topics.dedupe, Partition: p.number,
			Decode: d.decode, Keyed: place.Keyed,
			Watermark: watermark, Age: d.cfg.IdempotencyAge, Max: d.cfg.IdempotencyIDs,
		})
		if err == nil {
			// Events that waited are routed now, so the view must be proven now.
			err = d.view.WaitProven(p.ctx, time.Now())
		}
		if err == nil {
			p.idsLoaded(rebuilt)
			return
		}
		if p.ctx.Err() != nil {
			return
		}
		d.throttled.warn("idempotency window not loaded, events with a key wait", "partition", p.number, "error", err)
		select {
		case <-p.ctx.Done():
			return
		case <-time.After(pause.NextBackOff()):
		}
	}
}
