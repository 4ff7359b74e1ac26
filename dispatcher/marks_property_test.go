package dispatcher

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/dispatcher/ledger"
	"github.com/hookline/hookline/ingest/event"
)

// TestTheNextOwnerPostsExactlyWhatHasNoAckedRow leaves behind what a dead owner may have
// left: fan-outs of random width, rows of a random prefix of its deliveries in random order,
// a commit with a random bitmap and an attempts offset below the rows that count.
func TestTheNextOwnerPostsExactlyWhatHasNoAckedRow(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 4))
			r := newRig(t, 1)
			owed := map[string]bool{} // event id + endpoint
			types := []string{"t.none", "t.one", "t.two", "t.three"}
			for i, id := range []string{"x", "y", "z"} {
				r.endpoint(id, func(e *endpoint.Endpoint) { e.Events = types[i+1:] })
			}
			targets := [][]string{nil, {"x"}, {"x", "y"}, {"x", "y", "z"}}
			type delivery struct {
				ev       event.Event
				offset   int64
				endpoint string
			}
			const n = 60
			var events []event.Event
			var width []int
			for i := range n {
				k := rng.IntN(4)
				ev := r.publish("m", func(ev *event.Event) {
					ev.Type = types[k]
					if rng.IntN(2) == 0 {
						ev.ID = event.DeriveID("dev", ev.Type, "m", fmt.Sprint(i))
					}
				})
				events, width = append(events, ev), append(width, k)
			}
			at := rng.Int64N(n / 2)
			var runs []ledger.Run
			var left []delivery
			for off := at; off < n; off++ {
				if off > at && rng.IntN(4) == 0 {
					runs = append(runs, ledger.Run{From: off, To: off + 1})
					continue
				}
				ids := targets[width[off]]
				if len(ids) == 0 {
					ids = []string{""}
				}
				for _, id := range ids {
					left = append(left, delivery{events[off], off, id})
				}
			}
			rng.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
			ignored := rng.Int64N(4) // rows below the attempts offset that the commit names
			acked := rng.IntN(len(left))
			for i, d := range left {
				if d.endpoint != "" {
					owed[d.ev.ID+" "+d.endpoint] = true
				}
				if i >= acked {
					continue
				}
				row := attempt.Record{
					EventID: d.ev.ID, Endpoint: d.endpoint, Attempt: 1, Outcome: attempt.Delivered,
					Position: attempt.Position{Topic: attempt.SourceEvents, Offset: d.offset},
				}
				switch {
				case d.endpoint == "":
					row.Outcome = attempt.Unrouted
				case rng.IntN(3) == 0:
					row.Outcome = attempt.Retry
				}
				r.produce(&kgo.Record{Topic: r.topic(attempt.Suffix), Value: attempt.AppendRecord(nil, &row)})
				if int64(i) >= ignored {
					delete(owed, d.ev.ID+" "+d.endpoint)
				}
			}
			r.commitAs(context.Background(), event.EventsSuffix, 0, at, ledger.Metadata{Attempts: ignored, Runs: runs})
			var mu sync.Mutex
			sent := map[string]int{}
			r.send = senderFunc(func(_ context.Context, req *Request) Result {
				mu.Lock()
				defer mu.Unlock()
				sent[req.EventID+" "+req.Endpoint.ID]++
				return Result{Status: http.StatusOK}
			})
			p := r.start("a", nil)
			eventually(t, "commit", func() bool { return r.committed(event.EventsSuffix, 0) == n })
			p.end(t)
			for k, times := range sent {
				if times != 1 || !owed[k] {
					t.Errorf("%s was sent %d times, owed: %v", k, times, owed[k])
				}
			}
			for k := range owed {
				if sent[k] == 0 {
					t.Errorf("%s was never sent", k)
				}
			}
		})
	}
}
