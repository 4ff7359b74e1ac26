package analytics

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/lane"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/ingest/event/scan"
	"github.com/hookline/hookline/retrytiers/tier"
)

// place is a partition.
type place struct {
	topic     string
	partition int32
}

// onAssigned begins a feed for each partition.
func (s *Sink) onAssigned(_ context.Context, a lane.Assignment) {
	n := 0
	s.mu.Lock()
	for topic, partitions := range a {
		for _, p := range partitions {
			f := s.newFeed(topic, p)
			if f == nil {
				continue // of no topic of ours
			}
			n++
			s.feeds[place{topic, p}] = f
			s.wg.Go(func() { s.work(f) })
		}
	}
	s.mu.Unlock()
	s.assigned.Store(true)
	s.log.Info("partitions assigned", "partitions", n)
}

func (s *Sink) newFeed(topic string, partition int32) *feed {
	suffix := strings.TrimPrefix(topic, s.deps.Prefix)
	pool := s.pools[suffix]
	if pool == nil {
		return nil
	}
	f := &feed{
		sink: s, src: pool.src, pool: pool, topic: topic, partition: partition, table: pool.src.table(),
		closing: make(chan struct{}), ended: make(chan struct{}), news: make(chan struct{}, 1), linger: s.cfg.LingerMin,
	}
	f.ctx, f.cancel = context.WithCancelCause(s.working)
	f.owned.Store(true)
	return f
}

// openFeed finds where a feed reads on, and begins. It tries until it succeeds or the feed ends.
func (s *Sink) openFeed(f *feed) error {
	return s.retry(f, "open partition", func(ctx context.Context) error {
		id, err := s.topicID(ctx, f.topic)
		if err != nil {
			return err
		}
		if e, ok := f.src.(*events); ok {
			_, base, err := s.sequences.Base(ctx)
			if err != nil {
				return err
			}
			e.base.Store(base)
		}
		committed, err := s.member.Committed(ctx, f.topic, []int32{f.partition})
		if err != nil {
			return err
		}
		start, end, err := s.logEnds(ctx, f)
		if err != nil {
			return err
		}
		c := committed[f.partition]
		n, err := decodeIntent(c.At, c.Metadata)
		if err != nil {
			s.met.metadata.Inc()
			s.log.Error("commit metadata is unreadable; a batch that it announced may be counted twice in rollups",
				"topic", f.topic, "partition", f.partition, "committed", c.At, "error", err)
		}
		p := locate(c.At, n, topicID(id), start, end)
		f.id = topicID(id)
		s.note(f, c.At, p)
		s.reader.Settle() // what was read for an earlier owner here is out of the way
		s.add(f, func() int64 { return f.begin(p, end) })
		return nil
	})
}

// note counts and logs what is unusual about a position.
func (s *Sink) note(f *feed, committed int64, p position) {
	tell := func(kind, text string) {
		s.met.gaps.WithLabelValues(f.table, kind).Inc()
		s.log.Error(text, "topic", f.topic, "partition", f.partition, "committed", committed, "from", p.from,
			"announced_end", p.replayEnd, "read_end", p.readEnd)
	}
	switch {
	case p.recreated:
		tell(gapRecreated, "the topic was made anew; it is read from its start")
	case p.lost:
		tell(gapLost, "the log ends before what was read; records that were acknowledged are gone")
	case p.trimmed && p.replayEnd > 0:
		tell(gapTrimmed, "an announced batch has lost its first records to retention; what is left is inserted under its token")
	case p.trimmed:
		tell(gapTrimmed, "records were removed by retention before they were inserted")
	}
}

// readOn adds a partition to the reader again that had no place for more.
func (s *Sink) readOn(f *feed) {
	at, ok, opening := f.stalled()
	if !ok || f.isClosing() {
		return
	}
	if opening == nil {
		s.reader.Settle()
		s.add(f, func() int64 { f.resume(); return at })
		return
	}
	if suppressed, ok := s.openLog.allow(); ok {
		s.log.Warn("partition is opened again", "topic", f.topic, "partition", f.partition, "error", opening, "suppressed", suppressed)
	}
	err := s.retry(f, "open partition again", func(ctx context.Context) error {
		id, err := s.topicID(ctx, f.topic)
		if err != nil {
			return err
		}
		if topicID(id) != f.id {
			s.stop(fmt.Errorf("topic %s was made anew while it was read", f.topic))
			return nil
		}
		start, end, err := s.logEnds(ctx, f)
		if err != nil {
			return err
		}
		s.removeLater(f)
		s.reader.Settle()
		trimmed, lost := f.again(start, end)
		s.note(f, -1, position{from: f.position(), trimmed: trimmed, lost: lost})
		return nil
	})
	if err == nil {
		f.wake() // stalled tells the rest
	}
}

// add lets the reader read a partition, unless it is handed over.
func (s *Sink) add(f *feed, begin func() (at int64)) {
	s.readerMu.Lock()
	defer s.readerMu.Unlock()
	if !f.isClosing() {
		s.reader.Add(f.topic, f.partition, begin())
	}
}

