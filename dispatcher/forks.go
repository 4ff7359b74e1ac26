package dispatcher

import "github.com/hookline/hookline/retrytiers/tier"

// forkKey names one chain of attempts: an event owed to an endpoint, by its original
// delivery (replay "") or by one replay.
type forkKey struct {
	event, endpoint, replay string
}

// step is how far a chain had come in a record: attempts made, then parks.
type step struct {
	attempt, parks int
}

// ended is the step of a chain that was delivered or is dead.
var ended = step{attempt: 1 << 30}

func (s step) atOrBelow(o step) bool {
	return s.attempt < o.attempt || s.attempt == o.attempt && s.parks <= o.parks
}

// forks is window B: per chain the highest step whose outcome is durable. A crash between
// "copy acked" and "commit" makes two copies of one step; the later one is dropped here.
// It is filled when an outcome is durable, never when an attempt starts: a lane that leaves
// and comes back re-reads unfinished records, and they must not look seen.
//
// Memory is bounded by two generations of at most limit chains; a miss costs a duplicate
// delivery, never a loss. Guarded by its partition's lock.
type forks struct {
	limit          int
	current, older map[forkKey]step
	working        map[forkKey]*slot // due records in flight, for a twin to join
}

func newForks(limit int) *forks {
	return &forks{limit: limit, current: make(map[forkKey]step), working: make(map[forkKey]*slot)}
}

func keyOf(t *tier.Ticket, eventID string) forkKey {
	return forkKey{event: eventID, endpoint: t.Endpoint, replay: t.Replay}
}

// settle records that the outcome of a record at step s is durable.
func (f *forks) settle(k forkKey, s step) {
	if had, ok := f.lookup(k); ok && s.atOrBelow(had) {
		return
	}
	if len(f.current) >= f.limit {
		f.older, f.current = f.current, make(map[forkKey]step, f.limit/4)
	}
	f.current[k] = s
}

func (f *forks) lookup(k forkKey) (step, bool) {
	if s, ok := f.current[k]; ok {
		return s, true
	}
	s, ok := f.older[k]
	return s, ok
}

// seen reports whether the outcome of a due record at step s is durable already.
func (f *forks) seen(k forkKey, s step) bool {
	had, ok := f.lookup(k)
	return ok && s.atOrBelow(had)
}
