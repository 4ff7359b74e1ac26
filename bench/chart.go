package bench

import (
	"fmt"
	"html/template"
	"math"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// line is one curve. A NaN in Y breaks it.
type line struct {
	Name string
	X, Y []float64
}

// tick is a mark on the x axis.
type tick struct {
	At   float64
	Text string
}

// chart is an SVG picture of some curves; the axes begin at zero.
type chart struct {
	Title, X, Y string
	Lines       []line
	Ticks       []tick // nil = round numbers
}

const (
	chartWidth, chartHeight = 760.0, 300.0
	padLeft, padRight       = 70.0, 20.0
	padTop, padBottom       = 34.0, 46.0
)

// SVG draws the chart. All text is escaped; the colours are classes of the page.
func (c chart) SVG() template.HTML {
	maxX, maxY := 0.0, 0.0
	for _, l := range c.Lines {
		for i := range l.X {
			if !math.IsNaN(l.Y[i]) {
				maxX, maxY = max(maxX, l.X[i]), max(maxY, l.Y[i])
			}
		}
	}
	maxX = max(maxX, 1e-9)
	stepY := niceStep(maxY)
	maxY = max(math.Ceil(maxY/stepY), 1) * stepY
	px := func(x float64) float64 { return padLeft + x/maxX*(chartWidth-padLeft-padRight) }
	py := func(y float64) float64 { return chartHeight - padBottom - y/maxY*(chartHeight-padTop-padBottom) }

	var b strings.Builder
	esc := template.HTMLEscapeString
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, chartWidth, chartHeight, esc(c.Title))
	fmt.Fprintf(&b, `<text class="title" x="%g" y="16">%s</text>`, padLeft, esc(c.Title))
	for i := 0; float64(i)*stepY <= maxY+stepY/2; i++ {
		y := float64(i) * stepY
		fmt.Fprintf(&b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/>`, padLeft, chartWidth-padRight, py(y), py(y))
		fmt.Fprintf(&b, `<text class="tick" text-anchor="end" x="%g" y="%.1f">%s</text>`, padLeft-8, py(y)+4, short(y))
	}
	ticks := c.Ticks
	if ticks == nil {
		step := niceStep(maxX)
		for i := 0; float64(i)*step <= maxX; i++ {
			ticks = append(ticks, tick{float64(i) * step, short(float64(i) * step)})
		}
	}
	for _, t := range ticks {
		if t.At <= maxX {
			fmt.Fprintf(&b, `<text class="tick" text-anchor="middle" x="%.1f" y="%g">%s</text>`, px(t.At), chartHeight-padBottom+18, esc(t.Text))
		}
	}
	fmt.Fprintf(&b, `<text class="axis" text-anchor="middle" x="%g" y="%g">%s</text>`, (padLeft+chartWidth-padRight)/2, chartHeight-6, esc(c.X))
	fmt.Fprintf(&b, `<text class="axis" text-anchor="middle" transform="translate(14 %g) rotate(-90)">%s</text>`, (padTop+chartHeight-padBottom)/2, esc(c.Y))
	for i, l := range c.Lines {
		fmt.Fprintf(&b, `<path class="line c%d" d="%s"/>`, i%4, path(l, px, py))
		x := chartWidth - padRight - float64(len(c.Lines)-i)*130
		fmt.Fprintf(&b, `<line class="line c%d" x1="%g" x2="%g" y1="12" y2="12"/><text class="tick" x="%g" y="16">%s</text>`,
			i%4, x, x+18, x+24, esc(l.Name))
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

func path(l line, px, py func(float64) float64) string {
	var b strings.Builder
	command := byte('M')
	for i := range l.X {
		if math.IsNaN(l.Y[i]) {
			command = 'M'
			continue
		}
		fmt.Fprintf(&b, "%c%.1f %.1f", command, px(l.X[i]), py(l.Y[i]))
		command = 'L'
	}
	return b.String()
}

// niceStep is 1, 2 or 5 times a power of ten, for four to ten steps up to limit.
func niceStep(limit float64) float64 {
	if limit <= 0 {
		return 1
	}
	p := math.Pow(10, math.Floor(math.Log10(limit)))
	switch r := limit / p; {
	case r < 2:
		return p / 5
	case r < 5:
		return p / 2
	}
	return p
}

// short writes 12000 as 12k.
func short(v float64) string {
	if v >= 10_000 {
		return fmt.Sprintf("%gk", round(v/1000, 1))
	}
	return fmt.Sprintf("%g", round(v, 3))
}

// percentileTicks are the marks of a percentile curve.
var percentileTicks = []tick{{0, "0"}, {1, "90 %"}, {2, "99 %"}, {3, "99.9 %"}, {4, "99.99 %"}, {5, "99.999 %"}}

// percentiles is the curve of a histogram over log10(1/(1-quantile)): every decade of the
// tail takes the same room. Values in milliseconds.
func percentiles(name string, h *hdrhistogram.Histogram) line {
	l := line{Name: name}
	if h == nil || h.TotalCount() == 0 {
		return l
	}
	for _, b := range h.CumulativeDistributionWithTicks(5) {
		if b.Quantile >= 100 {
			break
		}
		l.X = append(l.X, -math.Log10(1-b.Quantile/100))
		l.Y = append(l.Y, float64(b.ValueAt)/1000)
	}
	// The largest value stands where one in all would, and never left of the last mark.
	last := math.Log10(float64(h.TotalCount()))
	if n := len(l.X); n > 0 {
		last = max(last, l.X[n-1])
	}
	l.X = append(l.X, last)
	l.Y = append(l.Y, float64(h.Max())/1000)
	return l
}
