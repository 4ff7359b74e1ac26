package event

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// goldenRecord reads a record from its readable form, see dump.
func goldenRecord(t *testing.T, name string) *kgo.Record {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".golden"))
	if err != nil {
		t.Fatal(err)
	}
	head, value, ok := strings.Cut(string(text), "\n\n")
	if !ok {
		t.Fatalf("%s has no value", name)
	}
	r := &kgo.Record{Topic: "hookline.events", Value: []byte(strings.TrimSuffix(value, "\n")), Timestamp: time.UnixMilli(1784452526000)}
	for i, line := range strings.Split(head, "\n") {
		key, v, _ := strings.Cut(line, ": ")
		if i == 0 {
			r.Key = []byte(v)
			continue
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: key, Value: []byte(v)})
	}
	if again := dump(r); !bytes.Equal(again, text) {
		t.Fatalf("%s was not read as it is written:\n%s", name, again)
	}
	return r
}

// The record that Debezium's outbox event router writes for a row of an outbox table, set up as
// the README says: the row's id is the event's id, and the record is not ours in any other way.
func TestRecordOfAnOutbox(t *testing.T) {
	e, err := Decode(goldenRecord(t, "debezium-outbox"))
	want := Event{
		ID: "406c07f3-26f0-4eea-a50c-109940064b8f", Type: "message.delivered", MessageID: "01HZY8Q3M6", Tenant: "dev", Origin: OriginKafka, Schema: "1",
		OccurredAt: time.Date(2026, 7, 19, 9, 15, 25, 123456000, time.UTC), AcceptedMs: 1784452526000, ContentType: "application/json", Sequence: -1,
		Body: []byte(`{"status": "delivered", "parts": [{"n": 1}, {"n": 2}], "cost": 9007199254740993}`),
	}
	if err != nil || !reflect.DeepEqual(e, want) {
		t.Errorf("%+v, %v", e, err)
	}
	if IsRandomID(e.ID) {
		t.Error("a row that is written again would be a second event")
	}
}
