package local

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// partition is one partition's log as a scan of its files found it.
type partition struct {
	dir   string
	topic string
	id    int32

	segments []segment
	open     map[int64]openTransaction // by producer id: begun, and neither committed nor aborted
	aborted  []abortedTransaction
	maxTS    int64
	lost     int64 // bytes cut that were not the tail of the last segment: damage, not a crash
	torn     int64 // bytes cut at the tail: a produce that was never acknowledged
}

type segment struct {
	base, size         int64
	minEpoch, maxEpoch int32
	firstTS, next      int64
	start              int64 // base offset of its first batch
	index              []byte
}

type openTransaction struct {
	first int64
	epoch int16
}

// abortedTransaction and snapshot are kfake's snapshot.json, by its own names.
type abortedTransaction struct {
	Producer int64 `json:"producer_id"`
	First    int64 `json:"first_offset"`
	Last     int64 `json:"last_offset"`
}

type snapshot struct {
	Version   int                  `json:"version"`
	High      int64                `json:"high_watermark"`
	Stable    int64                `json:"last_stable_offset"`
	Start     int64                `json:"log_start_offset"`
	Epoch     int32                `json:"epoch"`
	Leader    int32                `json:"leader_node,omitempty"`
	MaxTS     int64                `json:"max_timestamp"`
	CreatedAt time.Time            `json:"created_at"`
	Aborted   []abortedTransaction `json:"aborted_txns,omitempty"`
	Segments  []snapshotSegment    `json:"segments"`
}

type snapshotSegment struct {
	Base     int64 `json:"base_offset"`
	Size     int64 `json:"size"`
	MinEpoch int32 `json:"min_epoch,omitempty"`
	MaxEpoch int32 `json:"max_epoch,omitempty"`
}

func (p *partition) end() int64 {
	if len(p.segments) == 0 {
		return 0
	}
	return p.segments[len(p.segments)-1].next
}

func segmentPath(dir string, base int64, ext string) string {
	return filepath.Join(dir, strconv.FormatInt(base, 10)+ext)
}

// partitionDir is the name of a partition's directory.
func partitionDir(topic string, id int32) string {
	return url.PathEscape(topic) + "-" + strconv.Itoa(int(id))
}

// partitionOf splits the name of a partition's directory.
func partitionOf(name string) (topic string, id int32, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 {
		return "", 0, false
	}
	topic, err := url.PathUnescape(name[:i])
	if err != nil {
		return "", 0, false
	}
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	return topic, int32(n), err == nil
}

// segmentBases lists the base offsets of the segments in a directory, ascending.
func segmentBases(dir string) ([]int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list partition: %w", err)
	}
	var bases []int64
	for _, e := range entries {
		name, isData := strings.CutSuffix(e.Name(), ".dat")
		if base, err := strconv.ParseInt(name, 10, 64); isData && err == nil {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	return bases, nil
}

// scanPartition reads a partition's segments and cuts what is not whole. It changes nothing
// else on disk, and may be repeated.
func scanPartition(dir, topic string, id int32) (*partition, error) {
	bases, err := segmentBases(dir)
	if err != nil {
		return nil, err
	}
	p := &partition{dir: dir, topic: topic, id: id, open: make(map[int64]openTransaction)}
	for i, base := range bases {
		path := segmentPath(dir, base, ".dat")
		seg := segment{base: base}
		valid, err := walkSegment(path, max(base, p.end()), func(b *batch) { p.add(&seg, b) })
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("stat segment: %w", err)
		}
		if cut := info.Size() - valid; cut > 0 {
			if i == len(bases)-1 {
				p.torn += cut
			} else {
				p.lost += cut
			}
			if err := os.Truncate(path, valid); err != nil {
				return nil, fmt.Errorf("cut torn tail of segment: %w", err)
			}
		}
		if valid == 0 { // kfake ignores an empty segment but counts its file
			if err := errors.Join(os.Remove(path), removeIfExists(segmentPath(dir, base, ".idx"))); err != nil {
				return nil, fmt.Errorf("remove empty segment: %w", err)
			}
			continue
		}
		seg.size = valid
		p.segments = append(p.segments, seg)
	}
	return p, nil
}

