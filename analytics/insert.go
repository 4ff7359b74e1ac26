package analytics

import (
	"context"
	"fmt"
	"time"

	"github.com/hookline/hookline/analytics/clickhouse"
)

// windowInserts is how many inserts a table remembers (schema).
const windowInserts = 10_000

// healAfter is longer than a request can be under way in a cluster.
const healAfter = 15 * time.Second

// work is the life of a feed: open it, then batch after batch until it is handed over.
func (s *Sink) work(f *feed) {
	defer f.cancel(errHanded)
	defer close(f.ended)
	defer f.drop()
	if err := s.openFeed(f); err != nil {
		return
	}
	for {
		b := s.await(f)
		if b == nil {
			return
		}
		if err := s.process(f, b); err != nil {
			if f.owned.Load() && !f.isClosing() && f.ctx.Err() == nil {
				s.stop(fmt.Errorf("stream %s/%d: %w", f.topic, f.partition, err)) // nobody would read it any more
			}
			return // handed over or lost: whoever owns it now goes on from the commit
		}
	}
}

// await returns the next batch, nil when the feed is handed over.
func (s *Sink) await(f *feed) *batch {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for !f.isClosing() {
		s.readOn(f)
		again, err := s.heal(f)
		if err != nil {
			return nil
		}
		d := f.ready(time.Now())
		if d == 0 {
			if b := f.take(false); b != nil {
				s.readOn(f)
				return b
			}
			d = -1
		}
		if d < 0 {
			d = time.Hour
		}
		if again > 0 {
			d = min(d, again)
		}
		timer.Reset(d)
		select {
		case <-f.closing:
		case <-f.ctx.Done():
			return nil
		case <-f.news:
		case <-timer.C:
		}
	}
	return nil
}

// process brings one batch into ClickHouse, and those after it that are full by then. Each step is
// repeated until it has succeeded or the feed is not ours any more:
//
//	announce   commit (from, "a batch up to end")     died before: nothing has happened
//	insert     rows under the token of [from, end)    died before or in it: the next owner repeats it
//	commit     (end, what comes next)                 died before: the next owner's insert is dropped
func (s *Sink) process(f *feed, b *batch) error {
	announced := b.replay()
	if announced {
		s.met.replayed.WithLabelValues(f.table).Inc()
		s.log.Info("batch of an earlier owner is inserted again", "topic", f.topic, "partition", f.partition,
			"from", b.from, "end", b.replayEnd, "rows", b.block.Rows())
	}
	if b.block.Rows() == 0 {
		s.point(pointBeforeCommit)
		return s.finish(f, b, nil)
	}
	slot := &lease{slots: s.slots}
	defer slot.give()
	if !slot.take(f) {
		return errHanded
	}
	for {
		if !announced {
			s.point(pointBeforeIntent)
			err := s.commit(f, b.from, intent{Topic: f.id, End: b.end, AtMs: time.Now().UnixMilli(), Generation: b.generation}, true)
			if err != nil {
				return err
			}
		}
		s.point(pointBeforeInsert)
		if err := s.insert(f, b, slot); err != nil {
			return err
		}
		s.point(pointBeforeCommit)
		var next *batch
		if s.slots.free() {
			next = f.peekFull(b.end)
		}
		if err := s.finish(f, b, next); err != nil {
			return err
		}
		s.point(pointAfterCommit)
		if next == nil {
			return nil
		}
		if b = f.take(true); b != next {
			return fmt.Errorf("BUG: the batch that was announced of %s/%d has changed", f.topic, f.partition)
		}
		s.readOn(f)
		announced = true
	}
}

// finish commits the end of a batch, with the announcement of next if that is not nil.
func (s *Sink) finish(f *feed, b, next *batch) error {
	n := intent{Topic: f.id, Generation: f.currentGeneration()}
	if next != nil {
		n.End, n.AtMs, n.Generation = next.end, time.Now().UnixMilli(), next.generation
	}
	if err := s.commit(f, b.end, n, false); err != nil {
		return err
	}
	f.release(b)
	return nil
}

// commit repeats a commit until the broker has taken it. early = give up as soon as the feed is
// handed over; a batch that was inserted is committed even then, as long as the partition is ours.
func (s *Sink) commit(f *feed, at int64, n intent, early bool) error {
	var closing <-chan struct{}
	if early {
		closing = f.closing
	}
	pause := newPause(&s.cfg)
	for {
		if early && f.isClosing() {
			return errHanded
		}
		if !f.owned.Load() {
			return errNotOwned
		}
		err := s.committer.commit(f.ctx, f, at, n.encode())
		if err == nil {
			s.met.commits.Inc()
			return nil
		}
		if f.ctx.Err() != nil {
			return context.Cause(f.ctx)
		}
		s.met.commitErr.Inc()
		f.suspect(time.Now().Add(healAfter))
		if suppressed, ok := s.commitLog.allow(); ok {
			s.log.Warn("commit failed, it is repeated", "topic", f.topic, "partition", f.partition, "error", err, "suppressed", suppressed)
		}
		if !sleep(f.ctx, closing, min(pause.NextBackOff(), time.Second)) && f.ctx.Err() != nil {
			return context.Cause(f.ctx)
		}
	}
}

