package scan

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// rangeWait bounds one fetch of a Range that waits for records still to come.
const rangeWait = 100 * time.Millisecond

// Spec names the part of a log that Range reads.
type Spec struct {
	Topic         string
	Partition     int32
	From          int64 // first offset, inclusive
	Until         int64 // exclusive; beyond End the Range waits for the log to grow
	ReadCommitted bool
}

// Range calls fn for every record with From <= offset < Until and returns Until once the log
// has been seen up to there, also when its last records are compacted away, transaction
// markers or aborted. next is the offset to go on from: when fn fails it is that record's.
//
// When records from From on are gone (trimmed, expired), Range reads all that exists, returns
// next == Until and an *OutOfRangeError whose Below is true: the caller decides whether the
// gap matters. Records are valid after fn returned.
func Range(ctx context.Context, cl *kgo.Client, s Spec, fn func(*kgo.Record) error) (next int64, err error) {
	p := newPartition(cl, s.Topic, s.Partition, s.ReadCommitted)
	var gone *OutOfRangeError
	next = s.From
	for next < s.Until {
		a, err := p.read(ctx, next, rangeWait)
		var oor *OutOfRangeError
		if errors.As(err, &oor) && oor.Below() {
			if gone == nil {
				gone = oor
			}
			next = min(oor.Start, s.Until)
			continue
		}
		if err != nil {
			return next, err
		}
		for _, r := range a.recs {
			if r.Offset >= s.Until {
				break
			}
			if err := fn(r); err != nil {
				return r.Offset, err
			}
			next = r.Offset + 1
		}
		next = max(next, min(a.next, s.Until))
	}
	if gone != nil {
		return next, gone
	}
	return next, nil
}
