package table

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event/scan"
)

// watch looks for one record of our own among what is read back.
type watch struct {
	offset int64
	by     producerEpoch
	seen   bool
}

func (w *watch) look(r *kgo.Record) {
	if r.Offset == w.offset && r.ProducerID == w.by.id && r.ProducerEpoch == w.by.epoch {
		w.seen = true
	}
}

// fate is what a transaction came to, as the topic shows it.
type fate int

const (
	unclear   fate = iota // its record is in neither view: compacted away meanwhile
	committed             // its record can be read
	aborted               // its record is there and hidden
)

// commit ends the transaction whose last record is last and returns once its changes can be
// read. It does not believe an answer alone, in either direction: an error may follow a
// commit whose answer was lost, and the coordinator answers before the markers that make the
// records readable are written.
func (w *Writer) commit(ctx context.Context, last *kgo.Record) (next int64, retry bool, err error) {
	if w.beforeCommit != nil {
		w.beforeCommit()
	}
	if ctx.Err() != nil {
		w.discard()
		return 0, false, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.settleFor)
	defer cancel()

	next = last.Offset + 1
	w.watch = watch{offset: last.Offset, by: w.epoch}
	ended := w.producer.EndTransaction(ctx, kgo.TryCommit)
	if ended == nil {
		w.renew(ctx)
	} else {
		// The claim decides it: it ends what is open and waits for what is being ended.
		w.cfg.Log.Warn("outcome of a commit is looked up", "error", ended)
		w.discard()
		if err := w.reclaim(ctx); err != nil {
			return next, false, fmt.Errorf("%w: %w", ErrUnknownOutcome, errors.Join(ended, err))
		}
	}
	f, err := w.settle(ctx, last.Offset)
	switch {
	case f == committed:
		return next, false, nil
	case err != nil && ended == nil:
		return next, false, fmt.Errorf("%w: %w", ErrNotVisible, err)
	case err != nil:
		return next, false, fmt.Errorf("%w: %w", ErrUnknownOutcome, errors.Join(ended, err))
	case f == aborted:
		w.discard()
		return 0, true, errors.Join(errNotCommitted, ended)
	case ended == nil:
		return next, false, nil // committed by the coordinator's word, and superseded already
	}
	return next, false, fmt.Errorf("%w: %w", ErrUnknownOutcome, ended)
}

// reclaim claims until ctx is done: what became of the commit hangs on it.
func (w *Writer) reclaim(ctx context.Context) error {
	b := backoff.NewExponentialBackOff(backoff.WithInitialInterval(10*time.Millisecond), backoff.WithMaxInterval(time.Second))
	return backoff.Retry(func() error {
		err := w.claim(ctx)
		if err != nil && (ctx.Err() != nil || !again(err)) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(b, ctx))
}

// renew takes over the epoch that brokers of Kafka 4 hand out with every commit.
func (w *Writer) renew(ctx context.Context) {
	id, epoch, err := w.producer.ProducerID(ctx)
	if err != nil {
		w.discard()
		return
	}
	w.epoch = producerEpoch{id, epoch}
}

// settle reads the topic until the record at offset is decided. Nothing of this writer is
// open any more, so that comes soon.
func (w *Writer) settle(ctx context.Context, offset int64) (fate, error) {
	err := w.readTo(ctx, offset+1)
	if w.watch.seen {
		return committed, nil
	}
	if err != nil {
		return unclear, err
	}
	hidden := watch{offset: offset, by: w.watch.by}
	spec := scan.Spec{Topic: w.cfg.Topic, From: offset, Until: offset + 1}
	_, err = scan.Range(ctx, w.reader, spec, func(r *kgo.Record) error {
		hidden.look(r)
		return nil
	})
	if err != nil && !startMoved(err) {
		return unclear, err
	}
	if hidden.seen {
		return aborted, nil
	}
	return unclear, nil
}

// catchUp reads the topic to its end: to the high watermark, not to the last stable offset,
// so it waits for a transaction that somebody else has left open instead of looking past it.
// With held, this writer has no transaction open and claimed earlier, so whoever has one
// fenced it since: if that one does not end soon it is dead, and a new claim ends it.
func (w *Writer) catchUp(ctx context.Context, held bool) error {
	end, err := scan.End(ctx, w.reader, w.cfg.Topic, 0, false)
	if err != nil {
		return err
	}
	if !held {
		return w.readTo(ctx, end)
	}
	short, cancel := context.WithTimeoutCause(ctx, openLimit, errBehindOpen)
	defer cancel()
	err = w.readTo(short, end)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(short), errBehindOpen) {
		w.discard()
		return errBehindOpen
	}
	return err
}

// readTo moves the view to offset or beyond. At least one fetch is sent, which finds out
// whether the topic is still the one that was read.
func (w *Writer) readTo(ctx context.Context, offset int64) error {
	for {
		if w.tail == nil {
			view, tail, err := load(ctx, w.reader, w.cfg.Topic, w.watch.look)
			if err != nil {
				return err
			}
			w.view, w.tail = view, tail
		} else {
			before := w.tail.Sent()
			wait := askWait
			if w.tail.Position() < offset {
				wait = pollWait
			}
			recs, _, _, err := w.tail.Next(ctx, wait)
			if outside(err) || err == nil && stale(before, w.tail.Sent()) {
				w.cfg.Log.Info("table is loaded anew for writing", "error", err)
				w.tail = nil
				continue
			}
			if err != nil {
				return err
			}
			for _, r := range recs {
				w.view.apply(r)
				w.watch.look(r)
			}
		}
		if w.tail.Position() >= offset {
			return nil
		}
	}
}

// outside reports whether the position means nothing in the topic any more. What is there now
// is what counts: a compare-and-set holds on it all the same.
func outside(err error) bool {
	var oor *scan.OutOfRangeError
	return errors.As(err, &oor) || errors.Is(err, scan.ErrTopicReplaced)
}
