package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Files of a data directory. The first group is kfake's, the second ours.
const (
	metaFile       = "meta.json"
	topicsFile     = "topics.json"
	groupsLog      = "groups.log"
	producersLog   = "pids.log"
	windowsFile    = "seq_windows.json"
	sessionsFile   = "session_state.json"
	partitionsDir  = "partitions"
	lockFile       = "hookline.lock"
	cleanFile      = "hookline.clean"
	preimageDir    = "hookline.preimage"
	preimageMarker = "hookline.compacting"
)

// commitEntry is a commit in groups.log and producerEntry an entry of pids.log, by kfake's
// own names.
type commitEntry struct {
	Type       string  `json:"type"`
	Group      string  `json:"g"`
	Topic      string  `json:"t,omitempty"`
	Partition  int32   `json:"p,omitempty"`
	Offset     int64   `json:"o,omitempty"`
	Epoch      int32   `json:"e,omitempty"`
	Metadata   *string `json:"m,omitempty"`
	LastCommit *int64  `json:"lc,omitempty"`
}

type producerEntry struct {
	Type     string `json:"type"`
	Producer int64  `json:"pid"`
	Epoch    int16  `json:"epoch"`
}

// recovery brings a data directory that was not closed into the state that a Kafka broker
// would come back with. Every step may be cut short and repeated.
type recovery struct {
	dir string
	log *slog.Logger
	now time.Time
}

func (r recovery) path(name string) string { return filepath.Join(r.dir, name) }

// prepareDataDir makes the data directory ready to be loaded by kfake.
func prepareDataDir(ctx context.Context, dir string, log *slog.Logger) error {
	r := recovery{dir: dir, log: log, now: time.Now()}
	_, err := os.Stat(r.path(cleanFile))
	clean := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for clean marker: %w", err)
	}
	if !clean {
		if _, err := os.Stat(r.path(metaFile)); errors.Is(err, fs.ErrNotExist) {
			return nil // a new directory
		}
		if err := r.run(ctx); err != nil {
			return fmt.Errorf("recover data directory %s: %w", dir, err)
		}
		return nil
	}
	// From here on the directory is in use: whatever ends this process, the next start recovers.
	if err := os.Remove(r.path(cleanFile)); err != nil {
		return fmt.Errorf("remove clean marker: %w", err)
	}
	return syncDir(dir)
}

func (r recovery) run(ctx context.Context) error {
	began := time.Now()
	if err := restorePreimage(r.dir); err != nil {
		return err
	}
	// Both describe the last clean stop. Old sequence windows refuse a producer that has moved
	// on since; old sessions bring transactions back to life that are aborted below.
	if err := errors.Join(removeIfExists(r.path(windowsFile)), removeIfExists(r.path(sessionsFile))); err != nil {
		return fmt.Errorf("remove state of the last clean stop: %w", err)
	}
	commits, cut, err := repairFrames(r.path(groupsLog))
	if err != nil {
		return err
	}
	producers, cutProducers, err := repairFrames(r.path(producersLog))
	if err != nil {
		return err
	}
	parts, err := r.scan(ctx)
	if err != nil {
		return err
	}
	// Fenced before the markers are written: once they are, a repeated scan no longer sees
	// whose transactions were open.
	if err := r.fence(producers, parts); err != nil {
		return err
	}
	for _, p := range parts {
		if err := p.settle(r.now); err != nil {
			return fmt.Errorf("settle %s/%d: %w", p.topic, p.id, err)
		}
	}
	if err := r.clampCommits(commits, parts); err != nil {
		return err
	}
	r.log.Info("broker data recovered after an unclean stop", "partitions", len(parts),
		"torn_bytes", cut+cutProducers, "took", time.Since(began))
	return nil
}

