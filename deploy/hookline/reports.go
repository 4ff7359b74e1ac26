package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hookline/hookline/analytics/report"
	"github.com/hookline/hookline/ingest/event"
)

// showReport answers a named report in the format that is asked for.
func (s *admin) showReport(w http.ResponseWriter, r *http.Request) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		s.writeError(w, r, refuse(http.StatusBadRequest, "invalid_field", "the query of the URL is not well-formed"))
		return
	}
	q, err := report.Parse(r.PathValue("name"), values, time.Now())
	if err != nil {
		s.writeError(w, r, questionFault(err))
		return
	}
	if q.Format == report.SQL { // nothing is asked
		w.Header().Set("Content-Type", q.Format.ContentType())
		_, _ = w.Write([]byte(q.SQL())) // a client that has gone is not our trouble
		return
	}
	var res *report.Result
	if err := s.ask(r.Context(), func(ctx context.Context, rep *report.Reporter) (err error) {
		res, err = rep.Run(ctx, q)
		return err
	}); err != nil {
		s.questionFailed(w, r, err)
		return
	}
	var body bytes.Buffer
	if err := res.Write(&body, q.Format); err != nil {
		s.writeError(w, r, err)
		return
	}
	w.Header().Set("Content-Type", q.Format.ContentType())
	_, _ = w.Write(body.Bytes())
}

// deliveryPage is the answer of GET /v1/deliveries: each event's way to each endpoint, and
// the events, which may be owed deliveries that have no row yet.
type deliveryPage struct {
	Items     []report.Delivery `json:"items"`
	Events    []eventState      `json:"events"`
	AsOf      time.Time         `json:"as_of"`
	Lag       *float64          `json:"lag_seconds"`
	Truncated bool              `json:"truncated"`
}

type eventState struct {
	ID         string     `json:"id"`
	MessageID  string     `json:"message_id"`
	Tenant     string     `json:"tenant"`
	Event      string     `json:"event"`
	AcceptedAt *time.Time `json:"accepted_at"`
	Sequence   uint64     `json:"sequence"`
	State      string     `json:"state"`
	Owed       uint64     `json:"deliveries"` // how many it is owed; 0 while that is not known
}

func (s *admin) listDeliveries(w http.ResponseWriter, r *http.Request) {
	subject, err := parseSubject(r.URL.RawQuery)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	var found *report.Found
	if err := s.ask(r.Context(), func(ctx context.Context, rep *report.Reporter) (err error) {
		found, err = rep.Lookup(ctx, subject)
		return err
	}); err != nil {
		s.questionFailed(w, r, err)
		return
	}
	page := &deliveryPage{Items: []report.Delivery{}, Events: []eventState{}, AsOf: found.AsOf, Lag: found.LagSeconds(), Truncated: found.Truncated}
	for i := range found.Events {
		e := &found.Events[i]
		state := eventState{ID: e.ID, MessageID: e.MessageID, Tenant: e.Tenant, Event: e.Type, Sequence: e.Sequence, State: e.State, Owed: e.Owed}
		if !e.AcceptedAt.IsZero() {
			state.AcceptedAt = &e.AcceptedAt
		}
		page.Items, page.Events = append(page.Items, e.Deliveries...), append(page.Events, state)
	}
	writeJSON(w, http.StatusOK, page)
}

// parseSubject reads which event or message is asked about; anything else is refused.
func parseSubject(query string) (report.Subject, error) {
	var out report.Subject
	values, err := url.ParseQuery(query)
	if err != nil {
		return out, refuse(http.StatusBadRequest, "invalid_field", "the query of the URL is not well-formed")
	}
	bad := func(field, format string, args ...any) (report.Subject, error) {
		e := refuse(http.StatusBadRequest, "invalid_field", format, args...)
		e.Field = field
		return report.Subject{}, e
	}
	for name, vs := range values {
		v := vs[0]
		switch {
		case len(vs) > 1:
			return bad(name, "%.40q is given more than once", name)
		case name == "event_id" && (v == "" || event.ValidID(v)):
			out.EventID = v
		case name == "message_id" && (v == "" || event.ValidMessageID(v)):
			out.MessageID = v
		case name == "tenant" && (v == "" || event.ValidTenant(v)):
			out.Tenant = v
		case name == "event_id" || name == "message_id" || name == "tenant":
			return bad(name, "this is no %s", name)
		default:
			return bad(name, "%.40q is not a parameter; give event_id or message_id, and tenant if needed", name)
		}
	}
	if out.EventID == "" && out.MessageID == "" {
		e := refuse(http.StatusBadRequest, "missing_field", "give event_id or message_id")
		e.Field = "event_id"
		return out, e
	}
	return out, nil
}

// errAnalyticsOff answers every question where no ClickHouse is set.
func errAnalyticsOff() *apiError {
	return refuse(http.StatusNotImplemented, "analytics_off", "analytics is off: the setting clickhouse.dsn (HOOKLINE_CLICKHOUSE_DSN) names no ClickHouse")
}

// ask runs fn with a reporter, within the number of questions that may run at once.
func (s *admin) ask(ctx context.Context, fn func(context.Context, *report.Reporter) error) error {
	if s.questions == nil {
		return errAnalyticsOff()
	}
	leave, err := s.questions.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return fn(ctx, s.questions.reporter)
}

// questionFault is the answer for parameters that make no question.
func questionFault(err error) error {
	if f, ok := errors.AsType[*report.FieldError](err); ok {
		code := "invalid_field"
		if f.Missing {
			code = "missing_field"
		}
		e := refuse(http.StatusBadRequest, code, "%s", f.Detail)
		e.Field = f.Field
		return e
	}
	if errors.Is(err, report.ErrUnknown) {
		return refuse(http.StatusNotFound, "not_found", "there is no such report; the reports are %s", strings.Join(report.Names(), ", "))
	}
	return err
}

// questionFailed answers for a question that could not be answered.
func (s *admin) questionFailed(w http.ResponseWriter, r *http.Request, err error) {
	if e, ok := errors.AsType[*apiError](err); ok {
		s.writeError(w, r, e)
		return
	}
	if errors.Is(err, report.ErrTooMuch) {
		s.writeError(w, r, refuse(http.StatusUnprocessableEntity, "too_much", "%s", report.ErrTooMuch))
		return
	}
	detail := "ClickHouse cannot be asked now; deliveries are not affected, and try again"
	if errors.Is(err, report.ErrNoTables) {
		detail = report.ErrNoTables.Error()
	}
	if r.Context().Err() == nil {
		s.log.Warn("a question could not be answered", "path", r.URL.Path, "error", err)
	}
	w.Header().Set("Retry-After", "5")
	s.writeError(w, r, refuse(http.StatusServiceUnavailable, "unavailable", "%s", detail))
}
