package main

import (
	"net/http"
	"time"
)

// healthForm is the answer of GET /v1/endpoints/{id}/health (CONTRACT section 4).
type healthForm struct {
	EndpointID     string     `json:"endpoint_id"`
	State          string     `json:"state"`
	Breaker        string     `json:"breaker"`
	InFlight       int        `json:"in_flight"`
	Limit          int        `json:"limit"`
	Parked         int        `json:"parked"`
	LastSuccessAt  *time.Time `json:"last_success_at"`
	LastFailureAt  *time.Time `json:"last_failure_at"`
	LastErrorClass string     `json:"last_error_class"`
}

// endpointHealth tells what the dispatcher of this process knows. A process without one
// refuses: half an answer would read as a healthy endpoint.
func (s *admin) endpointHealth(w http.ResponseWriter, r *http.Request) {
	e, ok := s.store.get(r.PathValue("id"))
	if !ok {
		s.writeError(w, r, errNoEndpoint(r.PathValue("id")))
		return
	}
	if s.healthOf == nil {
		s.writeError(w, r, refuse(http.StatusServiceUnavailable, "no_dispatcher",
			"this process has no dispatcher and knows nothing of its endpoints' health; ask the admin listener of one with the role dispatcher, or hookline report health"))
		return
	}
	h := s.healthOf(e)
	writeJSON(w, http.StatusOK, healthForm{
		EndpointID: e.ID, State: string(h.State), Breaker: h.Breaker.String(), InFlight: h.InFlight, Limit: h.Limit, Parked: h.Parked,
		LastSuccessAt: orNull(h.LastSuccess), LastFailureAt: orNull(h.LastFailure), LastErrorClass: h.LastErrorClass,
	})
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Millisecond)
	return &t
}
