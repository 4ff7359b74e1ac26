package ingest

import (
	_ "embed"

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

// scrape writes all metrics of the process in the text format of Prometheus.
func (s *Server) scrape(ctx *fasthttp.RequestCtx) {
	if s.gatherer == nil {
		s.refuse(ctx, errNotFound)
		return
	}
	families, err := s.gatherer.Gather()
	if err != nil {
		s.log.Error("gather metrics", "error", err)
		s.refuse(ctx, errInternal)
		return
	}
	format := expfmt.NewFormat(expfmt.TypeTextPlain)
	ctx.SetContentType(string(format))
	enc := expfmt.NewEncoder(ctx.Response.BodyWriter(), format)
	for _, family := range families {
		if err := enc.Encode(family); err != nil {
			s.log.Error("write metrics", "error", err)
			s.refuse(ctx, errInternal)
			return
		}
	}
	s.metrics.answered(codeOK)
}

//go:embed openapi.json
var openAPI []byte

func (s *Server) openapi(ctx *fasthttp.RequestCtx) {
	ctx.SetContentType("application/json")
	ctx.Response.SetBodyRaw(openAPI) // never written to
	s.metrics.answered(codeOK)
}
