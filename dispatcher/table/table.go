package table

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Config configures a Table or a Writer.
type Config struct {
	Kafka []kgo.Opt // base options of every client
	Topic string    // full name; partition 0 is read, the topic must have one partition
	Log   *slog.Logger

	// OnChange is called by Run, one call at a time, for every change of a key in the order
	// of the log; a nil value means that the key is gone. Offsets of one key grow. All calls
	// for what was read return before Applied and Proven tell of it. The value is shared with
	// the view and must not be written to. A Writer does not use it.
	OnChange func(key string, value []byte, offset int64)
}

func (c *Config) complete() error {
	if c.Topic == "" {
		return errors.New("table needs a topic")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Log = c.Log.With("topic", c.Topic)
	return nil
}

// Table is a live view of a compacted topic. All methods are safe for concurrent use.
type Table struct {
	cfg Config

	viewMu sync.RWMutex // guards view; written by Run only
	view   View

	mu      sync.Mutex // guards what follows; written by Run only
	applied int64
	proven  time.Time
	ended   bool
	changed chan struct{} // closed at the next change of the above; nil while nobody waits
	asking  int           // WaitProven calls that a fetch sent now would satisfy
}

// New returns a Table that does nothing until Run.
func New(cfg Config) (*Table, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return &Table{cfg: cfg, view: newView()}, nil
}

// Get returns the value of key. It must not be written to.
func (t *Table) Get(key string) ([]byte, bool) {
	t.viewMu.RLock()
	defer t.viewMu.RUnlock()
	e, ok := t.view.Get(key)
	return e.Value, ok
}

// Entry returns value and offset of key.
func (t *Table) Entry(key string) (Entry, bool) {
	t.viewMu.RLock()
	defer t.viewMu.RUnlock()
	return t.view.Get(key)
}

// Len returns the number of keys.
func (t *Table) Len() int {
	t.viewMu.RLock()
	defer t.viewMu.RUnlock()
	return t.view.Len()
}

// Each calls fn for every key, in no order, until it returns false. The view stands still
// meanwhile, so fn must be quick and must not call the Table.
func (t *Table) Each(fn func(key string, e Entry) bool) {
	t.viewMu.RLock()
	defer t.viewMu.RUnlock()
	t.view.Each(fn)
}

// Applied returns the position of the view: all below it that is committed is in it and
// OnChange has returned for it. 0 before the first load is complete.
func (t *Table) Applied() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.applied
}

// Proven returns when the last fetch was sent whose answer showed the view to be complete:
// everything that was committed and readable at that moment has been applied and OnChange has
// returned for it. It carries a monotonic reading: compare it by Sub or time.Since. The zero
// time means never.
func (t *Table) Proven() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.proven
}

// Ready returns nil once the view is loaded and while Run runs.
func (t *Table) Ready() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ended:
		return ErrStopped
	case t.proven.IsZero():
		return fmt.Errorf("table %s is not loaded yet", t.cfg.Topic)
	}
	return nil
}

// WaitProven returns nil once Proven is at or after since. It takes up to 250 ms and a round
// trip for a since of now. The error is ctx's or ErrStopped.
func (t *Table) WaitProven(ctx context.Context, since time.Time) error {
	if !since.After(time.Now()) {
		t.mu.Lock()
		t.asking++
		t.mu.Unlock()
		defer func() {
			t.mu.Lock()
			t.asking--
			t.mu.Unlock()
		}()
	}
	return t.wait(ctx, func() bool { return !t.proven.IsZero() && !t.proven.Before(since) })
}

// WaitApplied returns nil once Applied is at or above offset, for example what
// Writer.Update returned. The error is ctx's or ErrStopped.
func (t *Table) WaitApplied(ctx context.Context, offset int64) error {
	return t.wait(ctx, func() bool { return t.applied >= offset })
}

// wait blocks until done, which runs with mu held, is true.
func (t *Table) wait(ctx context.Context, done func() bool) error {
	for {
		t.mu.Lock()
		if done() {
			t.mu.Unlock()
			return nil
		}
		if t.ended {
			t.mu.Unlock()
			return ErrStopped
		}
		if t.changed == nil {
			t.changed = make(chan struct{})
		}
		changed := t.changed
		t.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// publish changes what waits look at.
func (t *Table) publish(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}
