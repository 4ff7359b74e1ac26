package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// kfake compacts a partition by deleting its segments and writing new ones; a kill in between
// loses what was not rewritten. So a compaction runs between two marks: every file it may
// delete is linked into a second directory, then the marker is created, and removed when the
// compaction has returned. No request is served in between, so a marker that is found at start
// means that the links hold everything that was ever acknowledged.

// savePreimage links the segments of the partitions and creates the marker.
func savePreimage(dir string, partitionDirs []string) error {
	pre := filepath.Join(dir, preimageDir)
	if err := os.RemoveAll(pre); err != nil {
		return fmt.Errorf("remove old pre-image: %w", err)
	}
	for _, name := range partitionDirs {
		live := filepath.Join(dir, partitionsDir, name)
		entries, err := os.ReadDir(live)
		if errors.Is(err, fs.ErrNotExist) {
			continue // nothing was ever written to it
		}
		if err != nil {
			return fmt.Errorf("list partition: %w", err)
		}
		if err := os.MkdirAll(filepath.Join(pre, name), 0o755); err != nil {
			return fmt.Errorf("make pre-image: %w", err)
		}
		for _, e := range entries {
			if !segmentFile(e.Name()) {
				continue
			}
			if err := os.Link(filepath.Join(live, e.Name()), filepath.Join(pre, name, e.Name())); err != nil {
				return fmt.Errorf("link segment: %w", err)
			}
		}
		if err := syncDir(filepath.Join(pre, name)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, preimageMarker), nil, 0o644); err != nil {
		return fmt.Errorf("create compaction marker: %w", err)
	}
	return syncDir(dir) // before anything is deleted, whatever becomes of the power
}

// dropPreimage removes the marker, then the links.
func dropPreimage(dir string) error {
	if err := removeIfExists(filepath.Join(dir, preimageMarker)); err != nil {
		return fmt.Errorf("remove compaction marker: %w", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, preimageDir)); err != nil {
		return fmt.Errorf("remove pre-image: %w", err)
	}
	return nil
}

// restorePreimage undoes a compaction that was cut short.
func restorePreimage(dir string) error {
	_, err := os.Stat(filepath.Join(dir, preimageMarker))
	if errors.Is(err, fs.ErrNotExist) {
		return dropPreimage(dir)
	}
	if err != nil {
		return fmt.Errorf("look for compaction marker: %w", err)
	}
	pre := filepath.Join(dir, preimageDir)
	parts, err := os.ReadDir(pre)
	if err != nil {
		return fmt.Errorf("list pre-image: %w", err)
	}
	for _, part := range parts {
		if err := restorePartition(filepath.Join(pre, part.Name()), filepath.Join(dir, partitionsDir, part.Name())); err != nil {
			return fmt.Errorf("restore %s: %w", part.Name(), err)
		}
	}
	return dropPreimage(dir)
}

func restorePartition(saved, live string) error {
	entries, err := os.ReadDir(live)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if segmentFile(e.Name()) {
			if err := os.Remove(filepath.Join(live, e.Name())); err != nil {
				return err
			}
		}
	}
	links, err := os.ReadDir(saved)
	if err != nil {
		return err
	}
	for _, e := range links {
		if err := os.Link(filepath.Join(saved, e.Name()), filepath.Join(live, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func segmentFile(name string) bool {
	return strings.HasSuffix(name, ".dat") || strings.HasSuffix(name, ".idx")
}

// syncDir makes what was created in or removed from a directory survive a power loss.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open directory to sync: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}
