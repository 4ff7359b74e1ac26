package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/ingest/event/scan"
)

// keyed is a fleet of three ingest processes and what they answered.
type keyed struct {
	t      *testing.T
	fronts []string // URLs

	mu    sync.Mutex
	given []accepted
}

// post sends body with the key to one of the fronts, and to the next when there is no answer,
// as a producer does.
func (k *keyed) post(front int, key, body string) {
	for try := range 100 {
		req, err := http.NewRequest(http.MethodPost, k.fronts[(front+try)%len(k.fronts)]+"/v1/events", strings.NewReader(body))
		if err != nil {
			k.t.Error(err)
			return
		}
		req.Header.Set("Authorization", "Bearer key")
		req.Header.Set("Content-Type", "application/json")
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			continue
		}
		raw, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		var a accepted
		switch {
		case err != nil || resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusGatewayTimeout:
			<-time.After(10 * time.Millisecond)
			continue
		case resp.StatusCode != http.StatusAccepted || json.Unmarshal(raw, &a) != nil:
			k.t.Errorf("answer %d %s", resp.StatusCode, raw)
			return
		}
		k.mu.Lock()
		k.given = append(k.given, a)
		k.mu.Unlock()
		return
	}
	k.t.Error("a post was never answered")
}

// burst posts the same n times at once over all fronts and returns what they were given. half
// is called when half of the answers are there.
func (k *keyed) burst(n int, key, body string, half func()) []accepted {
	k.t.Helper()
	k.given = nil
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { k.post(i, key, body) })
	}
	poll(k.t, func() bool { k.mu.Lock(); defer k.mu.Unlock(); return len(k.given) >= n/2 })
	half()
	wait.Wait()
	if len(k.given) != n {
		k.t.Errorf("%d answers to %d posts", len(k.given), n)
	}
	return k.given
}

// TestE2EOneKeyOneDelivery posts one event with one key 200 times at once over three ingest
// processes, one of which is killed meanwhile; then again after a dispatcher was killed and
// the lanes have moved. All answers name one id and partition, and each endpoint gets one
// request. Another body under the key ends in dead; no key, no dedupe.
func TestE2EOneKeyOneDelivery(t *testing.T) {
	i, b := apart(t)
	i.must("", "topics", "create")
	d1Ingest, d1Admin := freeAddr(t), freeAddr(t)
	d1, _, admin := i.startRoleAt("dispatcher", d1Ingest, d1Admin)
	i.set("HOOKLINE_ADMIN_URL", admin)
	k := &keyed{t: t}
	var fronts []*proc
	for range 3 {
		p, ingest, _ := i.startRole("ingest")
		fronts, k.fronts = append(fronts, p), append(k.fronts, ingest)
	}
	shop := startCustomer(t)
	i.must(fmt.Sprintf("endpoints: [{id: a, url: '%[1]s/healthy'}, {id: b, url: '%[1]s/other'}]", shop.URL), "endpoints", "apply", "-f", "-", "--yes")

	const body = `{"event":"message.sent","message_id":"m1","n":1}`
	first := k.burst(200, "K", body, func() { _ = fronts[0].cmd.Process.Kill() })
	id, partition := first[0].ID, first[0].Partition
	one := func(given []accepted) {
		t.Helper()
		for _, a := range given {
			if a.ID != id || a.Partition != partition {
				t.Fatalf("answered %+v, before %s in %d", a, id, partition)
			}
		}
	}
	one(first)
	settled(t, b) // every copy has been decided about
	delivered := func(what string) {
		t.Helper()
		if a, o := len(shop.chain("/healthy", id)), len(shop.chain("/other", id)); a != 1 || o != 1 {
			t.Fatalf("%s: %d and %d requests, want one for each endpoint", what, a, o)
		}
	}
	delivered("200 posts over three processes, one of them killed")

	_ = d1.cmd.Process.Kill()
	<-d1.done
	d1, _, _ = i.startRoleAt("dispatcher", d1Ingest, d1Admin)
	one(k.burst(50, "K", body, func() {}))
	settled(t, b)
	delivered("the dispatcher was killed and came back")

	i.startRole("dispatcher") // lanes move
	one(k.burst(50, "K", body, func() {}))
	if code, _ := d1.stop(); code != exitOK { // and all of them move
		t.Errorf("stop: exit code %d: %s", code, d1.stderr.String())
	}
	one(k.burst(50, "K", body, func() {}))
	settled(t, b)
	delivered("the lanes have moved")

	one(k.burst(3, "K", strings.Replace(body, "1}", "2}", 1), func() {}))
	settled(t, b)
	delivered("another body under the key")
	same := k.burst(2, "", body, func() {})
	if same[0].ID == same[1].ID {
		t.Errorf("two posts without a key have one id: %+v", same)
	}
	settled(t, b)
	if n := shop.count(""); n != 2+2*2 {
		t.Errorf("%d requests, want 2 for the key and 4 for two posts of one body without", n)
	}
	conflicts(t, b, id)
}

// settled returns when everything in events is committed: no copy will be delivered any more.
func settled(t *testing.T, b *brokertest.Broker) {
	t.Helper()
	cl := b.Client(t)
	defer cl.Close()
	adm := kadm.NewClient(cl)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	poll(t, func() bool {
		ends, err := adm.ListEndOffsets(ctx, b.Prefix+event.EventsSuffix)
		if err != nil {
			t.Fatal(err)
		}
		committed, err := adm.FetchOffsets(ctx, event.GroupName(b.Prefix, "dispatcher"))
		if err != nil {
			t.Fatal(err)
		}
		done := true
		ends.Each(func(end kadm.ListedOffset) {
			at, ok := committed.Lookup(end.Topic, end.Partition)
			done = done && (end.Offset == 0 || ok && at.At >= end.Offset)
		})
		return done
	})
}

// conflicts counts what the attempts topic says of the event.
func conflicts(t *testing.T, b *brokertest.Broker, id string) {
	t.Helper()
	cl := b.Client(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	outcomes := map[string]int{}
	for p := range int32(attempt.DefaultPartitions) {
		end, err := scan.End(ctx, cl, b.Prefix+attempt.Suffix, p, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := scan.Range(ctx, cl, scan.Spec{Topic: b.Prefix + attempt.Suffix, Partition: p, Until: end}, func(r *kgo.Record) error {
			var row attempt.Record
			if err := attempt.Decode(r.Value, &row); err != nil {
				return err
			}
			if row.EventID == id {
				outcomes[row.Outcome.String()+row.Reason]++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if outcomes["delivered"] != 2 || outcomes["deadid_conflict"] != 3 || outcomes["dropped"] < 349 || len(outcomes) != 3 {
		t.Errorf("rows of the event: %v", outcomes)
	}
}