func (r recovery) scan(ctx context.Context) ([]*partition, error) {
	entries, err := os.ReadDir(r.path(partitionsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	var parts []*partition
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		topic, id, ok := partitionOf(e.Name())
		if !ok || !e.IsDir() {
			continue
		}
		p, err := scanPartition(filepath.Join(r.path(partitionsDir), e.Name()), topic, id)
		if err != nil {
			return nil, fmt.Errorf("scan %s/%d: %w", topic, id, err)
		}
		if p.lost > 0 {
			r.log.Error("broker segment is damaged and was cut: records are lost", "topic", topic, "partition", id, "bytes", p.lost)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// fence moves every producer with an open transaction to its next epoch, so that a client
// that outlived the broker cannot finish half of an update.
func (r recovery) fence(bodies [][]byte, parts []*partition) error {
	epochs := make(map[int64]int16)
	for _, p := range parts {
		for producer, txn := range p.open {
			epochs[producer] = max(epochs[producer], txn.epoch)
		}
	}
	if len(epochs) == 0 {
		return nil
	}
	for _, body := range bodies {
		var e producerEntry
		if err := json.Unmarshal(body, &e); err != nil {
			return fmt.Errorf("decode producer entry: %w", err)
		}
		if _, open := epochs[e.Producer]; open {
			epochs[e.Producer] = max(epochs[e.Producer], e.Epoch)
		}
	}
	var fenced []producerEntry
	for _, producer := range slices.Sorted(maps.Keys(epochs)) {
		if epoch := epochs[producer]; epoch < math.MaxInt16 {
			fenced = append(fenced, producerEntry{Type: "timeout", Producer: producer, Epoch: epoch + 1})
		}
	}
	return appendFrames(r.path(producersLog), fenced)
}

// clampCommits takes back commits that lie past the end of their partition's log. Only a power
// loss or a topic that was half deleted leaves such; kept, they would make the group skip the
// records that come to lie there. Their metadata speaks of records that are gone: dropped.
func (r recovery) clampCommits(bodies [][]byte, parts []*partition) error {
	topics, err := readTopics(r.dir)
	if err != nil {
		return err
	}
	type place struct {
		topic string
		id    int32
	}
	ends := make(map[place]int64, len(parts))
	for _, p := range parts {
		ends[place{p.topic, p.id}] = p.end()
	}
	type key struct {
		group string
		place
	}
	latest := make(map[key]commitEntry)
	for _, body := range bodies {
		var e commitEntry
		if err := json.Unmarshal(body, &e); err != nil {
			return fmt.Errorf("decode group entry: %w", err)
		}
		k := key{e.Group, place{e.Topic, e.Partition}}
		switch e.Type {
		case "commit":
			latest[k] = e
		case "delete":
			delete(latest, k)
		}
	}
	var clamped []commitEntry
	for k, e := range latest {
		end := ends[k.place]
		if _, known := topics[e.Topic]; !known || e.Offset <= end {
			continue
		}
		r.log.Error("commit past the end of the log taken back: records are lost", "group", e.Group,
			"topic", e.Topic, "partition", e.Partition, "committed", e.Offset, "end", end)
		e.Offset, e.Metadata = end, nil
		clamped = append(clamped, e)
	}
	return appendFrames(r.path(groupsLog), clamped)
}

// topicMeta is a topic of kfake's topics.json.
type topicMeta struct {
	Name       string            `json:"name"`
	Partitions int32             `json:"partitions"`
	Configs    map[string]string `json:"configs"`
}

// readTopics reads the topics of a data directory. kfake writes the file before it answers a
// request that changes a topic.
func readTopics(dir string) (map[string]topicMeta, error) {
	raw, err := os.ReadFile(filepath.Join(dir, topicsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read topics: %w", err)
	}
	var file struct {
		Topics []topicMeta `json:"topics"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, fmt.Errorf("decode topics: %w", err)
	}
	topics := make(map[string]topicMeta, len(file.Topics))
	for _, t := range file.Topics {
		topics[t.Name] = t
	}
	return topics, nil
}
