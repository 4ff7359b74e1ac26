package retrytiers

import (
	"bytes"
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/retrytiers/tier"
)

// TestPoisonThatIsTooLargeForDeadIsCut: with the headers of a dead letter it does not fit any
// more, and it must not hold its slot for ever.
func TestPoisonThatIsTooLargeForDeadIsCut(t *testing.T) {
	r := newRig(t)
	p := r.start(testConfig())
	r.ready(p)
	big := r.b.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(1<<20))
	rec := &kgo.Record{Topic: r.b.Prefix + "retry.a", Key: bytes.Repeat([]byte("k"), 1<<20-120)}
	if err := big.ProduceSync(context.Background(), rec).FirstErr(); err != nil {
		t.Fatal(err)
	}
	r.until("a commit above the poison", func() bool { return r.committed("retry.a", 0) == 1 })
	if _, end := r.ends(tier.DeadSuffix, 0); end != 1 {
		t.Errorf("%d dead letters, want 1", end)
	}
}