// add takes one batch into the segment and into the state of its producer's transaction.
func (p *partition) add(seg *segment, b *batch) {
	if len(seg.index) == 0 {
		seg.start, seg.firstTS, seg.minEpoch, seg.maxEpoch = b.base, b.firstTS, b.epoch, b.epoch
	}
	seg.minEpoch, seg.maxEpoch = min(seg.minEpoch, b.epoch), max(seg.maxEpoch, b.epoch)
	seg.next = b.next()
	p.maxTS = max(p.maxTS, b.maxTS)
	seg.index = appendIndexEntry(seg.index, b.epoch, p.maxTS, b.transactional())

	txn, open := p.open[b.producer]
	switch {
	case b.transactional() && !open:
		p.open[b.producer] = openTransaction{first: b.base, epoch: b.prodEpoch}
	case b.control() && open:
		if !b.commits() {
			p.aborted = append(p.aborted, abortedTransaction{Producer: b.producer, First: txn.first, Last: b.base})
		}
		delete(p.open, b.producer)
	}
}

// settle ends the transactions that the crash left open with an abort marker in the log, then
// brings the index files and the snapshot in line with the segments.
func (p *partition) settle(now time.Time) error {
	if len(p.segments) == 0 {
		return nil
	}
	if err := p.abortOpen(now); err != nil {
		return err
	}
	for i := range p.segments {
		if err := p.segments[i].writeIndex(p.dir); err != nil {
			return err
		}
	}
	return p.writeSnapshot()
}

func (p *partition) abortOpen(now time.Time) error {
	seg := &p.segments[len(p.segments)-1]
	for _, producer := range slices.Sorted(maps.Keys(p.open)) {
		txn := p.open[producer]
		raw := abortMarker(seg.next, seg.maxEpoch, producer, txn.epoch, now.UnixMilli())
		if err := appendFile(segmentPath(p.dir, seg.base, ".dat"), raw); err != nil {
			return fmt.Errorf("append abort marker: %w", err)
		}
		var b batch
		b.parse(raw)
		p.add(seg, &b)
		seg.size += b.size
	}
	return nil
}

// writeIndex replaces the segment's index file if it does not have one entry for each batch.
func (s *segment) writeIndex(dir string) error {
	path := segmentPath(dir, s.base, ".idx")
	info, err := os.Stat(path)
	switch {
	case err == nil && info.Size() == int64(len(s.index)):
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("stat index: %w", err)
	}
	return replaceFile(path, s.index)
}

// writeSnapshot writes the snapshot that makes kfake load the partition without replaying it:
// the replay holds every batch of every partition in memory at once, and forgets that a
// transaction was abandoned as soon as its producer commits the next one.
func (p *partition) writeSnapshot() error {
	first, last := &p.segments[0], &p.segments[len(p.segments)-1]
	slices.SortFunc(p.aborted, func(a, b abortedTransaction) int { return cmp.Compare(a.Last, b.Last) })
	snap := snapshot{
		Version:   frameVersion,
		High:      p.end(),
		Stable:    p.end(),
		Start:     first.start,
		Epoch:     last.maxEpoch,
		MaxTS:     p.maxTS,
		CreatedAt: time.UnixMilli(first.firstTS),
		Aborted:   p.aborted,
	}
	path := filepath.Join(p.dir, "snapshot.json")
	if raw, err := os.ReadFile(path); err == nil {
		var old snapshot
		if json.Unmarshal(raw, &old) == nil && old.Start > snap.Start && old.Start < snap.High {
			snap.Start = old.Start // what was trimmed before the last clean stop stays trimmed
		}
	}
	for i := range p.segments {
		s := &p.segments[i]
		snap.Segments = append(snap.Segments, snapshotSegment{Base: s.base, Size: s.size, MinEpoch: s.minEpoch, MaxEpoch: s.maxEpoch})
	}
	raw, err := json.Marshal(snap)
	if err != nil {
		return fmt.Errorf("encode snapshot: %w", err)
	}
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, raw) {
		return nil
	}
	return replaceFile(path, raw)
}

// replaceFile writes a file so that a crash leaves the old or the new content.
func replaceFile(path string, data []byte) error {
	tmp := path + ".tmp" // kfake removes leftovers of this name when it loads
	if err := os.WriteFile(tmp, data, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return nil
}

func removeIfExists(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
