package main

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
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
