package table

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event/scan"
)

// Change sets one key, or removes it with a nil Value.
type Change struct {
	Key   string
	Value []byte
}

// Writer changes a table by compare-and-set. Updates of one Writer run one after another;
// those of several Writers with the same transactional id, in any process, exclude each other
// by fencing. Safe for concurrent use.
type Writer struct {
	cfg    Config
	id     string
	turn   chan struct{} // holds one token; whoever took it owns what follows
	reader *kgo.Client
	view   View
	tail   *scan.Tail // nil: the view has to be loaded
	watch  watch

	producer *kgo.Client // nil: the producer id has to be initialised
	epoch    producerEpoch

	settleFor    time.Duration // settleLimit, shorter in tests
	beforeCommit func()        // set by tests only
}

// producerEpoch is one incarnation of the fenced producer.
type producerEpoch struct {
	id    int64
	epoch int16
}

// NewWriter returns a Writer. Every writer of the topic must use the same transactionalID,
// and nothing else may produce to it. It sends nothing until the first Update.
func NewWriter(cfg Config, transactionalID string) (*Writer, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if transactionalID == "" {
		return nil, errors.New("table writer needs a transactional id")
	}
	reader, err := kgo.NewClient(readOptions(cfg.Kafka)...)
	if err != nil {
		return nil, fmt.Errorf("make reader of table %s: %w", cfg.Topic, err)
	}
	turn := make(chan struct{}, 1)
	turn <- struct{}{}
	return &Writer{cfg: cfg, id: transactionalID, turn: turn, reader: reader, settleFor: settleLimit}, nil
}

// Close waits for the Update that runs and releases the clients. No Update may follow.
func (w *Writer) Close() {
	<-w.turn
	w.discard()
	w.reader.Close()
}

// Update runs fn on the table as it is and writes the changes that fn returns, all of them or
// none, if and only if nothing else was written in between. Otherwise fn runs again on what
// is there then, so fn must have no effects of its own and must not keep the view. It returns
// the offset behind the last change (of the view when there was none), which is what
// Table.WaitApplied takes; the change can be read by then.
//
// An error of fn comes back as it is, and nothing is written. With ErrUnknownOutcome the
// changes may be there or not; with ErrNotVisible they are. After any other error they are
// not and will not be. ctx bounds everything up to the commit; once the commit was sent, up
// to 15 s are taken beyond ctx to learn how it ended.
func (w *Writer) Update(ctx context.Context, fn func(View) ([]Change, error)) (int64, error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-w.turn:
	}
	defer func() { w.turn <- struct{}{} }()

	// The spread keeps two writers from fencing each other in step for ever.
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(10*time.Millisecond),
		backoff.WithMaxInterval(time.Second),
		backoff.WithMaxElapsedTime(30*time.Second),
	)
	var next int64
	err := backoff.Retry(func() error {
		var retry bool
		var err error
		if next, retry, err = w.attempt(ctx, fn); err == nil {
			return nil
		}
		if ctx.Err() != nil || !retry {
			return backoff.Permanent(err)
		}
		w.cfg.Log.Debug("update of the table starts over", "error", err)
		return err
	}, backoff.WithContext(b, ctx))
	return next, err
}

// attempt is one compare-and-set. retry tells that it left nothing behind and may be repeated.
func (w *Writer) attempt(ctx context.Context, fn func(View) ([]Change, error)) (next int64, retry bool, err error) {
	// The order is what makes it a compare-and-set: first nobody else can commit any more,
	// then the view is read to its end, then fn decides.
	held := w.producer != nil
	if err := w.claim(ctx); err != nil {
		return 0, again(err), fmt.Errorf("claim table %s: %w", w.cfg.Topic, err)
	}
	if err := w.catchUp(ctx, held); err != nil {
		return 0, errors.Is(err, errBehindOpen) || scan.Retriable(err), err
	}
	changes, err := fn(w.view)
	if err != nil {
		return 0, false, err
	}
	if len(changes) == 0 {
		return w.tail.Position(), false, nil
	}
	if slices.ContainsFunc(changes, func(c Change) bool { return c.Key == "" }) {
		return 0, false, fmt.Errorf("write table %s: a change has no key", w.cfg.Topic)
	}
	last, err := w.produce(ctx, changes)
	if err != nil {
		w.discard()
		return 0, again(err), fmt.Errorf("write table %s: %w", w.cfg.Topic, err)
	}
	return w.commit(ctx, last)
}

// claim makes this writer the only one that can commit: initialising the transactional id
// fences every other one and ends its open transaction before it returns.
func (w *Writer) claim(ctx context.Context) error {
	if w.producer != nil {
		return nil
	}
	cl, err := kgo.NewClient(writeOptions(w.cfg.Kafka, w.cfg.Topic, w.id)...)
	if err != nil {
		return err
	}
	id, epoch, err := cl.ProducerID(ctx)
	if err != nil {
		cl.Close()
		return err
	}
	w.producer, w.epoch = cl, producerEpoch{id, epoch}
	return nil
}

// produce writes the changes in a new transaction, which stays open. All of them are in the
// incarnation that was claimed: kgo may initialise a new one by itself after some errors, and
// the view would not be what that one has excluded the others from.
func (w *Writer) produce(ctx context.Context, changes []Change) (last *kgo.Record, err error) {
	records := make([]*kgo.Record, len(changes))
	for i, c := range changes {
		records[i] = &kgo.Record{Key: []byte(c.Key), Value: c.Value}
	}
	if err := w.producer.BeginTransaction(); err != nil {
		return nil, err
	}
	failed := make([]error, len(records))
	for i, r := range records {
		// Not ctx: kgo fails all records of a partition when the context of one is done.
		w.producer.Produce(context.Background(), r, func(_ *kgo.Record, err error) { failed[i] = err })
	}
	if err := w.producer.Flush(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(failed...); err != nil {
		return nil, fenceFirst(failed, err)
	}
	for _, r := range records {
		if (producerEpoch{r.ProducerID, r.ProducerEpoch}) != w.epoch {
			return nil, errNotCommitted
		}
	}
	return records[len(records)-1], nil
}

// fenceFirst picks the error that decides over a retry: the first one has the reason, the
// others follow from it.
func fenceFirst(failed []error, joined error) error {
	for _, err := range failed {
		var ke *kerr.Error
		if errors.As(err, &ke) {
			return err
		}
	}
	return joined
}

// discard gives the incarnation up. An open transaction is aborted if that works at once; the
// next claim or the broker's timeout ends it otherwise.
func (w *Writer) discard() {
	if w.producer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), abortLimit)
	defer cancel()
	if err := w.producer.AbortBufferedRecords(ctx); err == nil {
		err = w.producer.EndTransaction(ctx, kgo.TryAbort)
		if err != nil {
			w.cfg.Log.Debug("transaction was left to the broker", "error", err)
		}
	}
	w.producer.Close()
	w.producer = nil
}
