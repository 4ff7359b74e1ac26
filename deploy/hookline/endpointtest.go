package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hookline/hookline/dispatcher"
	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/ingest/event"
)

// testEvent is the type of the event that a test delivery carries.
const testEvent = "hookline.test"

// testSenders is how many test deliveries keep a connection to one host for the next.
const testSenders = 1

// testForm is the answer of POST /v1/endpoints/{id}/test: what came of one attempt. Nothing
// of what the endpoint answered is in it but the status.
type testForm struct {
	EndpointID       string    `json:"endpoint_id"`
	EventID          string    `json:"event_id"`
	AttemptedAt      time.Time `json:"attempted_at"`
	Delivered        bool      `json:"delivered"`
	Status           int       `json:"status"` // 0 = no HTTP answer
	ErrorClass       string    `json:"error_class"`
	Error            string    `json:"error"`
	DNSMs            float64   `json:"dns_ms"`
	ConnectMs        float64   `json:"connect_ms"`
	TLSMs            float64   `json:"tls_ms"`
	TTFBMs           float64   `json:"ttfb_ms"`
	TotalMs          float64   `json:"total_ms"`
	HTTPVersion      string    `json:"http_version"`
	ConnectionReused bool      `json:"connection_reused"`
}

// testEndpoint posts one signed event to an endpoint, disabled or not, and answers with the
// outcome. It goes by the same transport, signature and egress guard as a delivery, and by
// none of the pipeline: no retry, no breaker, no attempt record, so reports and the
// accounting of events do not see it. Nothing is sent without a record of who asked for it.
func (s *admin) testEndpoint(w http.ResponseWriter, r *http.Request) {
	e, ok := s.store.get(r.PathValue("id"))
	if !ok {
		s.writeError(w, r, errNoEndpoint(r.PathValue("id")))
		return
	}
	if e.Fault != nil {
		s.writeError(w, r, unusable(e))
		return
	}
	rec := auditChange(r, "test", nil, nil)
	rec.EndpointID, rec.Tenant = e.ID, e.Tenant
	if err := s.audit.note(r.Context(), rec); err != nil {
		s.writeError(w, r, fmt.Errorf("note test of endpoint %s: %w", e.ID, err))
		return
	}
	now := time.Now()
	req, err := testRequest(e, now)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	res := s.sender.Send(r.Context(), req)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	writeJSON(w, http.StatusOK, testForm{
		EndpointID: e.ID, EventID: req.EventID, AttemptedAt: now.UTC().Truncate(time.Millisecond),
		Delivered: res.Success(), Status: res.Status, ErrorClass: res.ErrorClass, Error: res.ErrorText,
		DNSMs: ms(res.DNS), ConnectMs: ms(res.Connect), TLSMs: ms(res.TLS), TTFBMs: ms(res.TTFB), TotalMs: ms(res.Total),
		HTTPVersion: res.HTTPVersion, ConnectionReused: res.Reused,
	})
}

// testRequest makes the event of a test. Its message is the endpoint itself, and its sequence
// the time: a receiver that drops stale events must not take the second test for one.
func testRequest(e *endpoint.Endpoint, now time.Time) (*dispatcher.Request, error) {
	id := event.NewID()
	body, err := json.Marshal(map[string]any{
		"event": testEvent, "event_id": id, "message_id": e.ID, "endpoint_id": e.ID,
		"occurred_at": now.UTC().Format("2006-01-02T15:04:05.000Z07:00"),
	})
	if err != nil {
		return nil, fmt.Errorf("encode test event: %w", err)
	}
	return &dispatcher.Request{Endpoint: e, EventID: id, Attempt: 1, Seq: uint64(now.UnixMilli()), Body: body}, nil
}

// unusable refuses what needs an endpoint that can be sent to.
func unusable(e *endpoint.Endpoint) error {
	if url, ok := errors.AsType[*endpoint.RefusedURL](e.Fault); ok {
		out := refuse(http.StatusUnprocessableEntity, "refused_url", "%s", url.Error())
		out.Field = "url"
		return out
	}
	return refuse(http.StatusUnprocessableEntity, "unusable_endpoint", "the endpoint cannot be used as it is stored: %s", e.Fault)
}
