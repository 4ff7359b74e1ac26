package reconcile

import (
	"errors"
	"testing"
	"time"

	"github.com/hookline/hookline/analytics/progress"
)

// TestAccounts builds all that a dispatcher may make of an event, and then loses things.
func TestAccounts(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.round("nothing", Sums{})
	later := w.clock.Add(time.Hour)

	at := w.accepted("evt_delivered", 0, 0)
	w.told(row{id: "evt_delivered", endpoint: "a", outcome: "delivered", accepted: at, owed: 1, attempt: 1})
	w.told(row{id: "evt_delivered", endpoint: "z", outcome: "delivered", trigger: "replay", accepted: at, owed: 1, attempt: 1}) // sent again, to another
	at = w.accepted("evt_unrouted", 0, time.Second)
	w.told(row{id: "evt_unrouted", outcome: "unrouted", accepted: at})
	at = w.accepted("evt_fanout", 0, 2*time.Second)
	w.told(row{id: "evt_fanout", endpoint: "a", outcome: "delivered", accepted: at, owed: 3, attempt: 1})
	w.told(row{id: "evt_fanout", endpoint: "b", outcome: "retry", accepted: at, owed: 3, attempt: 1, waits: at.Add(time.Minute)})
	w.told(row{id: "evt_fanout", endpoint: "b", outcome: "dead", accepted: at, owed: 3, attempt: 2})
	w.told(row{id: "evt_fanout", endpoint: "c", outcome: "retry", accepted: at, owed: 3, attempt: 1, waits: later})
	at = w.accepted("evt_parked", 2, 3*time.Second) // partition 2: the same partition of attempts as 0
	w.told(row{id: "evt_parked", endpoint: "a", outcome: "parked", accepted: at, owed: 1, attempt: 1, waits: later})
	// Repeats under one key: one before the window knew, one dropped, one with another body.
	at = w.accepted("evt_k", 0, 4*time.Second)
	w.told(row{id: "evt_k", endpoint: "a", outcome: "delivered", accepted: at, owed: 1, attempt: 1})
	at = w.accepted("evt_k", 0, 5*time.Second)
	w.told(row{id: "evt_k", outcome: "dropped", accepted: at})
	at = w.accepted("evt_k", 0, 6*time.Second)
	w.told(row{id: "evt_k", outcome: "dead", accepted: at})
	at = w.accepted("evt_k", 0, 7*time.Second) // beyond the window: delivered again
	w.told(row{id: "evt_k", endpoint: "a", outcome: "delivered", accepted: at, owed: 1, attempt: 1})
	// Repeats in one millisecond: one delivered, one dropped, one delivered again.
	at = w.accepted("evt_same", 0, 8*time.Second)
	w.accepted("evt_same", 0, 8*time.Second)
	w.accepted("evt_same", 0, 8*time.Second)
	w.told(row{id: "evt_same", endpoint: "a", outcome: "delivered", accepted: at, owed: 1, attempt: 1})
	w.told(row{id: "evt_same", endpoint: "a", outcome: "delivered", accepted: at, owed: 1, attempt: 1})
	again, sameDropped := row{id: "evt_same", outcome: "dropped", accepted: at}, w.rows
	w.told(again)
	// Over the edge of an hour: another sum, and its rows come later still.
	at = w.accepted("evt_edge", 0, 30*time.Minute)
	w.told(row{id: "evt_edge", endpoint: "a", outcome: "dead", accepted: at, owed: 1, attempt: 1})
	// A replay of what is dead is pending elsewhere; poison is no event.
	w.told(row{id: "evt_edge", endpoint: "a", outcome: "retry", trigger: "replay", accepted: at, owed: 1, attempt: 1, waits: later})
	w.told(row{outcome: "dead", accepted: at})
	// Of the third event that is delivered to nobody yet nothing is known, and it is not asked about.
	w.eventRow("evt_new", 0, w.next[0], base.Add(time.Second))

	good := Sums{Accepted: 14, Delivered: 6, Dead: 3, Unrouted: 1, Dropped: 2, Pending: 2}
	w.round("all is well", good)
	w.round("and stays so", good)

	// A row that was inserted twice changes nothing, and hides nothing.
	again.attempt = 7 // else it would be the same block, which ClickHouse drops
	w.rowAt(again, sameDropped)
	w.round("inserted again", good)

	lose := func(what, where string, want func(*Sums)) {
		t.Helper()
		w.exec("ALTER TABLE hookline.attempts DELETE WHERE " + where + " SETTINGS mutations_sync = 1")
		want(&good)
		w.round(what, good)
	}
	lose("the only row of an event is lost", "event_id = 'evt_delivered' AND endpoint_id = 'a'", func(s *Sums) { s.Delivered--; s.Unaccounted++ })
	lose("one of three endpoints is lost", "event_id = 'evt_fanout' AND endpoint_id = 'a'", func(s *Sums) { s.Delivered--; s.Unaccounted++ })
	lose("a verdict is lost", "event_id = 'evt_unrouted'", func(s *Sums) { s.Unrouted--; s.Unaccounted++ })
	lose("a repeat's verdict is lost", "event_id = 'evt_k' AND outcome = 'dropped'", func(s *Sums) { s.Dropped--; s.Unaccounted++ })
	lose("that of a repeat in one millisecond", "event_id = 'evt_same' AND outcome = 'dropped'", func(s *Sums) { s.Dropped--; s.Unaccounted++ })
	lose("a parked delivery is lost with its row", "event_id = 'evt_parked'", func(s *Sums) { s.Pending--; s.Unaccounted++ })

	// An event that nobody has handled, below what the dispatcher has committed.
	w.commit("dispatcher", "events", 0, w.next[0]+1)
	w.grow("events", 0, 1)
	w.commit("analytics", "events", 0, w.next[0]+1)
	good.Accepted++
	good.Unaccounted++
	w.round("an event was passed over", good)
	if got := w.gauge("hookline_analytics_unaccounted_by_age_deliveries"); got != float64(good.Unaccounted) {
		t.Errorf("by age: %g", got)
	}
	if got := w.gauge("hookline_analytics_unaccounted_worst_hour_deliveries"); got != float64(good.Unaccounted) {
		t.Errorf("worst hour: %g", got)
	}
	if got := w.gauge("hookline_analytics_reconcile_rounds_total"); got < 10 {
		t.Errorf("%g rounds", got)
	}
}

