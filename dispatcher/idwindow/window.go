package idwindow

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Identity is the hashed key of the window.
type Identity [16]byte

// IdentityOf hashes the three parts with their lengths, so that moving a byte from one to
// the next makes another identity.
func IdentityOf(tenant, source, eventID string) Identity {
	var id Identity
	buf := make([]byte, 0, 256)
	for _, part := range [...]string{tenant, source, eventID} {
		buf = binary.AppendUvarint(buf, uint64(len(part)))
		buf = append(buf, part...)
	}
	sum := sha256.Sum256(buf)
	copy(id[:], sum[:])
	return id
}

// Answer is what Claim says of an event.
type Answer uint8

// Answers.
const (
	Fresh    Answer = iota // first of its id: it is in flight from now on
	InFlight               // its first is in flight: join it
	Settled                // the outcomes of its first are durable: drop it
	Conflict               // its first has another body
	Loading                // not known yet: the window keeps it until Loaded
)

// Entry is one remembered event.
type Entry struct {
	ID     Identity
	Hash   uint64 // event.BodyHash
	Offset int64  // in the partition of events
	AtMs   int64  // of its record, Unix milliseconds
}

type state[T any] struct {
	Entry
	first    T // valid while inFlight
	inFlight bool
}

// Window is not safe for concurrent use; its lane's lock guards it. T is the handle of an
// event in flight.
type Window[T any] struct {
	limit  int
	age    time.Duration
	now    func() time.Time
	loaded bool

	// latest is the youngest time of a record that was seen: how far the log has been read.
	latest int64

	by      map[Identity]*state[T]
	order   []Entry // settled, oldest first, from head on
	head    int
	waiting []T
	fresh   []Entry // settled since the last segment, for Segment
}

// New returns a window of at most limit settled ids, each kept until an event is read that was
// written more than age later.
func New[T any](limit int, age time.Duration) *Window[T] {
	return &Window[T]{limit: limit, age: age, now: time.Now, by: make(map[Identity]*state[T])}
}

// Claim decides about one event in flight. With InFlight, first is the handle to join.
func (w *Window[T]) Claim(e Entry, handle T) (first T, answer Answer) {
	if !w.loaded {
		w.waiting = append(w.waiting, handle)
		return first, Loading
	}
	s := w.by[e.ID]
	if at := w.see(e); s != nil && !s.inFlight && w.expired(s.Entry, at) {
		s = nil
	}
	switch {
	case s == nil:
		w.by[e.ID] = &state[T]{Entry: e, first: handle, inFlight: true}
		return first, Fresh
	case s.Hash != e.Hash:
		return first, Conflict
	case s.inFlight:
		return s.first, InFlight
	}
	return first, Settled
}

// Settle says that all outcomes of an event that was Fresh are durable.
func (w *Window[T]) Settle(id Identity) {
	s := w.by[id]
	if s == nil || !s.inFlight {
		return
	}
	var none T
	s.inFlight, s.first = false, none
	w.remember(s.Entry)
}

// Add enters an event that was done before it was read. Of two whose ages are too far apart to
// be repeats the later one counts, as it did when it was claimed.
func (w *Window[T]) Add(e Entry) {
	s := w.by[e.ID]
	at := w.see(e)
	switch {
	case s == nil:
		w.by[e.ID] = &state[T]{Entry: e}
	case s.inFlight:
		return
	case e.Offset > s.Offset && w.expired(s.Entry, at), e.Offset < s.Offset && !w.expired(e, s.AtMs):
		s.Entry = e
	default:
		return // the first is known
	}
	w.remember(e)
}

func (w *Window[T]) remember(e Entry) {
	w.order = append(w.order, e)
	w.fresh = append(w.fresh, e)
	for w.head < len(w.order) && (len(w.order)-w.head > w.limit || w.expired(w.order[w.head], w.latest)) {
		old := w.order[w.head]
		w.head++
		if s := w.by[old.ID]; s != nil && !s.inFlight && s.Offset == old.Offset {
			delete(w.by, old.ID)
		}
	}
	if w.head > 1024 && w.head > len(w.order)/2 {
		n := copy(w.order, w.order[w.head:])
		w.order, w.head = w.order[:n], 0
	}
	// Without segments (a partition whose dedupe cannot be written) fresh must not grow.
	if over := len(w.fresh) - 2*w.limit; over > 0 {
		w.fresh = append(w.fresh[:0], w.fresh[over:]...)
	}
}

// see returns when e was written. A producer's clock that is ahead does not count: it would
// end the window of everybody else.
func (w *Window[T]) see(e Entry) int64 {
	at := min(e.AtMs, w.now().UnixMilli())
	w.latest = max(w.latest, at)
	return at
}

// expired says whether e is too old for an event that was written at the given time. It is not
// measured by the clock: of events that are read late, after an outage or behind a backlog, one
// that was sent again seconds after the first is as much a repeat as ever.
func (w *Window[T]) expired(e Entry, at int64) bool { return at-e.AtMs > w.age.Milliseconds() }

// Loaded ends the loading: entries are what Load found, in offset order, and next is where
// the next segment continues. It returns the handles that waited, to be claimed again in the
// order they came.
func (w *Window[T]) Loaded(entries []Entry, next int64) []T {
	fresh := w.fresh
	for _, e := range entries {
		w.Add(e)
		if e.Offset >= next {
			fresh = append(fresh, e) // read from events: no segment says it yet
		}
	}
	w.fresh = fresh
	w.loaded = true
	waiting := w.waiting
	w.waiting = nil
	return waiting
}

// Len is the number of ids known.
func (w *Window[T]) Len() int { return len(w.by) }
