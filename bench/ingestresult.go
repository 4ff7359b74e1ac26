package bench

import (
	"fmt"
	"html/template"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hookline/hookline/bench/loadgen"
)

// ingestResult turns the rounds into the figures: rates and costs are medians of the rounds,
// latencies are of all rounds together, counts are sums.
func (s *session) ingestResult(sides []*ingestSide) *Result {
	o, own := s.opts, sides[0]
	sum := own.sum()
	r := &Result{
		Scenario: o.Scenario, Version: o.Version, StartedAt: own.rounds[0].started.UTC(), Machine: thisMachine(),
		Accepted: sum.check.Accepted, AcceptedPerSecond: sum.perSecond,
		Delivered: sum.check.Delivered, DeliveredPerSecond: sum.perSecond,
		Lost: sum.check.Lost, Duplicates: sum.check.Duplicates, PublishMs: quantiles(sum.latency),
		CPUSecondsPer10k: sum.allCPU, StackCPUSecondsPer10k: sum.ownCPU,
		PeakRSSMB: sum.allRSS, StackPeakRSSMB: sum.ownRSS,
		Config: Config{
			DurationSeconds: o.Duration.Seconds(), WarmupSeconds: o.Warmup.Seconds(), Loop: "closed", Rate: o.Rate,
			Connections: o.Connections, Size: o.Size, Messages: o.Messages, Batch: o.Batch, Broker: o.Broker,
		},
		Load: sum.load, Check: sum.check, Faults: append([]string{}, sum.check.Faults()...),
		Series: Series{Publish: sum.latency},
	}
	if o.Rate > 0 {
		r.Config.Loop = "open"
	}
	if sum.check.Duplicates > 0 {
		r.Faults = append(r.Faults, fmt.Sprintf("%d twice in the log", sum.check.Duplicates))
	}
	for _, round := range own.rounds {
		r.Rounds = append(r.Rounds, Round{
			AcceptedPerSecond: round.perSecond(), PublishP99Ms: quantiles(round.latency).P99, StackCPU: per10k(round.own.CPU, round.accepted),
		})
	}
	if len(sides) > 1 {
		r.compare(sides[1])
	}
	return r
}

// compare adds the bare side and the ratio: the median of the rounds' own ratios, since the
// two of a round share what the machine did besides.
func (r *Result) compare(bare *ingestSide) {
	sum := bare.sum()
	r.Baseline = &Baseline{
		Name: bare.name, PerSecond: sum.perSecond, AcceptedPerSecond: sum.perSecond, Lost: sum.check.Lost,
		PublishMs: quantiles(sum.latency), StackCPUSecondsPer10k: sum.ownCPU,
	}
	if sum.check.Lost > 0 {
		r.Faults = append(r.Faults, fmt.Sprintf("the baseline lost %d: its figure is not one", sum.check.Lost))
	}
	r.Series.BaselinePublish = sum.latency
	var ratios []float64
	for i, round := range bare.rounds {
		at := &r.Rounds[i]
		at.BaselinePerSecond, at.BaselineP99Ms = round.perSecond(), quantiles(round.latency).P99
		at.BaselineCPU = per10k(round.own.CPU, round.accepted)
		if at.BaselinePerSecond > 0 {
			at.Ratio = round3(at.AcceptedPerSecond / at.BaselinePerSecond)
			ratios = append(ratios, at.Ratio)
		}
	}
	if len(ratios) > 0 {
		ratio := round3(median(ratios))
		r.Ratio = &ratio
	}
}

func round3(v float64) float64 { return round(v, 3) }

// ingestSum is a side's rounds put together.
type ingestSum struct {
	perSecond      float64
	latency        *hdrhistogram.Histogram
	allCPU, ownCPU float64 // per 10,000
	allRSS, ownRSS float64
	load           LoadInfo
	check          Check
}