// TestPendingNeedsAProof holds a delivery whose copy is lost: it is pending only as long as a
// copy might be on its way.
func TestPendingNeedsAProof(t *testing.T) {
	t.Parallel()
	w := start(t)
	at := w.accepted("evt_1", 0, 0)
	w.grow("retry.15s", 0, 3)
	w.commit("retrytiers", "retry.15s", 0, 1) // its copy, say, lies there
	due := w.clock.Add(10 * time.Second)
	w.told(row{id: "evt_1", endpoint: "a", outcome: "retry", accepted: at, owed: 1, attempt: 1, waits: due})
	pending := Sums{Accepted: 1, Pending: 1}
	w.round("not due", pending)
	w.clock = due.Add(2 * time.Minute)
	w.round("due, and the movers are late", pending)
	w.clock = due.Add(3 * time.Minute)
	w.round("still", pending)
	w.grow("due", 0, 1) // moved, and the dispatcher has not handled it
	w.commit("retrytiers", "retry.15s", 0, 3)
	w.round("moved: the dispatcher is late", pending)
	w.commit("dispatcher", "due", 0, 1)
	w.round("handled without a row: lost", Sums{Accepted: 1, Unaccounted: 1})
	if w.gauge("hookline_analytics_reconcile_proof_age_seconds") > 60 {
		t.Error("the proof is not dated")
	}
	// What was handled and waits again, by a row younger than the proof, is pending.
	w.told(row{id: "evt_1", endpoint: "a", outcome: "parked", accepted: at, owed: 1, attempt: 2, waits: due.Add(time.Second)})
	w.round("parked again", pending)
	w.told(row{id: "evt_1", endpoint: "a", outcome: "delivered", accepted: at, owed: 1, attempt: 2})
	w.round("delivered", Sums{Accepted: 1, Delivered: 1})

	at = w.accepted("evt_2", 0, time.Second)
	w.told(row{id: "evt_2", endpoint: "a", outcome: "retry", accepted: at, owed: 1, attempt: 1}) // posted, and the lane was lost
	w.round("only a row that promises nothing", Sums{Accepted: 2, Delivered: 1, Unaccounted: 1})
	w.told(row{id: "evt_2", endpoint: "a", outcome: "delivered", accepted: at, owed: 1, attempt: 1})
	w.round("the new owner has delivered", Sums{Accepted: 2, Delivered: 2})
	at = w.accepted("evt_3", 0, 2*time.Second)
	w.told(row{id: "evt_3", endpoint: "a", outcome: "delivered", accepted: at, owed: 2, attempt: 1})
	w.told(row{id: "evt_3", endpoint: "b", outcome: "retry", accepted: at, owed: 2, attempt: 1})
	w.round("the same beside one that was delivered", Sums{Accepted: 4, Delivered: 3, Unaccounted: 1})
}

