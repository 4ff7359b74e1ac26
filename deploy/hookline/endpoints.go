package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/dispatcher/signature"
	"github.com/hookline/hookline/dispatcher/table"
)

// endpointForm is an endpoint as the API shows it: the form of CONTRACT section 4, and when
// it was made and changed.
type endpointForm struct {
	endpoint.Endpoint
	CreatedAt time.Time `json:"created_at,omitzero"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
	Fault     string    `json:"fault,omitempty"` // why it cannot be used as it is stored
	// Warnings name settings that are kept and have no effect in this version.
	Warnings []string `json:"warnings,omitempty"`
	// PublicKey is what the receiver of a v1a endpoint verifies with: the current key's.
	PublicKey string `json:"public_key,omitempty"`
}

// warnings says which settings of e this version does not act on. They are kept, so that a
// later version will; saying nothing would be a promise.
func warnings(e *endpoint.Endpoint) (out []string) {
	warn := func(kept bool, field, instead string) {
		if kept {
			out = append(out, field+" has no effect in this version: "+instead)
		}
	}
	warn(e.Ordering != endpoint.BestEffort, "ordering", "deliveries are "+endpoint.BestEffort)
	warn(e.OnDead == endpoint.OnDeadStop, "on_dead", "later events go on")
	return out
}

// readOnly are the names that the API shows and a body may carry back without effect.
func readOnly() []string {
	return []string{"created_at", "updated_at", "fault", "warnings", "public_key"}
}

// showEndpoint hides the secret but for its last four characters, unless whole.
func showEndpoint(e *endpoint.Endpoint, whole bool) *endpointForm {
	form := &endpointForm{Endpoint: e.Clone(), CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt}
	form.Warnings = warnings(e)
	form.Secret = ""
	if len(e.Keys) > 0 {
		form.Secret = e.Keys[0].Last4()
		if whole {
			form.Secret = e.Keys[0].Secret
		}
		if key, err := signature.ParseSecret(e.Keys[0].Secret); err == nil {
			form.PublicKey = key.Public() // of v1 there is none
		}
	}
	if e.Fault != nil {
		form.Fault = e.Fault.Error()
	}
	return form
}

func etag(e *endpoint.Endpoint) string { return `"` + strconv.FormatInt(e.Version, 10) + `"` }

func (s *admin) answerEndpoint(w http.ResponseWriter, status int, e *endpoint.Endpoint, whole bool) {
	w.Header().Set("ETag", etag(e))
	if status == http.StatusCreated {
		w.Header().Set("Location", "/v1/endpoints/"+e.ID)
	}
	writeJSON(w, status, showEndpoint(e, whole))
}

func errNoEndpoint(id string) error {
	return refuse(http.StatusNotFound, "not_found", "there is no endpoint %.64q", id)
}

// maxPage bounds a list.
const (
	defaultPage = 100
	maxPage     = 1000
)

func pageSize(r *http.Request) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return defaultPage, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxPage {
		return 0, refuse(http.StatusBadRequest, "invalid_field", "limit must be from 1 to %d", maxPage)
	}
	return n, nil
}

func (s *admin) listEndpoints(w http.ResponseWriter, r *http.Request) {
	limit, err := pageSize(r)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	after, err := base64.RawURLEncoding.DecodeString(r.URL.Query().Get("cursor"))
	if err != nil {
		s.writeError(w, r, refuse(http.StatusBadRequest, "invalid_field", "cursor is not one that a list gave"))
		return
	}
	tenant := r.URL.Query().Get("tenant")
	out := struct {
		Items []*endpointForm `json:"items"`
		Next  string          `json:"next"`
	}{Items: []*endpointForm{}}
	for _, e := range s.store.all() {
		if e.ID <= string(after) || tenant != "" && e.Tenant != tenant {
			continue
		}
		if len(out.Items) == limit {
			out.Next = base64.RawURLEncoding.EncodeToString([]byte(out.Items[limit-1].ID))
			break
		}
		out.Items = append(out.Items, showEndpoint(e, false))
	}
	writeJSON(w, http.StatusOK, out)
}

func (s *admin) getEndpoint(w http.ResponseWriter, r *http.Request) {
	e, ok := s.store.get(r.PathValue("id"))
	if !ok {
		s.writeError(w, r, errNoEndpoint(r.PathValue("id")))
		return
	}
	s.answerEndpoint(w, http.StatusOK, e, false)
}

func (s *admin) createEndpoint(w http.ResponseWriter, r *http.Request) {
	body, err := readForm(w, r)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	next, err := s.decodeEndpoint(s.defaults, body)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	if err := s.judge(&next); err != nil {
		s.writeError(w, r, err)
		return
	}
	secret := next.Secret
	if secret == "" {
		secret = newSecret(next.Signature)
	}
	s.change(w, r, next.ID, "create", http.StatusCreated, true, func(current *endpoint.Endpoint) (*endpoint.Endpoint, error) {
		if current != nil {
			return nil, refuse(http.StatusConflict, "exists", "there is an endpoint %s already; change it with PUT or PATCH", next.ID)
		}
		e := next.Clone()
		e.Secret = ""
		e.Rotate(secret, 0, s.store.now().UTC())
		return &e, nil
	})
}

func newSecret(scheme string) string {
	if scheme == endpoint.SignatureV1a {
		private, _ := signature.NewPrivate()
		return private
	}
	return signature.NewSecret()
}

// putEndpoint replaces the form; what the body does not name takes its default. A body
// without secret keeps the keys.
func (s *admin) putEndpoint(w http.ResponseWriter, r *http.Request) {
	s.edit(w, r, "replace", func(*endpoint.Endpoint) endpoint.Endpoint { return s.defaults.Clone() })
}

// patchEndpoint merges the body into the form (RFC 7396).
func (s *admin) patchEndpoint(w http.ResponseWriter, r *http.Request) {
	s.edit(w, r, "update", func(current *endpoint.Endpoint) endpoint.Endpoint { return current.Clone() })
}

func (s *admin) edit(w http.ResponseWriter, r *http.Request, action string, base func(*endpoint.Endpoint) endpoint.Endpoint) {
	id := r.PathValue("id")
	body, err := readForm(w, r)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	s.change(w, r, id, action, http.StatusOK, false, func(current *endpoint.Endpoint) (*endpoint.Endpoint, error) {
		if current == nil {
			return nil, errNoEndpoint(id)
		}
		from := base(current)
		from.ID, from.Tenant, from.Secret, from.Keys, from.CreatedAt = id, current.Tenant, "", nil, current.CreatedAt
		next, err := s.decodeEndpoint(from, body)
		if err != nil {
			return nil, err
		}
		if next.ID != id || next.Tenant != current.Tenant {
			return nil, refuse(http.StatusBadRequest, "invalid_field", "id and tenant of an endpoint never change; delete it and create another")
		}
		secret := next.Secret
		if len(current.Keys) > 0 && secret == current.Keys[0].Last4() {
			secret = "" // what a list showed came back
		}
		next.Secret = secret
		if secret == "" {
			next.Keys = slices.Clone(current.Keys)
		}
		if err := s.judge(&next); err != nil {
			return nil, err
		}
		if secret != "" {
			next.Secret, next.Keys = "", slices.Clone(current.Keys)
			if len(current.Keys) == 0 || current.Keys[0].Secret != secret {
				next.Rotate(secret, 0, s.store.now().UTC())
			}
		}
		return &next, nil
	})
}

func (s *admin) deleteEndpoint(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	s.change(w, r, id, "delete", http.StatusNoContent, false, func(current *endpoint.Endpoint) (*endpoint.Endpoint, error) {
		if current == nil {
			return nil, errNoEndpoint(id)
		}
		return nil, nil
	})
}

func (s *admin) enableEndpoint(w http.ResponseWriter, r *http.Request)  { s.setEnabled(w, r, true) }
func (s *admin) disableEndpoint(w http.ResponseWriter, r *http.Request) { s.setEnabled(w, r, false) }

func (s *admin) setEnabled(w http.ResponseWriter, r *http.Request, on bool) {
	id, action := r.PathValue("id"), "disable"
	if on {
		action = "enable"
	}
	s.change(w, r, id, action, http.StatusOK, false, func(current *endpoint.Endpoint) (*endpoint.Endpoint, error) {
		if current == nil {
			return nil, errNoEndpoint(id)
		}
		next := current.Clone()
		next.Enabled = on
		return &next, nil
	})
}

// defaultGrace is how long the key before a rotation stays valid when the caller says nothing.
const defaultGrace = 24 * time.Hour

func (s *admin) rotateSecret(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	body := struct {
		Grace  *endpoint.Duration `json:"grace"`
		Secret string             `json:"secret"`
	}{}
	if r.ContentLength != 0 {
		raw, err := readBody(w, r)
		if err != nil {
			s.writeError(w, r, err)
			return
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&body); err != nil {
			s.writeError(w, r, refuse(http.StatusBadRequest, "invalid_field", `the body takes {"grace":"24h","secret":"whsec_..."}, both optional`))
			return
		}
	}
	grace := defaultGrace
	if body.Grace != nil {
		grace = time.Duration(*body.Grace)
	}
	if grace < 0 || grace > 30*24*time.Hour {
		s.writeError(w, r, refuse(http.StatusBadRequest, "invalid_field", "grace must be from 0s to 720h"))
		return
	}
	s.change(w, r, id, "rotate_secret", http.StatusOK, true, func(current *endpoint.Endpoint) (*endpoint.Endpoint, error) {
		if current == nil {
			return nil, errNoEndpoint(id)
		}
		next := current.Clone()
		next.Secret = orDefault(body.Secret, newSecret(next.Signature))
		if err := s.judge(&next); err != nil {
			return nil, err
		}
		secret := next.Secret
		next.Secret = ""
		next.Rotate(secret, grace, s.store.now().UTC())
		return &next, nil
	})
}

// change runs a change under the request's If-Match, notes it and answers.
func (s *admin) change(w http.ResponseWriter, r *http.Request, id, action string, status int, whole bool, fn change) {
	if !endpoint.ValidID(id) {
		s.writeError(w, r, errNoEndpoint(id))
		return
	}
	match := strings.Join(r.Header.Values("If-Match"), ",")
	guarded := func(current *endpoint.Endpoint) (*endpoint.Endpoint, error) {
		if match != "" && !matches(match, current) {
			return nil, refuse(http.StatusPreconditionFailed, "precondition_failed", "the endpoint has changed since it was read; read it again and repeat the change")
		}
		return fn(current)
	}
	after, err := s.store.update(r.Context(), id, guarded, func(before, after *endpoint.Endpoint) {
		if err := s.audit.note(r.Context(), auditChange(r, action, before, after)); err != nil {
			s.log.Error("change of an endpoint is not in the audit topic", "endpoint_id", id, "action", action, "error", err)
		}
	})
	switch {
	case errors.Is(err, errSpread), errors.Is(err, table.ErrUnknownOutcome):
		s.log.Warn("change of an endpoint is uncertain", "endpoint_id", id, "action", action, "error", err)
		err = refuse(http.StatusGatewayTimeout, "unknown_outcome", "the change may be stored, and may not be in use everywhere yet; read the endpoint and repeat the change if it is not there")
		fallthrough
	case err != nil:
		s.writeError(w, r, err)
		return
	}
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return
	}
	s.answerEndpoint(w, status, after, whole)
}

// matches applies If-Match: a list of strong tags, or * for "there is one".
func matches(header string, current *endpoint.Endpoint) bool {
	if current == nil {
		return false
	}
	for tag := range strings.SplitSeq(header, ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || tag == etag(current) {
			return true
		}
	}
	return false
}

// readForm reads an endpoint's body and takes out what the API shows but does not take.
func readForm(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	raw, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil || m == nil {
		return nil, refuse(http.StatusBadRequest, "invalid_json", "the body must be one JSON object")
	}
	for _, name := range readOnly() {
		delete(m, name)
	}
	out, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode form again: %w", err)
	}
	return out, nil
}

// decodeEndpoint merges a body over base and tells faults of form, not of value.
func (s *admin) decodeEndpoint(base endpoint.Endpoint, body []byte) (endpoint.Endpoint, error) {
	e, err := endpoint.Merge(base, body)
	if err != nil {
		return e, refuse(http.StatusBadRequest, "invalid_field", "%s", strings.TrimPrefix(err.Error(), "decode endpoint: "))
	}
	if tenants := s.tenants(); e.Tenant == "" && len(tenants) == 1 {
		e.Tenant = tenants[0]
	}
	return e, nil
}

// judge applies the rules of the form and of URLs, and brings the URL into its stored form.
func (s *admin) judge(e *endpoint.Endpoint) error {
	for field, v := range map[string]string{"id": e.ID, "url": e.URL, "tenant": e.Tenant} {
		if v == "" {
			return &apiError{Type: "about:blank", Title: "Bad Request", Status: http.StatusBadRequest, Code: "missing_field",
				Detail: field + " is required", Field: field}
		}
	}
	err := e.Check(s.store.policy)
	if err == nil {
		return nil
	}
	if url, ok := errors.AsType[*endpoint.RefusedURL](err); ok {
		out := refuse(http.StatusUnprocessableEntity, "refused_url", "%s", url.Error())
		out.Field = "url"
		return out
	}
	out := refuse(http.StatusBadRequest, "invalid_field", "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	for _, fault := range fieldFaults(err) {
		out.Errors = append(out.Errors, fieldFault{fault.Field, fault.Reason})
		if fault.Field == "timeout" && time.Duration(e.Timeout) > endpoint.MaxTimeout {
			out.Status, out.Title = http.StatusUnprocessableEntity, http.StatusText(http.StatusUnprocessableEntity)
		}
	}
	if len(out.Errors) > 0 {
		out.Field = out.Errors[0].Field
	}
	return out
}

// fieldFaults lists the faults that Check joined.
func fieldFaults(err error) []*endpoint.FieldError {
	var out []*endpoint.FieldError
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, inner := range joined.Unwrap() {
			out = append(out, fieldFaults(inner)...)
		}
		return out
	}
	if f, ok := errors.AsType[*endpoint.FieldError](err); ok {
		out = append(out, f)
	}
	return out
}
