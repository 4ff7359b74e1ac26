package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/bench/loadgen"
)

// groupLoad is what a bare batch produce is asked for.
type groupLoad struct {
	Group    int           `json:"group"` // records that are produced and waited for together
	Workers  int           `json:"workers"`
	Duration time.Duration `json:"duration"`
	Rate     float64       `json:"rate"` // records per second, 0 = closed loop
	Size     int           `json:"size"`
	Prefix   string        `json:"prefix"` // of message ids
}

// groupResult is what it did. A group has the ids of its first number and of those that
// follow it.
type groupResult struct {
	Run     string                 `json:"run"`
	Groups  []uint64               `json:"groups"` // the first numbers of those that were acknowledged
	Failed  int                    `json:"failed"` // groups of which a record failed
	Started time.Time              `json:"started"`
	Ended   time.Time              `json:"ended"`
	Latency *hdrhistogram.Snapshot `json:"latency"` // microseconds, per record
}

// produceGroups builds bodies as the load generator does and produces them in groups.
func (b *bare) produceGroups(load groupLoad) groupResult {
	cfg := loadgen.DefaultConfig()
	cfg.EventType, cfg.Size, cfg.MessagePrefix = bareEventType, load.Size, load.Prefix
	g := &groupRun{bare: b, load: load, bodies: loadgen.NewBodies(cfg), latency: loadgen.NewHistogram(), started: time.Now()}
	g.base = b.next.Load() + 1
	var wg sync.WaitGroup
	for range load.Workers {
		wg.Go(g.work)
	}
	wg.Wait()
	return groupResult{
		Run: b.run, Groups: g.acked, Failed: g.failed,
		Started: g.started, Ended: time.Now(), Latency: g.latency.Export(),
	}
}

type groupRun struct {
	bare    *bare
	load    groupLoad
	bodies  *loadgen.Bodies
	base    uint64
	started time.Time

	mu      sync.Mutex // guards what is below
	latency *hdrhistogram.Histogram
	acked   []uint64
	failed  int
}

func (g *groupRun) work() {
	size := uint64(g.load.Group)
	for {
		start := time.Now()
		if g.load.Rate == 0 && start.Sub(g.started) >= g.load.Duration {
			return
		}
		first := g.bare.next.Add(size) - size + 1
		if g.load.Rate > 0 {
			due := time.Duration(float64(first-g.base) * float64(time.Second) / g.load.Rate)
			if due >= g.load.Duration {
				return
			}
			start = g.started.Add(due)
			if wait := time.Until(start); wait > 0 {
				<-time.After(wait)
			}
		}
		ok := g.produce(first, start)
		g.mu.Lock()
		if ok {
			g.acked = append(g.acked, first)
		} else {
			g.failed++
		}
		// In range: the histogram takes ten minutes.
		_ = g.latency.RecordValues(max(time.Since(start).Microseconds(), 1), int64(g.load.Group))
		g.mu.Unlock()
	}
}

// produce produces one group and says whether all of it was acknowledged.
func (g *groupRun) produce(first uint64, now time.Time) bool {
	slab := make([]byte, 0, g.load.Group*(max(g.load.Size, loadgen.MinSize)+16))
	var left sync.WaitGroup
	left.Add(g.load.Group)
	var failed atomic.Bool
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			failed.Store(true)
		}
		left.Done()
	}
	for i := range g.load.Group {
		from := len(slab)
		slab = g.bodies.Append(slab, first+uint64(i), now)
		r := g.bare.record(slab[from:len(slab):len(slab)], now, first+uint64(i))
		g.bare.client.Produce(context.Background(), r, promise)
	}
	left.Wait()
	return !failed.Load()
}
