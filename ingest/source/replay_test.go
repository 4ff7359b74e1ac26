package source

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

func TestMemoryKeepsAtLeastAsLongAsItSays(t *testing.T) {
	t.Parallel()
	m := NewMemory(10*time.Minute, 100)
	now := time.Unix(1e9, 0)
	first := m.Claim(Key{1}, now)
	if !first.First() {
		t.Fatal("nobody came before")
	}
	first.Settle(true, now)
	if c := m.Claim(Key{1}, now.Add(10*time.Minute)); c.First() || !c.Taken(0) {
		t.Error("forgotten too early")
	}
	if c := m.Claim(Key{2}, now); !c.First() {
		t.Error("another key is known")
	}
	if c := m.Claim(Key{1}, now.Add(10*time.Minute+1)); !c.First() {
		t.Error("never forgotten")
	}
}

func TestMemoryForgetsWhatWasNotTaken(t *testing.T) {
	t.Parallel()
	m := NewMemory(time.Minute, 100)
	now := time.Unix(1e9, 0)
	first := m.Claim(Key{1}, now)
	second := m.Claim(Key{1}, now)
	if second.First() || second.Taken(time.Millisecond) {
		t.Error("the second does not wait for the first")
	}
	first.Settle(false, now)
	first.Settle(true, now)
	if second.Taken(time.Hour) || !m.Claim(Key{1}, now).First() {
		t.Error("a request that failed is remembered")
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	m := NewMemory(time.Hour, 100)
	now := time.Unix(1e9, 0)
	for i := range 1000 {
		m.Claim(Key{byte(i), byte(i >> 8)}, now).Settle(true, now)
	}
	if m.Len() != 100 || len(m.known) != 100 || m.Evicted() != 900 {
		t.Errorf("%d kept, %d known, %d evicted", m.Len(), len(m.known), m.Evicted())
	}
	if m.Claim(Key{byte(999 & 255), 3}, now).First() {
		t.Error("the newest is not known")
	}
	later := now.Add(2 * time.Hour)
	m.Claim(Key{99, 99}, later).Settle(true, later)
	if m.Len() != 1 || m.Evicted() != 900 {
		t.Errorf("%d kept after their time, %d evicted", m.Len(), m.Evicted())
	}
}

// TestMemoryAgreesWithAModel: over random steps, the memory knows what a plain list knows.
func TestMemoryAgreesWithAModel(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 3))
	m := NewMemory(50*time.Second, 1<<20)
	model := map[Key]time.Time{}
	now := time.Unix(1e9, 0)
	for range 20_000 {
		now = now.Add(time.Duration(r.IntN(3)) * time.Second)
		key := Key{byte(r.IntN(64))}
		at, ok := model[key]
		known := ok && !now.After(at.Add(50*time.Second))
		c := m.Claim(key, now)
		if c.First() == known {
			t.Fatalf("first is %t, known %t", c.First(), known)
		}
		if !c.First() {
			continue
		}
		taken := r.IntN(4) > 0
		c.Settle(taken, now)
		if delete(model, key); taken {
			model[key] = now
		}
	}
}

func TestOneOfManyAtOnceIsFirst(t *testing.T) {
	t.Parallel()
	m := NewMemory(time.Minute, 100)
	now := time.Unix(1e9, 0)
	var wg sync.WaitGroup
	var mu sync.Mutex
	firsts, taken := 0, 0
	for range 64 {
		wg.Go(func() {
			c := m.Claim(Key{7}, now)
			if c.First() {
				c.Settle(true, now)
			}
			ok := c.Taken(time.Minute)
			mu.Lock()
			defer mu.Unlock()
			if c.First() {
				firsts++
			}
			if ok {
				taken++
			}
		})
	}
	wg.Wait()
	if firsts != 1 || taken != 64 {
		t.Errorf("%d firsts, %d taken", firsts, taken)
	}
}

func TestSourceRemembersForTwiceItsTolerance(t *testing.T) {
	t.Parallel()
	s := makeSource(t, "scheme: stripe\nsecrets: [s]\ntolerance: 60s")
	now := time.Unix(1e9, 0)
	s.Replays.Claim(Key{1}, now).Settle(true, now)
	if s.Replays.Claim(Key{1}, now.Add(120*time.Second)).First() {
		t.Error("a request from the end of the tolerance could be sent again")
	}
}
