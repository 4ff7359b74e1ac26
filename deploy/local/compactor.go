package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	compactMinBytes = 4 << 20 // below it there is nothing to win
	compactGrowth   = 2       // times the size that the last compaction left
)

// errBusy says that a transaction is open on a compacted topic. kfake lets a record of it
// supersede a committed one, which would be gone if the transaction were aborted.
var errBusy = errors.New("a transaction is open on a compacted topic")

// compactLoop compacts when the compacted topics have grown enough.
func (b *Broker) compactLoop(ctx context.Context) {
	tick := time.NewTicker(b.cfg.CompactEvery)
	defer tick.Stop()
	var left int64
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		size, err := b.compactedBytes()
		if err == nil && size > compactMinBytes && size > compactGrowth*left {
			if err = b.compact(ctx); err == nil {
				left, err = b.compactedBytes()
			}
		}
		// Nothing is lost by a compaction that did not happen; the next tick tries again.
		if err != nil && !errors.Is(err, errBusy) && ctx.Err() == nil {
			b.cfg.Log.Error("embedded broker cannot compact", "error", err)
		}
	}
}

// compactedTopics lists the topics with cleanup.policy=compact.
func (b *Broker) compactedTopics() ([]topicMeta, error) {
	topics, err := readTopics(b.cfg.DataDir)
	if err != nil {
		return nil, err
	}
	var compacted []topicMeta
	for _, t := range topics {
		if strings.Contains(t.Configs["cleanup.policy"], "compact") {
			compacted = append(compacted, t)
		}
	}
	return compacted, nil
}

func (b *Broker) compactedBytes() (int64, error) {
	topics, err := b.compactedTopics()
	if err != nil {
		return 0, err
	}
	var size int64
	for _, t := range topics {
		for _, p := range b.fake.PartitionInfos(t.Name) {
			size += p.NumBytes
		}
	}
	return size, nil
}

// compact compacts every compacted topic so that it can be killed at any point. The work runs
// inside a control function: while one runs, kfake serves no other request, so that nothing is
// appended between the pre-image and the end of the compaction.
func (b *Broker) compact(ctx context.Context) error {
	result := make(chan error, 1)
	b.fake.ControlKey(int16(kmsg.DescribeCluster), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.DropControl()
		result <- b.compactHeld()
		return nil, nil, false
	})
	// The request is only there to run the function above; it is then answered as usual.
	if _, err := kmsg.NewPtrDescribeClusterRequest().RequestWith(ctx, b.admin); err != nil {
		return fmt.Errorf("ask for compaction: %w", err)
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *Broker) compactHeld() error {
	topics, err := b.compactedTopics()
	if err != nil {
		return err
	}
	var dirs []string
	for _, t := range topics {
		for _, p := range b.fake.PartitionInfos(t.Name) {
			if p.LastStableOffset != p.HighWatermark {
				return errBusy
			}
			dirs = append(dirs, partitionDir(t.Name, p.Partition))
		}
	}
	if err := b.roomFor(topics); err != nil {
		return err
	}
	if err := savePreimage(b.cfg.DataDir, dirs); err != nil {
		return err
	}
	b.fake.Compact()
	if err := b.verifyWritten(topics); err != nil {
		// kfake only warns and goes on without the records. Ending here is a crash in the
		// middle of a compaction, from which the next start comes back with all of them.
		panic(fmt.Sprintf("embedded broker: compaction failed, the next start undoes it: %v", err))
	}
	return dropPreimage(b.cfg.DataDir)
}

// roomFor refuses a compaction that could run out of disk half way.
func (b *Broker) roomFor(topics []topicMeta) error {
	var need int64
	for _, t := range topics {
		for _, p := range b.fake.PartitionInfos(t.Name) {
			need += p.NumBytes
		}
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(b.cfg.DataDir, &fs); err != nil {
		return fmt.Errorf("ask for free disk space: %w", err)
	}
	if free := int64(fs.Bavail) * int64(fs.Bsize); free < 2*need { //nolint:unconvert // the types differ between systems
		return fmt.Errorf("compaction needs up to %d bytes of disk twice over, %d are free", need, free)
	}
	return nil
}

// verifyWritten compares what the broker believes to have with the files.
func (b *Broker) verifyWritten(topics []topicMeta) error {
	for _, t := range topics {
		for _, p := range b.fake.PartitionInfos(t.Name) {
			dir := filepath.Join(b.cfg.DataDir, partitionsDir, partitionDir(t.Name, p.Partition))
			files, err := filepath.Glob(filepath.Join(dir, "*.dat"))
			if err != nil {
				return err
			}
			var size int64
			for _, file := range files {
				info, err := os.Stat(file)
				if err != nil {
					return err
				}
				size += info.Size()
			}
			if size < p.NumBytes {
				return fmt.Errorf("%s has %d bytes on disk, want %d", dir, size, p.NumBytes)
			}
		}
	}
	return nil
}
