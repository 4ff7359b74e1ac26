package retrytiers

import (
	"fmt"

	"github.com/hookline/hookline/dispatcher/ledger"
)

// position is where an opened slot is read from.
type position struct {
	at    int64
	marks []ledger.Run // at or above at, done before
	// trimmed: the log begins above what was committed. Our own trim never goes that far, so
	// retention or a person has removed records that were not released.
	trimmed bool
	// corrupt: the commit's metadata could not be read; work is repeated.
	corrupt error
}

// errPastEnd says that a log ends before what was committed of it.
type errPastEnd struct {
	topic     string
	partition int32
	at, end   int64
}

func (e *errPastEnd) Error() string {
	return fmt.Sprintf("open %s/%d at %d: its log ends at %d, acknowledged records were lost (unclean leader election, "+
		"deleted topic); reset the offset of this partition in the group to go on, for example with "+
		"kafka-consumer-groups --reset-offsets --to-latest", e.topic, e.partition, e.at, e.end)
}

// locate is what the reset policy of a client would decide, without ever skipping a record
// that exists. committed is -1 when the group has no commit for the partition.
func locate(committed int64, metadata string, start, end int64) (position, error) {
	switch {
	case committed < 0:
		return position{at: start}, nil
	case committed > end:
		return position{}, &errPastEnd{at: committed, end: end}
	}
	p := position{at: max(committed, start), trimmed: committed < start}
	m, corrupt := ledger.Decode(committed, metadata) // without runs when it is corrupt
	p.corrupt = corrupt
	for _, r := range m.Runs {
		// Marks beyond the end would hit records that are yet to come.
		r.To = min(r.To, end)
		if r.From < r.To {
			p.marks = append(p.marks, r)
		}
	}
	return p, nil
}
