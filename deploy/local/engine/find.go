package engine

import (
	"os"
	"path/filepath"
)

// FindLibrary looks for .tools/libchdb.so in dir and the directories above it.
func FindLibrary(dir string) (path string, ok bool) {
	for {
		path = filepath.Join(dir, ".tools", "libchdb.so")
		if _, err := os.Stat(path); err == nil {
			return path, true
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", false
		}
		dir = up
	}
}
