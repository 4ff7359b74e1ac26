package analytics

import (
	"testing"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/ingest/event"
)

func TestEveryRecordOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.attempts(1, 5000)
	r.events(1, 300)
	run := r.start(nil)
	r.drained(attempt.Suffix)
	r.drained(event.EventsSuffix)
	r.compare()
	eventually(t, "readiness", func() bool { return run.Ready() == nil })
}
