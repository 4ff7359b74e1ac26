package ingest

import (
	"bytes"
	_ "embed"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/valyala/fasthttp"
)

// healthz says that the process serves.
func (s *Server) healthz(ctx *fasthttp.RequestCtx) { s.plain(ctx, "ok\n") }

// readyz says whether a publish would be taken.
func (s *Server) readyz(ctx *fasthttp.RequestCtx) {
	if err := s.Ready(); err != nil {
		s.refuse(ctx, unavailable(err.Error()))
		return
	}
	s.plain(ctx, "ready\n")
}

func (s *Server) plain(ctx *fasthttp.RequestCtx, text string) {
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString(text)
	s.metrics.answered(codeOK)
}

// scrapes keeps the page of metrics for a moment. Gathering it costs as much as hundreds of
// publishes, and here anybody may ask, as often as he likes.
type scrapes struct {
	mu    sync.Mutex // guards the fields below, held while one gathers for all who ask
	page  []byte
	until time.Time
}

const scrapeEvery = time.Second

// scrape answers with all metrics of the process in the text format of Prometheus, up to a
// second old.
func (s *Server) scrape(ctx *fasthttp.RequestCtx) {
	if s.gatherer == nil {
		s.refuse(ctx, errNotFound)
		return
	}
	format := expfmt.NewFormat(expfmt.TypeTextPlain)
	page, err := s.scrapes.get(s.gatherer, format)
	if err != nil {
		s.log.Error("metrics cannot be shown", "error", err)
		s.refuse(ctx, errInternal)
		return
	}
	ctx.SetContentType(string(format))
	ctx.Response.SetBodyRaw(page) // never written to
	s.metrics.answered(codeOK)
}

// get returns the page; nobody may write to it.
func (s *scrapes) get(from prometheus.Gatherer, format expfmt.Format) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.until) {
		return s.page, nil
	}
	families, err := from.Gather()
	if err != nil {
		return nil, fmt.Errorf("gather metrics: %w", err)
	}
	var page bytes.Buffer
	enc := expfmt.NewEncoder(&page, format)
	for _, family := range families {
		if err := enc.Encode(family); err != nil {
			return nil, fmt.Errorf("write metrics: %w", err)
		}
	}
	s.page, s.until = page.Bytes(), time.Now().Add(scrapeEvery)
	return s.page, nil
}

//go:embed openapi.json
var openAPI []byte

func (s *Server) openapi(ctx *fasthttp.RequestCtx) {
	ctx.SetContentType("application/json")
	ctx.Response.SetBodyRaw(openAPI) // never written to
	s.metrics.answered(codeOK)
}
