package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// ErrInUse is returned when another engine has the data directory.
var ErrInUse = errors.New("data directory of the engine is in use")

// lockDir takes the directory for this process. An engine whose parent has just been killed needs
// a moment to go, so it waits a little. The kernel drops the lock with the process.
func lockDir(dir string, wait time.Duration) (*os.File, error) {
	path := filepath.Join(dir, "engine.lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	end := time.Now().Add(wait)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(end) {
			break
		}
		<-tick.C
	}
	if err != nil {
		holder, _ := os.ReadFile(path) // only for the message
		f.Close()                      //nolint:errcheck // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s by process %s; stop it or choose another directory", ErrInUse, dir, strings.TrimSpace(string(holder)))
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	_, err = f.WriteAt(fmt.Appendf(nil, "%-10d\n", os.Getpid()), 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write lock file: %w", err), f.Close())
	}
	return f, nil
}
