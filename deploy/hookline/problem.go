package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
)

// apiError is an answer of the admin API in the form of RFC 9457. Codes are stable: clients
// branch on them.
type apiError struct {
	Type   string       `json:"type"`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Code   string       `json:"code"`
	Detail string       `json:"detail"`
	Field  string       `json:"field,omitempty"`
	Errors []fieldFault `json:"errors,omitempty"`
}

// fieldFault is one of several faults of a body.
type fieldFault struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

func (e *apiError) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Detail) }

func refuse(status int, code, format string, args ...any) *apiError {
	return &apiError{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// writeError answers with err; what is not an apiError is ours and is not told to the client.
func (s *admin) writeError(w http.ResponseWriter, r *http.Request, err error) {
	e, ok := errors.AsType[*apiError](err)
	if !ok {
		s.log.Error("admin request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		e = refuse(http.StatusServiceUnavailable, "unavailable", "the request could not be carried out now; try again, and look at the log if it stays so")
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(e.Status)
	encode(w, e)
}

// encode writes v; a client that has gone is not our trouble.
func encode(w io.Writer, v any) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encode(w, v)
}

// maxAdminBody bounds a request to the admin API; an endpoint's form takes a few KiB.
const maxAdminBody = 256 << 10

// readBody returns the JSON object of a request, or the apiError that says what is wrong.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if ct := r.Header.Get("Content-Type"); ct != "" {
		media, _, err := mime.ParseMediaType(ct)
		if err != nil || media != "application/json" && media != "application/merge-patch+json" {
			return nil, refuse(http.StatusUnsupportedMediaType, "unsupported_media_type", "Content-Type must be application/json")
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAdminBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, refuse(http.StatusRequestEntityTooLarge, "too_large", "the body is over %d bytes", maxAdminBody)
	}
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "invalid_json", "the body could not be read")
	}
	if len(body) == 0 {
		return nil, refuse(http.StatusBadRequest, "empty_body", "the body is empty; send a JSON object")
	}
	if !json.Valid(body) {
		return nil, refuse(http.StatusBadRequest, "invalid_json", "the body is not valid JSON")
	}
	return body, nil
}
