package source

import (
	"errors"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/hookline/hookline/ingest/event"
)

// makeSource returns the source of settings in YAML, with the secrets as they stand there.
func makeSource(t testing.TB, settings string) *Source {
	t.Helper()
	spec := parseOne(t, settings)
	var token Secrets
	if spec.VerifyToken != "" {
		token = Fixed(spec.VerifyToken)
	}
	s, err := New(spec, Fixed(spec.Secrets...), token)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func parseOne(t testing.TB, settings string) Spec {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte("x:\n  tenant: dev\n  "+strings.ReplaceAll(strings.TrimSpace(settings), "\n", "\n  ")), &v); err != nil {
		t.Fatal(err)
	}
	specs, err := Parse(v)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range specs[0].Secrets {
		if err := specs[0].CheckSecret(s); err != nil {
			t.Fatal(err)
		}
	}
	return specs[0]
}

// post is a request with headers in pairs.
func post(body string, headers ...string) *Request {
	h := map[string][]string{}
	for i := 0; i < len(headers); i += 2 {
		name := textproto.CanonicalMIMEHeaderKey(headers[i])
		h[name] = append(h[name], headers[i+1])
	}
	return &Request{Method: "POST", Body: []byte(body), Header: func(name string) (string, int) {
		v := h[textproto.CanonicalMIMEHeaderKey(name)]
		if len(v) == 0 {
			return "", 0
		}
		return v[0], len(v)
	}}
}

// codeOf is the code of a refusal or of a wrong field, "" for none.
func codeOf(t testing.TB, err error) string {
	t.Helper()
	var refusal *Refusal
	var field *event.FieldError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refusal):
		return refusal.Code
	case errors.As(err, &field):
		return field.Code
	}
	t.Fatalf("error is a %T", err)
	return ""
}

func verify(t testing.TB, s *Source, r *Request, now time.Time) string {
	t.Helper()
	_, err := s.Verify(r, now)
	return codeOf(t, err)
}

// mapped is the event of a request as "type message-id", or the code of its refusal.
func mapped(t testing.TB, s *Source, r *Request) (string, event.Event) {
	t.Helper()
	var e event.Event
	if err := s.Map(r, &e); err != nil {
		return codeOf(t, err), e
	}
	if !event.ValidID(e.ID) || event.IsRandomID(e.ID) || e.Tenant != "dev" || e.Origin != "x" || e.Source != "/hookline/dev/sources/x" {
		t.Errorf("event %+v", e)
	}
	return e.Type + " " + e.MessageID, e
}
