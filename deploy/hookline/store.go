package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/dispatcher/table"
)

// endpointStore is the endpoints topic as the admin API sees it: a view to read from, and
// changes by compare-and-set. A change returns once it is in use everywhere.
type endpointStore struct {
	ring     endpoint.Keyring
	policy   endpoint.URLPolicy
	view     *table.Table
	registry *endpoint.Registry
	writer   *table.Writer
	fleet    *fleet
	now      func() time.Time
}

func newEndpointStore(base []kgo.Opt, prefix string, ring endpoint.Keyring, policy endpoint.URLPolicy, f *fleet, log *slog.Logger) (*endpointStore, error) {
	topic := endpoint.Topic().Name(prefix)
	s := &endpointStore{ring: ring, policy: policy, registry: endpoint.NewRegistry(ring, policy), fleet: f, now: time.Now}
	cfg := table.Config{Kafka: base, Topic: topic, Log: log, OnChange: s.registry.Apply}
	var err error
	if s.view, err = table.New(cfg); err != nil {
		return nil, fmt.Errorf("open view of %s: %w", topic, err)
	}
	// The transactional id is the topic's name for every writer of the topic.
	if s.writer, err = table.NewWriter(table.Config{Kafka: base, Topic: topic, Log: log}, topic); err != nil {
		return nil, fmt.Errorf("open writer of %s: %w", topic, err)
	}
	return s, nil
}

func (s *endpointStore) close() { s.writer.Close() }

func (s *endpointStore) get(id string) (*endpoint.Endpoint, bool) {
	return s.registry.Snapshot().Get(id)
}

// all returns every endpoint by id.
func (s *endpointStore) all() []*endpoint.Endpoint {
	return slices.SortedFunc(s.registry.Snapshot().All(), func(a, b *endpoint.Endpoint) int { return cmp.Compare(a.ID, b.ID) })
}

// change is one step of an endpoint: what is there (nil = nothing) to what shall be there
// (nil = nothing). It may run several times and must have no effects of its own.
type change func(current *endpoint.Endpoint) (next *endpoint.Endpoint, err error)

// errSpread means that a change is stored but that not every process may use it yet.
var errSpread = errors.New("change is stored, and may not be in use everywhere yet")

// update applies fn by compare-and-set and returns the endpoint as it is then, once every
// dispatcher decides by it. committed is called as soon as the change is stored, whatever
// becomes of the wait.
func (s *endpointStore) update(ctx context.Context, id string, fn change, committed func(before, after *endpoint.Endpoint)) (*endpoint.Endpoint, error) {
	var before, after *endpoint.Endpoint
	offset, err := s.writer.Update(ctx, func(v table.View) ([]table.Change, error) {
		before, after = nil, nil
		if e, ok := v.Get(id); ok {
			// A fault does not hinder: an operator must be able to repair or delete.
			current, err := endpoint.Open(id, e.Value, s.ring)
			if current == nil {
				return nil, err
			}
			current.Version = e.Offset
			before = current
		}
		next, err := fn(before)
		if err != nil {
			return nil, err
		}
		if next == nil {
			return []table.Change{{Key: id}}, nil
		}
		next.UpdatedAt = s.now().UTC().Truncate(time.Millisecond)
		if before == nil {
			next.CreatedAt = next.UpdatedAt
		}
		value, err := endpoint.Seal(next, s.ring)
		if err != nil {
			return nil, err
		}
		after = next
		return []table.Change{{Key: id, Value: value}}, nil
	})
	at := time.Now()
	if errors.Is(err, table.ErrNotVisible) { // stored for certain
		committed(before, after)
		return after, fmt.Errorf("%w: %w", errSpread, err)
	}
	if err != nil {
		return nil, err
	}
	if after != nil {
		after.Version = offset - 1
	}
	committed(before, after)
	if err := s.view.WaitApplied(ctx, offset); err != nil {
		return after, fmt.Errorf("%w: wait for the own view: %w", errSpread, err)
	}
	if err := s.fleet.wait(ctx, offset, at); err != nil {
		return after, fmt.Errorf("%w: wait for the dispatchers: %w", errSpread, err)
	}
	return after, nil
}
