package dispatcher

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookline/hookline/deploy/local/brokertest"
)

// TestEventsOfAJavaProducer lets Kafka's own client write to the events topic: its partitioner
// agrees with ours, its codecs are read, and what it aborts is not delivered. It runs where
// Kafka's jars are, with the suite on a real cluster.
func TestEventsOfAJavaProducer(t *testing.T) {
	if os.Getenv(brokertest.Env) == "" {
		return
	}
	r := newRig(t, 3)
	r.endpoint("e", nil)
	p := r.start("a", nil)
	jars, err := filepath.Abs("../.tools/kafka")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", jars+"/*", "testdata/Producer.java",
		strings.Join(r.b.Seeds, ","), r.topic("events"), r.b.Prefix+"java")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const delivered = 5*10 + 6 + 3
	r.recv.wait(t, delivered)
	eventually(t, "a row for each record", func() bool { return len(r.rowsOf()) == delivered+2 })
	for _, q := range r.recv.all() {
		if strings.Contains(q.body, "aborted") {
			t.Errorf("delivered %s", q.body)
		}
	}
	if n := metricValue(t, p, "records_forwarded_total"); n != 2 {
		t.Errorf("%v records forwarded, want the 2 that were misplaced on purpose", n)
	}
	p.end(t)
}