func (side *ingestSide) sum() ingestSum {
	out := ingestSum{latency: loadgen.NewHistogram(), load: LoadInfo{ByStatus: map[int]int{}, Errors: map[string]int{}}}
	var rates, all, own []float64
	for _, r := range side.rounds {
		rates = append(rates, r.perSecond())
		all = append(all, per10k(r.all.CPU, r.accepted))
		own = append(own, per10k(r.own.CPU, r.accepted))
		out.allRSS, out.ownRSS = megabytes(r.all.PeakRSS), megabytes(r.own.PeakRSS) // peaks only grow
		out.latency.Merge(r.latency)
		out.load.add(r.info)
		c := &out.check.Report
		c.Accepted += r.report.Accepted
		c.Owed += r.report.Owed
		c.Delivered += r.report.Delivered
		c.Lost += r.report.Lost
		c.Duplicates += r.report.Duplicates
		c.Extra += r.report.Extra
		c.BodyChanged += r.report.BodyChanged
		c.LostSamples = append(c.LostSamples, r.report.LostSamples...)
		c.DuplicateSamples = append(c.DuplicateSamples, r.report.DuplicateSamples...)
	}
	out.perSecond, out.allCPU, out.ownCPU = round(median(rates), 1), round3(median(all)), round3(median(own))
	return out
}

func (l *LoadInfo) add(o LoadInfo) {
	l.Sent += o.Sent
	l.Refused += o.Refused
	l.Unknown += o.Unknown
	for status, n := range o.ByStatus {
		l.ByStatus[status] += n
	}
	for class, n := range o.Errors {
		l.Errors[class] += n
	}
}

// ingestRows are the figures of scenario ingest.
func (r *Result) ingestRows() []row {
	b := r.Baseline
	base := func(text func(b *Baseline) string) string {
		if b == nil {
			return ""
		}
		return text(b)
	}
	latency := func(q Quantiles) string {
		return fmt.Sprintf("%.2f / %.2f / %.2f / %.2f ms", q.P50, q.P99, q.P999, q.Max)
	}
	out := []row{
		{"accepted", fmt.Sprint(r.Accepted), ""},
		{"accepted per second", fmt.Sprintf("%.1f /s", r.AcceptedPerSecond), base(func(b *Baseline) string { return fmt.Sprintf("%.1f /s", b.AcceptedPerSecond) })},
		{"found in the log", fmt.Sprint(r.Delivered), ""},
		{"lost", fmt.Sprint(r.Lost), base(func(b *Baseline) string { return fmt.Sprint(b.Lost) })},
		{"duplicates", fmt.Sprint(r.Duplicates), ""},
		{"publish p50 / p99 / p99.9 / max", latency(r.PublishMs), base(func(b *Baseline) string { return latency(b.PublishMs) })},
		{"CPU per 10k accepted, process", fmt.Sprintf("%.3f s", r.StackCPUSecondsPer10k), base(func(b *Baseline) string { return fmt.Sprintf("%.3f s", b.StackCPUSecondsPer10k) })},
		{"CPU per 10k accepted, all", fmt.Sprintf("%.3f s", r.CPUSecondsPer10k), ""},
		{"peak RSS, process", fmt.Sprintf("%.1f MB", r.StackPeakRSSMB), ""},
	}
	if r.Ratio != nil {
		lo, hi := r.Rounds[0].Ratio, r.Rounds[0].Ratio
		for _, round := range r.Rounds {
			lo, hi = min(lo, round.Ratio), max(hi, round.Ratio)
		}
		out = append(out, row{"ratio to the baseline", fmt.Sprintf("%.3f (%.3f to %.3f in %d rounds)", *r.Ratio, lo, hi, len(r.Rounds)), "1"})
	}
	return out
}

// ingestCharts are the pictures of scenario ingest.
func (r *Result) ingestCharts() []template.HTML {
	own, bare := line{Name: "hookline"}, line{Name: "baseline"}
	for i, round := range r.Rounds {
		x := float64(i + 1)
		own.X, own.Y = append(own.X, x), append(own.Y, round.AcceptedPerSecond)
		bare.X, bare.Y = append(bare.X, x), append(bare.Y, round.BaselinePerSecond)
	}
	rates := []line{own}
	publish := []line{percentiles("hookline", r.Series.Publish)}
	if r.Series.BaselinePublish != nil {
		rates = append(rates, bare)
		publish = append(publish, percentiles("baseline", r.Series.BaselinePublish))
	}
	return []template.HTML{
		chart{Title: "Accepted per second", X: "round", Y: "per second", Lines: rates}.SVG(),
		chart{Title: "Publish latency by percentile", X: "share of the posts", Y: "ms", Lines: publish, Ticks: percentileTicks}.SVG(),
	}
}
