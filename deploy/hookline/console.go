package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/hookline/hookline/analytics/report"
)

const consolePath = "/console/"

//go:embed console.html
var consoleHTML string

var consolePage = template.Must(template.New("console").Parse(consoleHTML))

// console is one page that is rendered here and runs no script.
func (s *admin) console(w http.ResponseWriter, r *http.Request) {
	parts, ready := s.health.report()
	data := map[string]any{
		"Version": softwareVersion(), "Parts": parts, "Ready": ready, "Ingest": s.ingestURL(), "Endpoints": s.store.all(),
		"Health": s.consoleHealth(r.Context()),
	}
	var page bytes.Buffer
	if err := consolePage.Execute(&page, data); err != nil {
		s.writeError(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	w.Header().Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(page.Bytes()) // a client that has gone is not our trouble
}

// healthTable is the report of the last hour on the page.
type healthTable struct {
	Note    string
	Columns []string
	Rows    [][]string
}

// consoleTime bounds what the page waits for ClickHouse.
const consoleTime = 3 * time.Second

// consoleHealth never fails: the page is also for the time when ClickHouse is away.
func (s *admin) consoleHealth(ctx context.Context) *healthTable {
	ctx, cancel := context.WithTimeout(ctx, consoleTime)
	defer cancel()
	var res *report.Result
	err := s.ask(ctx, func(ctx context.Context, rep *report.Reporter) error {
		q, err := report.Parse("health", url.Values{"since": {"1h"}, "limit": {"100"}}, time.Now())
		if err == nil {
			res, err = rep.Run(ctx, q)
		}
		return err
	})
	e, _ := errors.AsType[*apiError](err)
	switch {
	case e != nil:
		return &healthTable{Note: e.Detail}
	case errors.Is(err, report.ErrNoTables):
		return &healthTable{Note: err.Error()}
	case err != nil:
		return &healthTable{Note: "ClickHouse cannot be asked now; deliveries are not affected."}
	}
	return &healthTable{Note: res.Note(), Columns: res.Columns, Rows: res.Texts()}
}