func (s *Sink) removeLater(f *feed) {
	s.readerMu.Lock()
	defer s.readerMu.Unlock()
	if !f.isClosing() {
		s.reader.RemoveLater(f.topic, f.partition)
	}
}

// deliver gets records from the reader, in its goroutine.
func (s *Sink) deliver(topic string, partition int32, recs []*kgo.Record) {
	if f := s.feed(topic, partition); f != nil && f.deliver(recs) {
		s.removeLater(f)
	}
}

// fetchFailed hears of errors that the reader's client does not retry.
func (s *Sink) fetchFailed(topic string, partition int32, err error) {
	if f := s.feed(topic, partition); f != nil {
		f.failed(err)
	}
}

// onRevoked hands partitions over: nothing new begins, inserts that run may end and be committed,
// and after this no commit of these partitions follows.
func (s *Sink) onRevoked(ctx context.Context, a lane.Assignment) {
	feeds := s.remove(a)
	timeout := time.NewTimer(s.cfg.RevokeTimeout)
	defer timeout.Stop()
	over := false
	for _, f := range feeds {
		if over {
			break
		}
		select {
		case <-f.ended:
		case <-ctx.Done():
			over = true
		case <-timeout.C:
			over = true
		}
	}
	s.committer.mu.Lock()
	for _, f := range feeds {
		f.owned.Store(false)
	}
	s.committer.mu.Unlock()
	for _, f := range feeds {
		f.cancel(errHanded)
	}
	s.log.Info("partitions revoked", "partitions", len(feeds))
}

// onLost drops partitions: somebody else may own them already.
func (s *Sink) onLost(_ context.Context, a lane.Assignment) {
	feeds := s.remove(a)
	s.lose(feeds)
	s.log.Warn("partitions lost", "partitions", len(feeds))
}

func (s *Sink) lose(feeds []*feed) {
	for _, f := range feeds {
		f.owned.Store(false)
		f.cancel(errNotOwned)
	}
}

// remove takes the feeds of an assignment out; nothing new begins for them.
func (s *Sink) remove(a lane.Assignment) (feeds []*feed) {
	s.mu.Lock()
	for topic, partitions := range a {
		for _, p := range partitions {
			if f := s.feeds[place{topic, p}]; f != nil {
				feeds = append(feeds, f)
				delete(s.feeds, place{topic, p})
			}
		}
	}
	s.mu.Unlock()
	s.readerMu.Lock()
	defer s.readerMu.Unlock()
	for _, f := range feeds {
		f.close()
		s.reader.RemoveLater(f.topic, f.partition)
	}
	return feeds
}

// abandon drops what is left when the membership has ended without a revoke.
func (s *Sink) abandon() {
	all := make(lane.Assignment)
	for _, f := range s.owned() {
		all[f.topic] = append(all[f.topic], f.partition)
	}
	s.lose(s.remove(all))
}

func (s *Sink) feed(topic string, partition int32) *feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.feeds[place{topic, partition}]
}

func (s *Sink) owned() []*feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*feed, 0, len(s.feeds))
	for _, f := range s.feeds {
		out = append(out, f)
	}
	return out
}

// topics are those that are read, by suffix.
func (s *Sink) topics() []string {
	return []string{s.deps.Prefix + attempt.Suffix, s.deps.Prefix + event.EventsSuffix, s.deps.Prefix + tier.DeadSuffix}
}

func (s *Sink) topicID(ctx context.Context, topic string) ([16]byte, error) {
	details, err := s.adm.ListTopics(ctx, topic)
	if err == nil {
		err = details.Error()
	}
	if err != nil {
		return [16]byte{}, fmt.Errorf("look up id of %s: %w", topic, err)
	}
	return details[topic].ID, nil
}

// logEnds asks for the first offset of a log and the one behind its last readable record.
func (s *Sink) logEnds(ctx context.Context, f *feed) (start, end int64, err error) {
	if start, err = scan.Start(ctx, s.client, f.topic, f.partition); err == nil {
		end, err = scan.End(ctx, s.client, f.topic, f.partition, true)
	}
	return start, end, err
}

// retry repeats a step about the cluster until it succeeds, the feed ends or is handed over.
func (s *Sink) retry(f *feed, what string, step func(context.Context) error) error {
	pause := newPause(&s.cfg)
	for {
		ctx, cancel := context.WithTimeout(f.ctx, requestTimeout)
		err := step(ctx)
		cancel()
		if err == nil {
			return nil
		}
		if f.ctx.Err() != nil {
			return context.Cause(f.ctx)
		}
		if suppressed, ok := s.openLog.allow(); ok && !errors.Is(err, context.Canceled) {
			s.log.Warn(what+" failed, it is tried again", "topic", f.topic, "partition", f.partition, "error", err, "suppressed", suppressed)
		}
		if !sleep(f.ctx, f.closing, min(pause.NextBackOff(), 2*time.Second)) {
			return errHanded
		}
	}
}
