package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/hookline/hookline/ingest/event"
)

// backlog tells whether the dispatchers are further behind than allowed. It asks for the
// first offset of each partition that is young enough: a watermark below it means that an
// older event is unfinished. No record is read for it.
type backlog struct {
	adm    *kadm.Client
	topic  string
	group  string
	most   time.Duration
	log    *slog.Logger
	behind atomic.Bool
}

// backlogEvery is how often the brokers are asked.
const backlogEvery = time.Second

func newBacklog(adm *kadm.Client, prefix string, most time.Duration, log *slog.Logger) *backlog {
	return &backlog{adm: adm, topic: event.EventsTopic(1).Name(prefix), group: event.GroupName(prefix, "dispatcher"), most: most, log: log}
}

// age is above the maximum while the dispatchers are too far behind, else 0. It only looks
// at a flag.
func (b *backlog) age() time.Duration {
	if b.behind.Load() {
		return b.most + time.Second
	}
	return 0
}

// run keeps the answer current until ctx is done. While the brokers cannot be asked, the
// last answer stands: a broker in trouble has answers of its own for publishers.
func (b *backlog) run(ctx context.Context) error {
	tick := time.NewTicker(backlogEvery)
	defer tick.Stop()
	for {
		if err := b.look(ctx); err != nil && ctx.Err() == nil {
			b.log.Debug("backlog could not be measured", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (b *backlog) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	young, err := b.adm.ListOffsetsAfterMilli(ctx, time.Now().Add(-b.most).UnixMilli(), b.topic)
	if err == nil {
		err = young.Error()
	}
	if err != nil {
		return fmt.Errorf("list offsets of %s by time: %w", b.topic, err)
	}
	starts, err := b.adm.ListStartOffsets(ctx, b.topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return fmt.Errorf("list start offsets of %s: %w", b.topic, err)
	}
	committed, err := b.adm.FetchOffsets(ctx, b.group)
	if err != nil {
		return fmt.Errorf("fetch offsets of %s: %w", b.group, err)
	}
	behind := false
	for partition, o := range young[b.topic] {
		at := int64(-1)
		if c, ok := committed.Lookup(b.topic, partition); ok && c.Err == nil {
			at = c.At
		}
		if start, ok := starts.Lookup(b.topic, partition); ok {
			at = max(at, start.Offset)
		}
		behind = behind || at < o.Offset
	}
	b.behind.Store(behind)
	return nil
}
