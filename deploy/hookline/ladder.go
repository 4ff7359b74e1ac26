package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/table"
	"github.com/hookline/hookline/ingest/event/scan"
	"github.com/hookline/hookline/retrytiers/tier"
)

// storedLadder reads the ladder that control keeps; ok is false when there is none yet.
func storedLadder(ctx context.Context, cl *kgo.Client, prefix string) (l tier.Ladder, ok bool, err error) {
	topic := tier.ControlTopic().Name(prefix)
	from, err := scan.Start(ctx, cl, topic, 0)
	if err != nil {
		return l, false, fmt.Errorf("read ladder: %w", err)
	}
	until, err := scan.End(ctx, cl, topic, 0, true)
	if err != nil {
		return l, false, fmt.Errorf("read ladder: %w", err)
	}
	var value []byte
	spec := scan.Spec{Topic: topic, From: from, Until: until, ReadCommitted: true}
	if _, err := scan.Range(ctx, cl, spec, func(r *kgo.Record) error {
		if string(r.Key) == tier.LadderKey {
			value = r.Value
		}
		return nil
	}); err != nil {
		return l, false, fmt.Errorf("read ladder: %w", err)
	}
	if value == nil {
		return l, false, nil
	}
	if err := json.Unmarshal(value, &l); err != nil {
		return l, false, fmt.Errorf("read ladder from %s: %w", topic, err)
	}
	return l, true, nil
}

// keepLadder writes the ladder to control unless it keeps one. It returns the one that is
// kept, so that the caller can tell a mismatch.
func keepLadder(ctx context.Context, base []kgo.Opt, prefix string, want tier.Ladder, log *slog.Logger) (tier.Ladder, error) {
	topic := tier.ControlTopic().Name(prefix)
	// The transactional id is the topic's name for every writer of control.
	w, err := table.NewWriter(table.Config{Kafka: base, Topic: topic, Log: log}, topic)
	if err != nil {
		return want, fmt.Errorf("open writer of %s: %w", topic, err)
	}
	defer w.Close()
	kept := want
	_, err = w.Update(ctx, func(view table.View) ([]table.Change, error) {
		if e, ok := view.Get(tier.LadderKey); ok {
			return nil, json.Unmarshal(e.Value, &kept)
		}
		kept = want
		value, err := json.Marshal(want)
		return []table.Change{{Key: tier.LadderKey, Value: value}}, err
	})
	if err != nil {
		return want, fmt.Errorf("write ladder to %s: %w", topic, err)
	}
	return kept, nil
}

// compareLadder is the fault of a ladder that differs from the kept one: records already in
// a slot mature by the floor that they were placed under.
func compareLadder(prefix string, kept, want tier.Ladder) []topicFault {
	if kept.Equal(want) {
		return nil
	}
	return []topicFault{{
		Topic: tier.ControlTopic().Name(prefix), Fatal: true,
		Text: "keeps another ladder than retrytiers.ladder says; a changed ladder needs new topics: use another kafka.prefix, or put the setting back",
	}}
}
