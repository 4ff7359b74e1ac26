package ingest

import (
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hookline/hookline/ingest/event"
)

// One key floods a broker that acknowledges nothing. The other is taken until the door is shut
// for all, and everything that was taken is accepted in the end.
func TestFloodOfOneKeyLeavesRoomForAnother(t *testing.T) {
	const body = 600
	r, fake := startFake(t, func(c *Config) {
		c.APIKeys = []string{"dev:secret", "acme:other"}
		c.MaxBody, c.StallAfter, c.AckTimeout = 1000, maxStall, 20*time.Second
		c.MaxBufferedBytes = 16 * 4 * (1000 + event.HeaderRoom)
	})
	_, release := hold(t, fake)
	limit, each := float64(waitLimit(r.server.cfg)), float64(body+recordOverhead)
	waiting := func() float64 { return r.metric("hookline_ingest_waiting_bytes") }
	answers := make(chan answer, 4096)
	var sent, back atomic.Int64
	post := func(key string) {
		sent.Add(1)
		go func() {
			a := r.post(padded(body), "Authorization", "", "authorization", "Bearer "+key)
			back.Add(1)
			answers <- a
		}()
	}
	// Each request either waits in the producer or comes back.
	settled := func() bool { return waiting()/each >= float64(sent.Load()-back.Load()) }
	for back.Load() == 0 {
		post("secret")
		eventually(t, settled)
		if waiting() > limit {
			t.Fatal("the flood is not refused before the door is shut for all")
		}
	}
	flood := waiting()
	if part := flood / limit; part < 0.45 || part > 0.55 {
		t.Errorf("the flood of one key is refused at %.2f of the limit, want half", part)
	}
	if a := <-answers; a.status != 503 || a.Code != codeUnavailable || a.header.Get("Retry-After") == "" || !strings.Contains(a.Detail, "key") {
		t.Errorf("flood: %s", a)
	}
	if n := r.metric("hookline_ingest_share_refusals_total"); n != 1 {
		t.Errorf("%v refusals are counted", n)
	}
	// The other key: as much as may wait of a key whatever the pressure.
	others := int(limit / smallShare / each)
	for range others {
		post("other")
		eventually(t, settled)
	}
	if back.Load() != 1 {
		t.Errorf("the other key is refused: %s", <-answers)
	}
	release()
	eventually(t, func() bool { return back.Load() == sent.Load() })
	for range sent.Load() - 1 {
		if a := <-answers; a.status != 202 {
			t.Errorf("taken but not accepted: %s", a)
		}
	}
	eventually(t, func() bool { return waiting() == 0 })
	for _, key := range []string{"secret", "other"} {
		if n := r.server.keys.Load().find([]byte("Bearer " + key)).share.waiting.Load(); n != 0 {
			t.Errorf("key %s still holds %d bytes", key, n)
		}
	}
}

// Whatever greedy holders there are, they stop before the door is shut for all; and who is
// refused has more than its equal part.
func TestOverLeavesRoomAndIsJust(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for n := 1; n <= 20; n++ {
		const most = 1 << 20
		held := make([]int64, n)
		var total int64
		refused := 0
		for refused < 50*n {
			i := rng.IntN(n)
			pressure := float64(total) / most
			if over(held[i], total, pressure) {
				if refused++; held[i]*int64(n) < total*9/10 && pressure < 0.9 {
					t.Fatalf("%d holders: one with %d of %d is refused at %.2f", n, held[i], total, pressure)
				}
				continue
			}
			held[i] += 1024
			if total += 1024; total > most {
				t.Fatalf("%d holders fill everything", n)
			}
		}
		want := float64(n) / float64(n+1)
		if got := float64(total) / most; got < want-0.1 || got > want+0.05 {
			t.Errorf("%d holders fill %.2f, want %.2f", n, got, want)
		}
		if over(0, total, float64(total)/most) {
			t.Errorf("%d holders: a new one is refused", n)
		}
	}
}

func TestWhoIsAloneHasNoShare(t *testing.T) {
	s, err := New(testConfig(func(c *Config) { c.APIKeys = []string{"dev:one"} }), Deps{Prefix: "x."})
	if err != nil {
		t.Fatal(err)
	}
	of := func(key string) *share { return s.keys.Load().find([]byte("Bearer " + key)).share }
	if of("one") != nil {
		t.Error("a key without others is bound")
	}
	if err := s.SetKeys([]string{"dev:one", "dev:two"}); err != nil {
		t.Fatal(err)
	}
	was := of("one")
	if was == nil || of("two") == nil || was == of("two") {
		t.Error("two keys have no share of their own each")
	}
	if err := s.SetKeys([]string{"dev:one", "dev:three"}); err != nil || of("one") != was {
		t.Errorf("a reload forgets what a key holds (%v)", err)
	}
}

// What the admission costs a request: nothing, and no allocation.
func BenchmarkAdmission(b *testing.B) {
	cfg := testConfig()
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	p := newProducer(nil, "t", cfg, m, nil)
	now := time.Now()
	for name, held := range map[string]int64{"small": 1000, "large": p.maxWait / 4} {
		who := &share{}
		who.wait(held)
		p.waiting.Store(p.maxWait / 3)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if problem := p.admit(now, who); problem != nil {
						b.Error(problem)
					}
				}
			})
		})
	}
}
