package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/cespare/xxhash/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/bench/verify"
	"github.com/hookline/hookline/ingest/event"
)

const (
	ingestRounds = 5
	// minRound: below it a garbage collection more or less is a difference.
	minRound = time.Second
)

// ingestScenario publishes and nothing else: no endpoint, no delivery. Hookline and the bare
// ingest take turns, a round each, on one broker, and figures are medians of the rounds:
// whatever else the machine does falls on both. After each round the log is read back.
func ingestScenario(ctx context.Context, s *session) (r *Result, err error) {
	o := s.opts
	if o.Stack.Kafka() == nil {
		return nil, errors.New("the log cannot be read back: the stack's broker is not reachable from here")
	}
	if !o.NoBaseline && o.Bare.URL == "" {
		return nil, errors.New("no bare ingest to compare with: skip it with --no-baseline")
	}
	sides, err := s.ingestSides()
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, side := range sides {
			side.log.close()
		}
	}()
	rounds := max(1, min(ingestRounds, int(o.Duration/minRound)))
	if o.Warmup > 0 {
		for _, side := range sides {
			if _, err := s.round(ctx, side, 0, o.Warmup); err != nil {
				return nil, err
			}
		}
	}
	for i := range rounds {
		for k := range sides {
			side := sides[(i+k)%len(sides)] // who begins changes
			done, err := s.round(ctx, side, i+1, o.Duration/time.Duration(rounds))
			if err != nil {
				return nil, err
			}
			side.rounds = append(side.rounds, done)
		}
	}
	return s.ingestResult(sides), nil
}

// ingestSide is one of the two that take turns.
type ingestSide struct {
	name   string
	tag    byte // in message ids, which are of one length on both sides
	log    *eventLog
	pids   []int
	load   func(ctx context.Context, name string, d time.Duration) (*ingestLoad, error)
	rounds []*ingestRound
}

// ingestLoad is what a load says that was accepted. each has the hash 0 for a body whose
// hash was not kept.
type ingestLoad struct {
	started, ended time.Time
	accepted       int
	latency        *hdrhistogram.Histogram
	info           LoadInfo
	each           func(fn func(id string, hash uint64))
}

// ingestRound is a load and what the log said about it.
type ingestRound struct {
	*ingestLoad
	report           verify.Report
	all, own, broker Usage // CPU is of the round
}

func (r *ingestRound) perSecond() float64 { return perSecond(r.accepted, r.ended.Sub(r.started)) }

func (s *session) ingestSides() ([]*ingestSide, error) {
	st := s.opts.Stack
	own, err := openLog(st.Kafka(), st.Prefix()+event.EventsSuffix)
	if err != nil {
		return nil, err
	}
	sides := []*ingestSide{{name: "hookline", tag: 'h', log: own, pids: st.PIDs(), load: s.publishLoad(st.IngestURL(), st.APIKey(), s.opts.Batch)}}
	if s.opts.NoBaseline {
		return sides, nil
	}
	b := s.opts.Bare
	log, err := openLog(st.Kafka(), b.Topic)
	if err != nil {
		return nil, err
	}
	side := &ingestSide{name: bareSingle, tag: 'b', log: log, pids: b.PIDs, load: s.publishLoad(b.URL, "-", 0)}
	if s.opts.Batch > 0 {
		side.name, side.load = bareBatch, s.groupLoad(b.URL)
	}
	return append(sides, side), nil
}

// round runs one load, reads the log back and removes from it what was checked.
func (s *session) round(ctx context.Context, side *ingestSide, number int, d time.Duration) (*ingestRound, error) {
	name := "warm-up"
	if number > 0 {
		name = fmt.Sprintf("round %d", number)
	}
	fail := func(err error) error { return fmt.Errorf("%s, %s: %w", side.name, name, err) }
	from, err := side.log.ends(ctx)
	if err != nil {
		return nil, fail(err)
	}
	runtime.GC() // what the check of the last round left
	self, own, broker := selfUsage(), treeUsage(side.pids), treeUsage(s.opts.BrokerPIDs)
	load, err := side.load(ctx, fmt.Sprintf("%d%c", number, side.tag), d)
	if err != nil {
		return nil, fail(err)
	}
	r := &ingestRound{ingestLoad: load, own: treeUsage(side.pids), broker: treeUsage(s.opts.BrokerPIDs), all: selfUsage()}
	r.own.CPU -= own.CPU
	r.broker.CPU -= broker.CPU
	r.all.CPU += r.own.CPU + r.broker.CPU - self.CPU
	r.all.PeakRSS += r.own.PeakRSS + r.broker.PeakRSS
	if r.accepted == 0 {
		return nil, fail(fmt.Errorf("nothing was accepted: answers %v, errors %v", r.info.ByStatus, r.info.Errors))
	}
	to, err := side.log.ends(ctx)
	if err != nil {
		return nil, fail(err)
	}
	if r.report, err = readBack(ctx, side.log, load, from, to); err != nil {
		return nil, fail(err)
	}
	if s.opts.Progress != nil {
		// A terminal that is gone is no reason to end a run.
		_, _ = fmt.Fprintf(s.opts.Progress, "%s, %s: %.0f/s, in the log %d of %d\n", side.name, name, r.perSecond(), r.report.Delivered, r.report.Accepted)
	}
	return r, side.log.trim(ctx, to)
}

// logPlace is what a check calls the log.
const logPlace = "log"

// readBack looks up every accepted id in the log.
func readBack(ctx context.Context, l *eventLog, load *ingestLoad, from, to map[int32]int64) (verify.Report, error) {
	check := verify.New(logPlace)
	hashed := true
	load.each(func(id string, hash uint64) {
		hashed = hashed && hash != 0
		check.Accept(id, hash, load.started)
	})
	err := l.each(ctx, from, to, func(r *kgo.Record) {
		got := verify.Received{ID: string(headerID(r)), Endpoint: logPlace, At: r.Timestamp, OK: true}
		if hashed {
			got.BodyHash = xxhash.Sum64(r.Value)
		}
		check.Receive(got)
	})
	return check.Report(), err
}

// median of figures, the mean of the two in the middle for an even number.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
