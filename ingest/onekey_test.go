package ingest

import (
	"sync"
	"testing"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event"
)

// TestOneKeyOverThreeServers: servers that know nothing of each other answer one id and one
// partition for one key, and another for a key, a type, a message id or a tenant that differs.
func TestOneKeyOverThreeServers(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t)
	b.CreateTopics(t, event.EventsTopic(4))
	var rooms []*room
	for range 3 {
		r := launch(t, b.Opts, b.Prefix)
		r.ready()
		rooms = append(rooms, r)
	}
	var mu sync.Mutex
	ids, places := map[string]int{}, map[int32]int{}
	var wait sync.WaitGroup
	for i := range 200 {
		wait.Go(func() {
			a := rooms[i%3].post(goodBody, "Idempotency-Key", "order 4711")
			mu.Lock()
			defer mu.Unlock()
			if a.status != 202 {
				t.Error(a)
			}
			ids[a.ID]++
			places[a.Partition]++
		})
	}
	wait.Wait()
	if len(ids) != 1 || len(places) != 1 {
		t.Errorf("200 posts with one key got %d ids in %d partitions", len(ids), len(places))
	}
	for what, a := range map[string]answer{
		"another key": rooms[0].post(goodBody, "Idempotency-Key", "order 4712"),
		"no key":      rooms[1].post(goodBody), "no key again": rooms[1].post(goodBody),
		"another type":       rooms[2].post(`{"event":"message.failed","message_id":"01HZY8Q3M6"}`, "Idempotency-Key", "order 4711"),
		"another message id": rooms[2].post(`{"event":"message.delivered","message_id":"01HZY8Q3M7"}`, "Idempotency-Key", "order 4711"),
		"another tenant":     rooms[0].post(goodBody, "Idempotency-Key", "order 4711", "Authorization", "", "Authorization", "Bearer other"),
	} {
		if a.status != 202 || ids[a.ID] > 0 {
			t.Errorf("%s: %s", what, a)
		}
		ids[a.ID]++
	}
	// Another body under the key is accepted with the same id: that it conflicts is found where
	// the first one is known, by the dispatcher.
	if a := rooms[1].post(`{"event":"message.delivered","message_id":"01HZY8Q3M6","status":"read"}`, "Idempotency-Key", "order 4711"); a.status != 202 || ids[a.ID] != 200 {
		t.Errorf("another body: %s", a)
	}
}
