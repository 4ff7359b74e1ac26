package retrytiers

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hookline/hookline/retrytiers/tier"
)

func TestConfigValidate(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
	f := func(want string, change func(*Config)) {
		t.Helper()
		c := DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
		if _, err := New(c, Deps{}); err == nil {
			t.Errorf("New accepts what Validate refuses (%s)", want)
		}
	}
	f("ladder", func(c *Config) { c.Ladder = tier.Ladder{} })
	f("wheel records", func(c *Config) { c.WheelRecords = 0 })
	f("wheel bytes", func(c *Config) { c.WheelBytes = 1 })
	f("instance id", func(c *Config) { c.KeepMembership = true })
	f("commit interval", func(c *Config) { c.CommitInterval = 0 })
	f("trim interval", func(c *Config) { c.TrimInterval = -1 })
	f("flush timeout", func(c *Config) { c.FlushTimeout = 0 })
}

func TestMetricsAreRegisteredOnceAndReadableBeforeRun(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	m, err := New(DefaultConfig(), Deps{Metrics: r})
	if err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "hookline_retrytiers_") {
			t.Errorf("metric %s is not of this room", f.GetName())
		}
	}
	if m.Ready() == nil {
		t.Error("ready before Run")
	}
	if _, err := New(DefaultConfig(), Deps{Metrics: r}); err == nil {
		t.Error("two movers share one registry")
	}
}

func TestThrottleCountsWhatItHoldsBack(t *testing.T) {
	var th throttle
	now := time.UnixMilli(1_790_000_000_000)
	if _, ok := th.allow(now); !ok {
		t.Fatal("the first line is held back")
	}
	for i := range 5 {
		if _, ok := th.allow(now.Add(time.Duration(i) * time.Second)); ok {
			t.Fatal("a line passed within the interval")
		}
	}
	if suppressed, ok := th.allow(now.Add(throttleInterval)); !ok || suppressed != 5 {
		t.Errorf("after the interval: %v, %d held back", ok, suppressed)
	}
}
