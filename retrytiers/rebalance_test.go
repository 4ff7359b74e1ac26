package retrytiers

import (
	"testing"
	"time"
)

func (p *process) owned() int { return p.snapshot().slots }

// TestProcessesShareSlots adds a second and a third process under load and stops them again.
// Every hand-over is clean, so nothing comes twice.
func TestProcessesShareSlots(t *testing.T) {
	r := newRig(t)
	slots := 0
	eachSlot(func(string, int32) { slots++ })
	a := r.start(testConfig())
	r.ready(a)
	const n = 3000
	ids := r.place("r", n, func(i int) time.Duration { return time.Duration(i) * 12 * time.Second / n })

	b := r.start(testConfig())
	r.until("a second process with slots", func() bool {
		return b.owned() > 0 && a.owned()+b.owned() == slots && a.Ready() == nil && b.Ready() == nil
	})
	c := r.start(testConfig())
	r.until("a third process with slots", func() bool {
		return c.owned() > 0 && a.owned()+b.owned()+c.owned() == slots && c.Ready() == nil
	})
	a.halt()
	r.until("two processes with all slots", func() bool { return b.owned()+c.owned() == slots })
	b.halt()
	r.until("one process with all slots", func() bool { return c.owned() == slots && c.Ready() == nil })

	if duplicates := r.all(ids); duplicates != 0 {
		t.Errorf("%d came twice", duplicates)
	}
	late := r.lateness(ids)
	t.Logf("lateness p50 %s, p99 %s, largest %s", late[n/2], late[n*99/100], late[n-1])
	if s := c.snapshot(); s.paused > 0 {
		// Everything is released: no slot has a reason to be paused.
		r.until("no slot left paused", func() bool { return c.snapshot().paused == 0 })
	}
}

// TestStaticMemberKeepsItsSlots: with KeepMembership a restart within the session gets the
// same slots and no other process sees a rebalance.
func TestStaticMemberKeepsItsSlots(t *testing.T) {
	r := newRig(t)
	cfg := testConfig()
	cfg.InstanceID, cfg.KeepMembership = "static-a", true
	a := r.start(cfg)
	r.ready(a)
	other := testConfig()
	other.InstanceID = "static-b"
	b := r.start(other)
	slots := 0
	eachSlot(func(string, int32) { slots++ })
	r.until("two processes with slots", func() bool {
		return a.owned() > 0 && b.owned() > 0 && a.owned()+b.owned() == slots && a.Ready() == nil && b.Ready() == nil
	})
	ids := r.place("s", 1000, func(i int) time.Duration { return time.Duration(i) * 4 * time.Millisecond })
	before := b.owned()
	had := a.owned()
	a.halt()
	a = r.start(cfg)
	r.until("the same slots", func() bool { return a.owned() == had && a.Ready() == nil })
	if b.owned() != before {
		t.Errorf("the other process went from %d to %d slots", before, b.owned())
	}
	if duplicates := r.all(ids); duplicates != 0 {
		t.Errorf("%d came twice", duplicates)
	}
}
