package dispatcher

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/dispatcher/table"
)

const (
	// More than goneMost endpoints and more than one in goneShare of all that answer 410 within
	// goneSpan are the work of a proxy, not of their owners.
	goneSpan  = time.Minute
	goneMost  = 10
	goneShare = 20
	// disableLimit bounds a disable: it holds a slot and a permit, and the next 410 asks for it again.
	disableLimit = 5 * time.Second
	// disablePause is how long after a disable that failed none is tried: the topic cannot be
	// written, and deliveries to endpoints that are gone must not wait for it one by one.
	disablePause = 30 * time.Second
)

// goneRule decides whether an answer of 410 is believed. Its clock must not run backwards.
type goneRule struct {
	order list.List // of goneAnswer, oldest first
	by    map[string]*list.Element
}

type goneAnswer struct {
	id string
	at time.Time
}

// believe takes in that an endpoint, one of all, answered 410.
func (g *goneRule) believe(id string, all int, now time.Time) bool {
	if g.by == nil {
		g.by = make(map[string]*list.Element)
	}
	if had := g.by[id]; had != nil {
		g.order.Remove(had)
	}
	g.by[id] = g.order.PushBack(goneAnswer{id, now})
	for {
		oldest, ok := g.order.Front().Value.(goneAnswer)
		if !ok || now.Sub(oldest.at) < goneSpan {
			break
		}
		g.order.Remove(g.order.Front())
		delete(g.by, oldest.id)
	}
	n := len(g.by)
	return n <= goneMost || n*goneShare <= all
}

// disabler is what a process knows of endpoints that answered 410. Safe for concurrent use.
type disabler struct {
	mu      sync.Mutex
	rule    goneRule
	working map[string]bool // endpoints whose disable is under way
	pause   time.Time       // none is tried before
}

// goneVerdict says what an answer of 410 leads to; the names are metric labels.
type goneVerdict string

const (
	goneDisabled  goneVerdict = "disabled"
	goneSuspended goneVerdict = "suspended" // too many endpoints say it
	goneJoined    goneVerdict = "joined"    // the disable is under way for another delivery, or done
	gonePaused    goneVerdict = "paused"    // one failed a moment ago
	goneChanged   goneVerdict = "changed"   // the endpoint is not any more what answered
	goneFailed    goneVerdict = "failed"    // not written in time
)

var goneVerdicts = []goneVerdict{goneDisabled, goneSuspended, goneJoined, gonePaused, goneChanged, goneFailed}

// begin says whether the caller is to disable the endpoint ("disabled"; end must follow) or why not.
func (g *disabler) begin(id string, all int, now time.Time) goneVerdict {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch believed := g.rule.believe(id, all, now); {
	case !believed:
		return goneSuspended
	case g.working[id]:
		return goneJoined
	case now.Before(g.pause):
		return gonePaused
	}
	if g.working == nil {
		g.working = make(map[string]bool)
	}
	g.working[id] = true
	return goneDisabled
}

func (g *disabler) end(id string, v goneVerdict, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.working, id)
	if v == goneFailed {
		g.pause = now.Add(disablePause)
	}
}

// disableGone is the step of a settlement behind the dead letter of an answer of 410. The first
// delivery of an endpoint waits for the disable, others go on.
func (d *Dispatcher) disableGone(s *settlement) {
	ep := s.gone
	s.gone = nil
	next := func(v goneVerdict) {
		d.metrics.gone.WithLabelValues(string(v)).Inc()
		d.settle(s)
	}
	if is := d.registry.Get(ep.ID); is == nil || is.Version != ep.Version || !is.Enabled {
		next(goneJoined)
		return
	}
	v := d.disabler.begin(ep.ID, d.registry.Snapshot().Len(), time.Now())
	if v == goneSuspended {
		d.throttled.warn("many endpoints answer 410 at once, none is disabled: a proxy on the way is likely at fault; the deliveries are dead letters",
			"endpoint_id", ep.ID)
	}
	if v != goneDisabled {
		next(v)
		return
	}
	go func() { // it waits for brokers, and we may be in a client's promise
		v := d.disable(ep)
		d.disabler.end(ep.ID, v, time.Now())
		s.disabled = v == goneDisabled
		next(v)
	}()
}

var errEndpointChanged = errors.New("the endpoint is not what answered")

// disable switches an endpoint off if it still is what answered, by the compare-and-set that the
// admin API uses: whoever changes it at the same moment, no change is lost.
func (d *Dispatcher) disable(ep *endpoint.Endpoint) goneVerdict {
	ctx, cancel := context.WithTimeout(d.workCtx, disableLimit)
	defer cancel()
	var before, after *endpoint.Endpoint
	_, err := d.writer.Update(ctx, func(v table.View) ([]table.Change, error) {
		e, ok := v.Get(ep.ID)
		if !ok || e.Offset != ep.Version {
			return nil, errEndpointChanged
		}
		var err error
		if before, err = endpoint.Open(ep.ID, e.Value, d.cfg.Keyring); err != nil {
			return nil, err
		}
		off := before.Clone()
		after = &off
		after.Enabled, after.UpdatedAt = false, time.Now().UTC().Truncate(time.Millisecond)
		value, err := endpoint.Seal(after, d.cfg.Keyring)
		if err != nil {
			return nil, err
		}
		return []table.Change{{Key: ep.ID, Value: value}}, nil
	})
	switch {
	case errors.Is(err, errEndpointChanged):
		return goneChanged
	case err != nil && !errors.Is(err, table.ErrNotVisible): // that one is stored for certain
		d.throttled.warn("endpoint answered 410 and could not be disabled, its next 410 asks again", "endpoint_id", ep.ID, "error", err)
		return goneFailed
	}
	d.log.Warn("endpoint answered 410 and is disabled", "endpoint_id", ep.ID, "tenant", ep.Tenant)
	if d.deps.Disabled != nil {
		if err := d.deps.Disabled(d.background, before, after); err != nil {
			d.log.Error("disable of an endpoint is not in the audit topic", "endpoint_id", ep.ID, "error", err)
		}
	}
	return goneDisabled
}
