package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/hookline/hookline/ingest/event"
)

// spreadTime is when every dispatcher surely decides by a change or not at all: one that
// could not prove its view complete for a second decides no targets (DESIGN section 6), and
// a quarter of a second covers what lies between the proof and the decision.
const spreadTime = 1250 * time.Millisecond

// viewOffset is the part of a dispatcher that tells how far its view has come.
type viewOffset interface {
	WaitApplied(ctx context.Context, offset int64) error
}

// fleet knows when a change of an endpoint is in use in all dispatchers.
type fleet struct {
	adm   *kadm.Client
	group string
	// own is this process's dispatcher, nil if it runs none; ownClient is its client id.
	own       viewOffset
	ownClient string
	log       *slog.Logger
}

func newFleet(adm *kadm.Client, prefix string, own viewOffset, ownClient string, log *slog.Logger) *fleet {
	return &fleet{adm: adm, group: event.GroupName(prefix, "dispatcher"), own: own, ownClient: ownClient, log: log}
}

// wait returns once every live dispatcher uses the change below offset, which was committed
// at the given time. When this process has the only one, its view is asked; otherwise the
// time says it.
func (f *fleet) wait(ctx context.Context, offset int64, committed time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, committed.Add(spreadTime))
	defer cancel()
	if f.own != nil {
		if err := f.own.WaitApplied(ctx, offset); err != nil {
			return f.sleep(ctx, committed)
		}
	}
	if f.alone(ctx) {
		return nil
	}
	return f.sleep(ctx, committed)
}

// sleep waits for the spread time. ctx may be done by its deadline, which is the same.
func (f *fleet) sleep(ctx context.Context, committed time.Time) error {
	timer := time.NewTimer(time.Until(committed.Add(spreadTime)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		if time.Since(committed) >= spreadTime {
			return nil
		}
		return ctx.Err()
	}
}

// alone says whether no other process dispatches. While the group is changing nobody can say.
func (f *fleet) alone(ctx context.Context) bool {
	groups, err := f.adm.DescribeGroups(ctx, f.group)
	if err != nil {
		f.log.Debug("describe dispatchers", "error", err)
		return false
	}
	g, ok := groups[f.group]
	if ok && errors.Is(g.Err, kerr.GroupIDNotFound) { // nobody ever dispatched
		return true
	}
	if !ok || g.Err != nil {
		return false
	}
	switch strings.ToLower(g.State) {
	case "empty", "dead":
		return true
	case "stable":
	default:
		return false
	}
	for _, m := range g.Members {
		if f.own == nil || m.ClientID != f.ownClient {
			return false
		}
	}
	return true
}