func TestARoundThatProvesNothingCountsNothing(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.exec("RENAME TABLE hookline.events TO hookline.elsewhere")
	if _, err := w.r.Round(t.Context()); !errors.Is(err, errLate) {
		t.Fatalf("a round before the tables: %v", err)
	}
	w.exec("RENAME TABLE hookline.elsewhere TO hookline.events")
	at := w.accepted("evt_1", 1, 0)
	w.round("its rows are all there: there are none", Sums{Accepted: 1, Unaccounted: 1})
	w.grow("attempts", 1, 1) // the sink has not taken it yet
	if _, err := w.r.Round(t.Context()); !errors.Is(err, errLate) {
		t.Fatalf("a round before the sink: %v", err)
	}
	w.rowAt(row{id: "evt_1", endpoint: "a", outcome: "delivered", accepted: at, owed: 1, attempt: 1, part: 1}, 0)
	w.commit("analytics", "attempts", 1, 1)
	w.round("the sink has it", Sums{Accepted: 1, Delivered: 1})
	w.grow("events", 1, 1)
	w.commit("dispatcher", "events", 1, 2)
	if _, err := w.r.Round(t.Context()); !errors.Is(err, errLate) {
		t.Fatalf("a round before the sink has the event: %v", err)
	}
	if w.gauge("hookline_analytics_reconcile_rounds_total") != 5 {
		t.Error("late rounds are not counted")
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	var h history
	moved := int64(0)
	at := func(string, int32) int64 { return moved }
	for i := range 3 * maxSnapshots {
		h.add(snapshot{at: time.Unix(int64(i), 0), retry: progress.Offsets{"r": {0: int64(i)}}})
		if len(h) > maxSnapshots {
			t.Fatalf("%d snapshots are kept", len(h))
		}
	}
	if s := h.latest(at); s == nil || s.at.Unix() != 0 {
		t.Errorf("the first is passed, got %+v", s)
	}
	moved = 100
	s := h.latest(at)
	if s == nil || s.at.Unix() > 100 || s.at.Unix() < 80 || !h[0].at.Equal(s.at) {
		t.Errorf("at 100: %+v", s)
	}
	if moved = 0; h.latest(at) != nil {
		t.Error("a group that was set back has passed something")
	}
}

func TestHours(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	now := time.Date(2026, 7, 19, 12, 30, 0, 0, time.UTC)
	h := hours{}
	first := h.due(0, &cfg, now)
	if len(first) != 74 || !first[0].Equal(now.Add(-72*time.Hour).Truncate(time.Hour)) || !first[73].Equal(now.Truncate(time.Hour).Add(time.Hour)) {
		t.Fatalf("%d hours from %s to %s", len(first), first[0], first[len(first)-1])
	}
	for _, at := range first {
		h[at] = map[int32]Sums{}
	}
	h[first[5]] = map[int32]Sums{3: {Pending: 1}}
	if got := h.due(1, &cfg, now); len(got) != 4 {
		t.Errorf("a usual round counts %v", got)
	}
	if got := h.due(cfg.OpenEvery, &cfg, now); len(got) != 5 || !got[0].Equal(first[5]) {
		t.Errorf("a round for what is open counts %v", got)
	}
	if got := h.due(cfg.SweepEvery, &cfg, now); len(got) != 74 {
		t.Errorf("a sweep counts %d", len(got))
	}
	if got := h.due(1, &cfg, now.Add(10*time.Hour)); len(h) != 64 || len(got) != 10 {
		t.Errorf("ten hours later: %d are remembered, %d counted", len(h), len(got))
	}
}
