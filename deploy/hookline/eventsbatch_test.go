package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hookline/hookline/deploy/local/brokertest"
)

func TestPublishManyEvents(t *testing.T) {
	t.Parallel()
	r := startRig(t, brokertest.Start(t), roleIngest)
	line := func(n int) string { return fmt.Sprintf(`{"event":"a","message_id":"m-%d"}`, n) }
	var in strings.Builder
	for n := range 2500 { // three requests
		in.WriteString(line(n) + "\r\n\n")
	}
	stdout, stderr, code := r.cli(in.String(), "events", "publish", "--idempotency-key", "k")
	if code != exitOK || strings.Count(stdout, "evt_k") != 2500 || stderr != "" || !strings.Contains(stdout, " index=2499\n") {
		t.Fatalf("%d: %.300s %.300s", code, stdout, stderr)
	}
	if again, _, _ := r.cli(in.String(), "events", "publish", "--idempotency-key", "k"); again != stdout {
		t.Error("the same input with the same key has other ids")
	}
	if few, _, _ := r.cli(line(0)+"\n"+line(1), "events", "publish", "--idempotency-key", "k"); few == "" || !strings.HasPrefix(stdout, few) {
		t.Errorf("event n has not the key of event n: %s", few)
	}
	stdout, stderr, code = r.cli("["+line(0)+",{},"+line(1)+"]", "events", "publish", "--json")
	var answer batchAnswer
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || code != exitFailed || answer.Accepted != 2 || answer.Items[1].Code != "missing_field" || !strings.Contains(stderr, "1 of 3") {
		t.Errorf("%d %v: %s %s", code, err, stdout, stderr)
	}
	stdout, stderr, code = r.cli(line(0)+"\nbroken\n", "events", "publish")
	if code != exitFailed || strings.Count(stdout, "\n") != 1 || !strings.Contains(stderr, "event 1: 400 invalid_json") {
		t.Errorf("%d: %s %s", code, stdout, stderr)
	}
	// One event over several lines is one event.
	if stdout, stderr, code = r.cli("{\"event\":\"a\",\n\"message_id\":\"m\"}\n", "events", "publish"); code != exitOK || !strings.Contains(stdout, "message_id=m") {
		t.Errorf("%d: %s %s", code, stdout, stderr)
	}
	if _, stderr, code = r.cli(line(0)+"\n"+line(1), "events", "publish", "--api-key", "wrong"); code != exitFailed || !strings.Contains(stderr, "credential") {
		t.Errorf("wrong key: %d %s", code, stderr)
	}
}

// FuzzChunks: the chunks of an input are the input, and each fits.
func FuzzChunks(f *testing.F) {
	f.Add([]byte("{}\n\n{}\r\n"), 1, 100)
	f.Add([]byte("x\ny\nz"), 2, 100)
	f.Add([]byte("x\nyyyyyyyyyy\nz\n\n"), 5, 4)
	f.Fuzz(func(t *testing.T, body []byte, most, size int) {
		if most < 1 || size < 1 {
			return
		}
		events := func(b []byte) (n int) {
			for line := range bytes.Lines(b) {
				if len(bytes.TrimSpace(line)) > 0 {
					n++
				}
			}
			return n
		}
		var joined []byte
		parts := chunks(body, most, size)
		for _, p := range parts {
			if k := events(p); k == 0 || k > most || k > 1 && len(bytes.TrimSpace(p)) > size {
				t.Fatalf("a chunk of %d events and %d bytes", k, len(p))
			}
			joined = append(joined, p...)
		}
		if len(parts) > 0 && !bytes.Equal(joined, body) || events(joined) != events(body) {
			t.Fatalf("the chunks of %d bytes are %d bytes", len(body), len(joined))
		}
	})
}
