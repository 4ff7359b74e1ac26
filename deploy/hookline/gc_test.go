package main

import (
	"runtime/debug"
	"testing"
)

// Not parallel: the setting is one of the process.
func TestGCIsTunedUnlessTheOperatorHas(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	(&app{environ: []string{"GOGC=50"}}).tuneGC()
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("GOGC is set, and the percentage became %d", got)
	}
	(&app{}).tuneGC()
	if got := debug.SetGCPercent(100); got != gcPercent {
		t.Errorf("the percentage is %d, want %d", got, gcPercent)
	}
}