// heal commits the present position once more some time after a commit whose outcome was unknown: that
// one may still reach the broker after those that followed, and would set the group back behind
// batches that are inserted.
func (s *Sink) heal(f *feed) (again time.Duration, err error) {
	at, due := f.suspicion()
	switch left := time.Until(due); {
	case due.IsZero():
		return 0, nil
	case left > 0:
		return left, nil
	}
	f.suspect(time.Time{})
	return 0, s.commit(f, at, intent{Topic: f.id, Generation: f.currentGeneration()}, true)
}

// insert repeats an insert, the same rows under the same token, until it has succeeded.
func (s *Sink) insert(f *feed, b *batch, slot *lease) error {
	tok := token(f.topic, f.id, f.partition, b.from, b.announced(), b.generation)
	pause := newPause(&s.cfg)
	seen := s.inserts[f.table].Load()
	old := b.replay() && time.Since(time.UnixMilli(b.announcedMs)) > s.cfg.WindowAge
	for {
		in, err := s.server.get(f.ctx, f.closing)
		if err == nil {
			err = s.limiter.Wait(f.ctx)
		}
		if err != nil {
			return err
		}
		if !f.owned.Load() {
			return errNotOwned
		}
		done := false
		if old || s.inserts[f.table].Load()-seen > windowInserts {
			done, err = s.isThere(f, b)
		}
		if err == nil && !done {
			err = s.insertOnce(f, b, in, tok)
		}
		if err == nil {
			return nil
		}
		if f.ctx.Err() != nil {
			return context.Cause(f.ctx)
		}
		if !s.wait(f, b, slot, err, pause.NextBackOff()) {
			return errHanded
		}
	}
}

// insertOnce is one try.
func (s *Sink) insertOnce(f *feed, b *batch, in *clickhouse.Inserter, tok string) error {
	ctx, cancel := context.WithTimeout(f.ctx, s.cfg.InsertTimeout)
	defer cancel()
	begun := time.Now()
	if err := in.Insert(ctx, tok, b.block); err != nil {
		return err
	}
	s.inserts[f.table].Add(1)
	s.met.inserted(f.table, b.block.Rows(), b.block.Bytes(), time.Since(begun))
	return nil
}

// wait tells of a failed insert and pauses, without the slot. false = handed over.
func (s *Sink) wait(f *feed, b *batch, slot *lease, err error, d time.Duration) bool {
	f.setTrouble(err)
	s.met.retries.WithLabelValues(f.table, clickhouse.Label(err)).Inc()
	stop := mustStop(err)
	if stop {
		s.server.again()
	}
	if suppressed, ok := s.insertLog.allow(); ok {
		level := s.log.Warn
		if stop {
			level = s.log.Error
		}
		level("insert failed, the same rows are sent again", "table", f.table, "partition", f.partition, "from", b.from, "end", b.announced(),
			"rows", b.block.Rows(), "class", classOfError(err).String(), "error", clickhouse.Short(err), "again_in", d, "suppressed", suppressed)
	}
	slot.give()
	return sleep(f.ctx, f.closing, d) && slot.take(f)
}

// isThere looks for the rows of a batch whose token the server may have forgotten. The raw table
// heals itself (equal rows collapse); rollups would count twice, so rows that are there are not
// inserted again.
func (s *Sink) isThere(f *feed, b *batch) (bool, error) {
	ctx, cancel := context.WithTimeout(f.ctx, s.cfg.InsertTimeout)
	defer cancel()
	lo, hi := b.block.Span()
	column := b.block.Columns()[0].Name
	var n uint64
	err := s.server.conn.QueryRow(ctx, "SELECT uniqExact(src_offset) FROM "+s.cfg.Database+"."+b.block.Table()+
		" WHERE src_partition = ? AND src_offset >= ? AND src_offset < ? AND "+column+" >= fromUnixTimestamp64Milli(?) AND "+column+" <= fromUnixTimestamp64Milli(?)",
		f.partition, b.from, b.end, lo, hi).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("look for the rows of a batch in %s: %w", f.table, err)
	}
	s.met.beyond.WithLabelValues(f.table).Inc()
	there := n >= uint64(b.block.Rows())
	s.log.Error("a batch is older than what the server remembers; it was looked for", "table", f.table, "partition", f.partition,
		"from", b.from, "end", b.announced(), "rows", b.block.Rows(), "found", n, "inserted_again", !there)
	return there, nil
}
