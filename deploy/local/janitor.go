package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event"
)

// JanitorConfig configures a Janitor.
type JanitorConfig struct {
	Kafka  []kgo.Opt
	Prefix string
	// Topics are the topics as their owners specify them, before TopicConfigs. Those with
	// cleanup.policy=compact or without a positive retention.ms are left alone.
	Topics []event.Topic
	// Groups names, for a topic's suffix, the consumer groups that must have committed a
	// record before it may go. A group without a commit for a partition holds all of it: name
	// only groups that run.
	Groups map[string][]string
	// Every is the time between two passes. Defaults to one minute.
	Every time.Duration
	// Log defaults to slog.Default().
	Log *slog.Logger
}

// Janitor applies the retention times of append-only topics on the embedded broker.
type Janitor struct {
	cfg       JanitorConfig
	retention map[string]time.Duration // by full topic name
	groups    map[string][]string      // by full topic name
	names     []string
	now       func() time.Time
}

// NewJanitor checks the configuration; it starts nothing.
func NewJanitor(cfg JanitorConfig) (*Janitor, error) {
	if cfg.Every <= 0 {
		cfg.Every = time.Minute
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	j := &Janitor{cfg: cfg, retention: make(map[string]time.Duration), groups: make(map[string][]string), now: time.Now}
	for _, t := range cfg.Topics {
		value, ok := t.Configs["retention.ms"]
		if !ok || strings.Contains(t.Configs["cleanup.policy"], "compact") {
			continue
		}
		ms, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read retention.ms of topic %s: %w", t.Suffix, err)
		}
		if ms <= 0 {
			continue
		}
		name := t.Name(cfg.Prefix)
		j.names = append(j.names, name)
		j.retention[name] = time.Duration(ms) * time.Millisecond
		j.groups[name] = cfg.Groups[t.Suffix]
	}
	return j, nil
}

// Run makes a pass at once and then one every interval, until ctx is done. A pass that fails
// is logged and repeated at the next interval: what should be gone merely stays for longer.
func (j *Janitor) Run(ctx context.Context) error {
	cl, err := kgo.NewClient(j.cfg.Kafka...)
	if err != nil {
		return fmt.Errorf("make janitor client: %w", err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	tick := time.NewTicker(j.cfg.Every)
	defer tick.Stop()
	for {
		if err := j.pass(ctx, adm); err != nil && ctx.Err() == nil {
			j.cfg.Log.Error("cannot apply retention times", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// pass trims every partition up to min(first offset inside the retention time, lowest commit
// of the topic's groups, end - 1).
func (j *Janitor) pass(ctx context.Context, adm *kadm.Client) error {
	if len(j.names) == 0 {
		return nil
	}
	// Commits are read before the ends: whatever moves in between only leaves more behind.
	commits, err := j.commits(ctx, adm)
	if err != nil {
		return err
	}
	starts, err := adm.ListStartOffsets(ctx, j.names...)
	if err != nil {
		return fmt.Errorf("list start offsets: %w", err)
	}
	ends, err := adm.ListEndOffsets(ctx, j.names...)
	if err != nil {
		return fmt.Errorf("list end offsets: %w", err)
	}
	trims := make(kadm.Offsets)
	for _, name := range j.names {
		young, err := adm.ListOffsetsAfterMilli(ctx, j.now().Add(-j.retention[name]).UnixMilli(), name)
		if err != nil {
			return fmt.Errorf("list offsets by time: %w", err)
		}
		for partition, first := range young[name] {
			end, endOK := ends.Lookup(name, partition)
			start, startOK := starts.Lookup(name, partition)
			if err := errors.Join(first.Err, end.Err, start.Err); err != nil {
				return fmt.Errorf("list offsets of %s/%d: %w", name, partition, err)
			}
			if !endOK || !startOK {
				continue // created in between: nothing in it is old
			}
			to := trimTo(first.Offset, end.Offset, commits.lowest(j.groups[name], name, partition))
			if to > start.Offset {
				trims.AddOffset(name, partition, to, -1)
			}
		}
	}
	return trim(ctx, adm, trims)
}

// trimTo is the rule. Keeping the last record keeps the partition's offsets: see guardTrims.
func trimTo(young, end, committed int64) int64 {
	return min(young, committed, end-1)
}

func trim(ctx context.Context, adm *kadm.Client, trims kadm.Offsets) error {
	if len(trims) == 0 {
		return nil
	}
	resps, err := adm.DeleteRecords(ctx, trims)
	if err != nil {
		return fmt.Errorf("delete records: %w", err)
	}
	var errs []error
	resps.Each(func(r kadm.DeleteRecordsResponse) {
		if r.Err != nil && !errors.Is(r.Err, kerr.OffsetOutOfRange) { // out of range: its owner trimmed it meanwhile
			errs = append(errs, fmt.Errorf("delete records of %s/%d: %w", r.Topic, r.Partition, r.Err))
		}
	})
	return errors.Join(errs...)
}

// groupCommits are committed offsets by group.
type groupCommits map[string]kadm.OffsetResponses

func (j *Janitor) commits(ctx context.Context, adm *kadm.Client) (groupCommits, error) {
	all := make(groupCommits)
	for _, groups := range j.groups {
		for _, group := range groups {
			if _, done := all[group]; done {
				continue
			}
			offsets, err := adm.FetchOffsets(ctx, group)
			// A group that has never committed does not exist yet.
			if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
				return nil, fmt.Errorf("fetch commits of %s: %w", group, err)
			}
			all[group] = offsets
		}
	}
	return all, nil
}

// lowest returns the lowest commit of the groups, 0 if one has none, and the maximum if no
// group is named.
func (c groupCommits) lowest(groups []string, topic string, partition int32) int64 {
	const none = int64(^uint64(0) >> 1)
	lowest := none
	for _, group := range groups {
		at := int64(0)
		if o, ok := c[group].Lookup(topic, partition); ok && o.Err == nil && o.At > 0 {
			at = o.At
		}
		lowest = min(lowest, at)
	}
	return lowest
}
