package main

import "runtime/debug"

// gcPercent is how far the heap of a serving process grows between two collections, in percent
// of what lives. What lives is small beside what events in passing leave behind (20 to 60 MB at
// full load), so that the default of 100 collects dozens of times a second.
const gcPercent = 200

// tuneGC sets it, unless the operator has: GOGC is Go's own variable for it.
func (a *app) tuneGC() {
	if _, set := a.getenv("GOGC"); !set {
		debug.SetGCPercent(gcPercent)
	}
}
