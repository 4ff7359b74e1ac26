package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestPartsStopUpstreamFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		note := func(s string) { mu.Lock(); order = append(order, s); mu.Unlock() }
		make3 := func(name string) part {
			return part{name: name, run: func(ctx context.Context) error {
				<-ctx.Done()
				<-time.After(time.Second) // drains
				note(name)
				return nil
			}}
		}
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Minute, cancel)
		err := runParts(ctx, []part{make3("retrytiers"), make3("dispatcher"), make3("ingest")}, drainTime, func() { note("stopping") }, slog.New(slog.DiscardHandler))
		if want := []string{"stopping", "ingest", "dispatcher", "retrytiers"}; err != nil || !slices.Equal(order, want) {
			t.Errorf("%v %v", order, err)
		}
	})
}

func TestPartThatFailsEndsAll(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, run := range map[string]func(context.Context) error{
		"boom":            func(context.Context) error { return boom },
		"ended by itself": func(context.Context) error { return nil },
	} {
		other := false
		err := runParts(context.Background(), []part{
			{name: "calm", run: func(ctx context.Context) error { <-ctx.Done(); other = true; return nil }},
			{name: "bad", run: run},
		}, drainTime, func() {}, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "bad") || strings.Count(err.Error(), name) != 1 || !other {
			t.Errorf("%s: %v, other part stopped: %t", name, err, other)
		}
	}
}

func TestPartThatHangsIsLeftBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		start := time.Now()
		err := runParts(ctx, []part{{name: "stuck", run: func(context.Context) error { <-release; return nil }}}, drainTime, func() {}, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), "stuck did not stop") || time.Since(start) != drainTime {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		close(release)
	})
}
