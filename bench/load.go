package bench

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hookline/hookline/bench/loadgen"
	"github.com/hookline/hookline/bench/receiver"
	"github.com/hookline/hookline/bench/verify"
)

// target is one way into the system under test and the receiver paths that each event of
// it is owed to.
type target struct {
	url, key  string
	eventType string
	paths     []string
	pids      []int
	// dead adds dead letters to a check whose pairs did not all arrive; nil = there are none.
	dead func(ctx context.Context, c *verify.Check) error
}

// measured is one load from its first post to its last delivery.
type measured struct {
	load     *loadgen.Result
	report   verify.Report
	stats    receiver.Stats // of this load alone
	last     time.Time      // last first delivery
	self     Usage          // CPU is of this load, PeakRSS since the process began
	stack    Usage
	e2e      *hdrhistogram.Histogram
	bucket   time.Duration
	accepted []int
	arrived  []int
	p99      []float64
}

// loader runs loads against one receiver.
type loader struct {
	rcv      *receiver.Receiver
	drain    time.Duration
	progress io.Writer // nil = quiet
}

// measure runs a load to its end, waits for its deliveries and judges them. The receiver
// must hold no requests of the target's paths.
func (l *loader) measure(ctx context.Context, t target, cfg loadgen.Config, name string) (*measured, error) {
	cfg.URL, cfg.APIKey, cfg.EventType = t.url, t.key, t.eventType
	gen, err := loadgen.New(cfg)
	if err != nil {
		return nil, err
	}
	before := l.rcv.Stats(t.paths...)
	self, stack := selfUsage(), treeUsage(t.pids)
	stop := l.report(name, gen, before, t.paths)
	defer stop()
	m := &measured{load: gen.Run(ctx)}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", name, ctx.Err())
	}
	if m.load.Accepted == 0 {
		return nil, fmt.Errorf("%s: nothing was accepted by %s: answers %v, errors %v", name, t.url, m.load.ByStatus, m.load.Errors)
	}
	check, err := l.await(ctx, t, m, before)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	m.self.CPU -= self.CPU
	m.stack.CPU -= stack.CPU
	if t.dead != nil && check.Missing() > 0 {
		if err := t.dead(ctx, check); err != nil {
			return nil, fmt.Errorf("%s: %d deliveries are missing: %w", name, check.Missing(), err)
		}
	}
	m.report = check.Report()
	m.stats = l.rcv.Stats(t.paths...)
	m.stats.OK -= before.OK
	m.stats.Requests -= before.Requests
	m.stats.BadSignature -= before.BadSignature
	m.stats.BadHeaders -= before.BadHeaders
	m.series(check)
	return m, nil
}

// await returns the check once every pair was delivered, or once nothing arrived for the
// drain time. Usage is read just before a check is built, since building one is work.
func (l *loader) await(ctx context.Context, t target, m *measured, before receiver.Stats) (*verify.Check, error) {
	owed := int64(m.load.Accepted * len(t.paths))
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var seen int64 = -1
	arrived, checked := time.Now(), time.Time{}
	for {
		s := l.rcv.Stats(t.paths...)
		if s.Requests != seen {
			seen, arrived = s.Requests, time.Now()
		}
		quiet := time.Since(arrived) > l.drain
		if quiet || s.OK-before.OK >= owed && time.Since(checked) > time.Second {
			m.self, m.stack = selfUsage(), treeUsage(t.pids)
			check := l.check(t, m.load)
			if quiet || check.Missing() == 0 {
				return check, nil
			}
			checked = time.Now() // duplicates made up the number: look again in a second
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (l *loader) check(t target, load *loadgen.Result) *verify.Check {
	c := verify.New(t.paths...)
	load.Each(func(a loadgen.Accepted) bool { c.Accept(a.ID, a.BodyHash, a.Start); return true })
	mine := map[string]bool{}
	for _, p := range t.paths {
		mine[p] = true
	}
	l.rcv.Each(func(r *receiver.Request) bool {
		if mine[r.Path] {
			c.Receive(verify.Received{
				ID: r.ID, Endpoint: r.Path, MessageID: r.MessageID, Sequence: r.Sequence,
				Attempt: r.Attempt, BodyHash: r.BodyHash, At: r.At, OK: r.OK(),
			})
		}
		return true
	})
	return c
}

// maxBuckets bounds the points of a curve over time.
const maxBuckets = 120

// series fills the histogram of deliveries and the curves over time.
func (m *measured) series(c *verify.Check) {
	m.e2e = loadgen.NewHistogram()
	m.last = m.load.Started
	c.EachDelivered(func(_ string, start, delivered time.Time) {
		loadgen.Record(m.e2e, delivered.Sub(start))
		if delivered.After(m.last) {
			m.last = delivered
		}
	})
	end := m.last
	if m.load.Ended.After(end) {
		end = m.load.Ended
	}
	span := end.Sub(m.load.Started)
	m.bucket = max(100*time.Millisecond, (span/maxBuckets).Round(100*time.Millisecond)+100*time.Millisecond)
	n := int(span/m.bucket) + 1
	at := func(t time.Time) int { return min(max(int(t.Sub(m.load.Started)/m.bucket), 0), n-1) }
	m.accepted, m.arrived, m.p99 = make([]int, n), make([]int, n), make([]float64, n)
	m.load.Each(func(a loadgen.Accepted) bool { m.accepted[at(a.Done)]++; return true })
	hists := make([]*hdrhistogram.Histogram, n)
	c.EachDelivered(func(_ string, start, delivered time.Time) {
		i := at(delivered)
		m.arrived[i]++
		if hists[i] == nil { // two digits: there are many of these
			hists[i] = hdrhistogram.New(1, m.e2e.HighestTrackableValue(), 2)
		}
		loadgen.Record(hists[i], delivered.Sub(start))
	})
	for i, h := range hists {
		if h != nil {
			m.p99[i] = float64(h.ValueAtQuantile(99)) / 1000
		}
	}
}

// report writes a line per second until the function that it returns is called.
func (l *loader) report(name string, gen *loadgen.Generator, before receiver.Stats, paths []string) (stop func()) {
	if l.progress == nil {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for began := time.Now(); ; {
			select {
			case <-tick.C:
				s := l.rcv.Stats(paths...)
				// A terminal that is gone is no reason to end a run.
				_, _ = fmt.Fprintf(l.progress, "%s %3.0f s  accepted %d  delivered %d\n",
					name, time.Since(began).Seconds(), gen.Accepted(), s.OK-before.OK)
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}
