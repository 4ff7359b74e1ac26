package retrytiers

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/retrytiers/tier"
)

// verdict is what becomes of a matured record.
type verdict struct {
	kind   kind
	at     int64 // Unix ms
	dueMs  int64
	target int32
	why    string
}

// decide is made once per record, from one clock reading. width is the slot's: a record that
// was placed here by the ladder is due within it. Half a width more is allowed for a writer
// whose clock is ahead of the broker's; what is due later than that takes a lap.
func decide(headers []kgo.RecordHeader, nowMs int64, width time.Duration, duePartitions int32) verdict {
	t, err := tier.DecodeTicket(headers)
	if err != nil {
		return verdict{kind: poison, at: nowMs, dueMs: nowMs, why: err.Error()}
	}
	if t.Orig.Partition >= duePartitions {
		why := fmt.Sprintf("header %s names partition %d, there are %d", tier.HeaderOrig, t.Orig.Partition, duePartitions)
		return verdict{kind: poison, at: nowMs, dueMs: nowMs, why: why}
	}
	v := verdict{kind: release, at: t.DueMs, dueMs: t.DueMs, target: t.Orig.Partition}
	if t.DueMs-nowMs > (width + width/2).Milliseconds() {
		v.kind, v.at = lap, nowMs
	}
	return v
}
