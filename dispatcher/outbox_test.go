package dispatcher

import (
	"os"
	"strings"
	"testing"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/ingest/event"
)

// TestRecordOfAnOutboxIsDeliveredOnce writes the record that Debezium's outbox event router makes
// of a row (the golden file of ingest/event), and again, as Kafka Connect does after a restart.
func TestRecordOfAnOutboxIsDeliveredOnce(t *testing.T) {
	golden, err := os.ReadFile("../ingest/event/testdata/debezium-outbox.golden")
	if err != nil {
		t.Fatal(err)
	}
	head, value, _ := strings.Cut(strings.TrimSuffix(string(golden), "\n"), "\n\n")
	var key string
	var headers []string
	for i, line := range strings.Split(head, "\n") {
		name, v, _ := strings.Cut(line, ": ")
		if i == 0 {
			key = v
			continue
		}
		headers = append(headers, name, v)
	}
	r := newRig(t, 1)
	r.endpoint("e", nil)
	p := r.start("a", nil)
	r.produce(r.direct(key, 0, value, headers...), r.direct(key, 0, value, headers...))
	last := r.publish(key, nil)
	r.recv.wait(t, 2)
	eventually(t, "rows of all records", func() bool { return len(r.rowsOf()) == 3 })
	p.end(t)
	posts := r.recv.all()
	if len(posts) != 2 || posts[0].id == posts[1].id {
		t.Fatalf("%d posts, want one of the row and one of the event after it", len(posts))
	}
	for _, q := range posts {
		if q.id == last.ID {
			continue
		}
		if q.id != "406c07f3-26f0-4eea-a50c-109940064b8f" || q.body != value || q.header.Get("Content-Type") != event.DefaultContentType || q.attempt != "1" {
			t.Errorf("delivered %s %q as %s", q.id, q.body, q.header.Get("Content-Type"))
		}
	}
	delivered, dropped := 0, 0
	for _, row := range r.rowsOf() {
		switch row.Outcome {
		case attempt.Delivered:
			delivered++
		case attempt.Dropped:
			dropped++
		}
	}
	if delivered != 2 || dropped != 1 {
		t.Errorf("%d rows of deliveries, %d of drops", delivered, dropped)
	}
}
