package local

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kfake"
)

// brokerLog hands kfake's log to slog and remembers whether an error was in it: kfake tells of
// a failed save at shutdown in no other way.
type brokerLog struct {
	log    *slog.Logger
	failed atomic.Bool
}

func (l *brokerLog) Logf(level kfake.LogLevel, format string, args ...any) {
	at := slog.LevelDebug
	switch level {
	case kfake.LogLevelError:
		l.failed.Store(true)
		at = slog.LevelError
	case kfake.LogLevelWarn:
		at = slog.LevelWarn
	case kfake.LogLevelInfo, kfake.LogLevelDebug, kfake.LogLevelNone:
		// kfake's info is one line for each closed connection.
	}
	ctx := context.Background()
	if l.log.Enabled(ctx, at) {
		l.log.Log(ctx, at, "embedded broker", "detail", fmt.Sprintf(format, args...))
	}
}
