package tier

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookline/hookline/ingest/event"
)

// Step is one retry topic of a ladder: Slots delay slots of Width each, the first at Floor.
// Each slot is spread over Shards partitions by key; partition = slot x Shards + shard.
type Step struct {
	Suffix string
	Floor  time.Duration
	Width  time.Duration
	Slots  int32
	Shards int32
}

// end is the delay at which the next step begins.
func (s Step) end() time.Duration { return s.Floor + time.Duration(s.Slots)*s.Width }

func (s Step) partitions() int32 { return s.Slots * s.Shards }

// Ladder maps a delay to the slot that a delivery waits in. It is immutable; the zero value
// is not usable. A deployment has one, kept in control: another ladder means other topics,
// because records already in a slot mature by the floor they were placed under.
type Ladder struct {
	steps []Step
}

// DefaultLadder is the table of DESIGN section 8.
func DefaultLadder() Ladder {
	return Ladder{steps: []Step{
		{Suffix: "retry.15s", Floor: 0, Width: 15 * time.Second, Slots: 1, Shards: 8},
		{Suffix: "retry.2m", Floor: 15 * time.Second, Width: 15 * time.Second, Slots: 7, Shards: 1},
		{Suffix: "retry.15m", Floor: 2 * time.Minute, Width: 30 * time.Second, Slots: 26, Shards: 1},
		{Suffix: "retry.1h", Floor: 15 * time.Minute, Width: time.Minute, Slots: 45, Shards: 1},
	}}
}

// maxPartitions of one step: far above any sensible ladder, low enough to reject a typo
// before it reaches a broker.
const maxPartitions = 1024

// NewLadder checks steps and makes a ladder of them. They must begin at delay 0 and follow
// each other without a gap: a gap is a delay that has no slot.
func NewLadder(steps []Step) (Ladder, error) {
	if len(steps) == 0 {
		return Ladder{}, fmt.Errorf("check ladder: it has no steps")
	}
	seen := make(map[string]bool, len(steps))
	var end time.Duration
	for i, s := range steps {
		err := s.check(end)
		if err == nil && seen[s.Suffix] {
			err = fmt.Errorf("suffix occurs twice")
		}
		if err != nil {
			return Ladder{}, fmt.Errorf("check ladder step %d (%q): %w", i, s.Suffix, err)
		}
		seen[s.Suffix] = true
		end = s.end()
	}
	return Ladder{steps: slices.Clone(steps)}, nil
}

func (s Step) check(floor time.Duration) error {
	switch {
	case !strings.HasPrefix(s.Suffix, "retry.") || len(s.Suffix) > maxTier || !event.ValidType(s.Suffix):
		return fmt.Errorf("suffix must be retry. and a word")
	case s.Floor != floor:
		return fmt.Errorf("floor is %s, the steps before it end at %s", s.Floor, floor)
	case s.Width < time.Millisecond || s.Width%time.Millisecond != 0:
		return fmt.Errorf("width is %s, want whole milliseconds", s.Width)
	case s.Slots < 1 || s.Shards < 1 || int64(s.Slots)*int64(s.Shards) > maxPartitions:
		return fmt.Errorf("%d slots x %d shards, want 1 to %d partitions", s.Slots, s.Shards, maxPartitions)
	case s.Width > 365*24*time.Hour/time.Duration(s.Slots):
		return fmt.Errorf("%d slots of %s are more than a year", s.Slots, s.Width)
	}
	return nil
}

// Steps returns a copy of the steps.
func (l Ladder) Steps() []Step { return slices.Clone(l.steps) }

// Place returns the slot for a delivery that must wait delay: the one with the largest floor
// that is not above it. A delay beyond the ladder goes to the last slot, from which the
// mover places the rest again; a negative one goes to the first.
func (l Ladder) Place(delay time.Duration, key string) (suffix string, partition int32) {
	i := len(l.steps) - 1
	for i > 0 && delay < l.steps[i].Floor {
		i--
	}
	s := &l.steps[i]
	slot := int32(0)
	if delay > s.Floor {
		slot = int32(min(int64((delay-s.Floor)/s.Width), int64(s.Slots-1)))
	}
	shard := int32(0)
	if s.Shards > 1 {
		shard = event.Partition(key, s.Shards)
	}
	return s.Suffix, slot*s.Shards + shard
}

// Floor is the fixed time that every record of a slot waits in the log. ok is false when the
// ladder has no such slot.
func (l Ladder) Floor(suffix string, partition int32) (floor time.Duration, ok bool) {
	s := l.step(suffix, partition)
	if s == nil {
		return 0, false
	}
	return s.Floor + time.Duration(partition/s.Shards)*s.Width, true
}

// Width is the spread of due times inside a slot, that is, how long a record may wait in
// memory after it has matured. ok is false when the ladder has no such slot.
func (l Ladder) Width(suffix string, partition int32) (width time.Duration, ok bool) {
	s := l.step(suffix, partition)
	if s == nil {
		return 0, false
	}
	return s.Width, true
}

func (l Ladder) step(suffix string, partition int32) *Step {
	for i := range l.steps {
		if s := &l.steps[i]; s.Suffix == suffix {
			if partition < 0 || partition >= s.partitions() {
				return nil
			}
			return s
		}
	}
	return nil
}

// Span is the longest delay that the ladder holds in one hop.
func (l Ladder) Span() time.Duration { return l.steps[len(l.steps)-1].end() }

// Equal reports whether two ladders place every delivery alike.
func (l Ladder) Equal(o Ladder) bool { return slices.Equal(l.steps, o.steps) }

// Topics returns the retry topics, shortest delays first.
func (l Ladder) Topics() []event.Topic {
	topics := make([]event.Topic, 0, len(l.steps)+7)
	for _, s := range l.steps {
		topics = append(topics, retryTopic(s.Suffix, s.partitions()))
	}
	return topics
}
