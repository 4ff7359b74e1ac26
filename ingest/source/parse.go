package source

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hookline/hookline/ingest/event"
)

// Parse reads the section "sources" of the settings, as YAML gives it. The error joins a
// *SettingError for each fault.
func Parse(v any) ([]Spec, error) {
	var errs []error
	m, ok := v.(map[string]any)
	if !ok && v != nil {
		return nil, errors.New("must be a section of name: source")
	}
	var out []Spec
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !event.ValidTenant(name) { // the same letters, and they stand in a path
			errs = append(errs, &SettingError{name, "must be 1 to 64 of [A-Za-z0-9_-]: it is part of the URL"})
		}
		out = append(out, parseSource(name, newSection(name, m[name], &errs)))
	}
	return out, errors.Join(errs...)
}

func parseSource(name string, s *section) Spec {
	out := Spec{Name: name, Tenant: s.text("tenant", "")}
	if !event.ValidTenant(out.Tenant) {
		s.bad("tenant", "must be 1 to 64 of [A-Za-z0-9_-]")
	}
	out.Scheme = s.choice("scheme", "", slices.Sorted(maps.Keys(presets))...)
	if out.Secrets = s.list("secrets"); len(out.Secrets) == 0 {
		s.bad("secrets", "is missing: nothing could be verified")
	}
	out.Tolerance = s.duration("tolerance", DefaultTolerance, minTolerance, maxTolerance)
	out.AllowCIDRs, out.TrustedProxies = s.prefixes("allow_cidrs"), s.prefixes("trusted_proxies")
	out.VerifyToken = s.text("verify_token", "")
	out.Success = parseSuccess(s)
	out.Rate, out.Burst = s.number("rate", 0, maxRate), s.integer("burst", 0, 1, maxBurst)
	out.Require = parseRequire(s)
	if out.Scheme == SchemeHMAC {
		v, ok := s.get("hmac")
		if !ok {
			s.bad("hmac", "is missing; the scheme needs it")
		}
		out.HMAC = parseHMAC(newSection(s.path+".hmac", v, s.errs))
	} else if _, ok := s.get("hmac"); ok && out.Scheme != "" {
		s.bad("hmac", "belongs to the scheme hmac only")
	}
	parseMapping(s, &out)
	s.end()
	if n := len(out.EventType) + len(out.MessageID) + len(out.EventID) + len(out.DeriveID) + len(out.Require); n > event.MaxPaths {
		s.bad("", "looks for %d values, at most %d", n, event.MaxPaths)
	}
	return out
}

func parseMapping(s *section, out *Spec) {
	known := presets[out.Scheme]
	out.EventType = s.selectors("event_type", known.eventType)
	out.MessageID = s.selectors("message_id", known.messageID)
	_, id := s.get("event_id")
	_, derive := s.get("derive_id")
	if derive {
		known.eventID = nil
	}
	out.EventID, out.DeriveID = s.selectors("event_id", known.eventID), s.selectors("derive_id", nil)
	if out.Scheme == "" {
		return
	}
	need := func(name string, list []Selector) {
		v, given := s.get(name)
		if items, ok := v.([]any); ok && len(items) == 0 {
			s.bad(name, "is empty")
		} else if len(list) == 0 && !given {
			s.bad(name, "is missing; the scheme %s has no default for it", out.Scheme)
		}
	}
	need("event_type", out.EventType)
	need("message_id", out.MessageID)
	switch {
	case id && derive:
		s.bad("derive_id", "and event_id exclude each other")
	case derive:
		need("derive_id", out.DeriveID)
	case !id && len(out.EventID) == 0:
		s.bad("event_id", "or derive_id is missing: without one, nobody could tell a repeated event from a new one")
	case id:
		need("event_id", out.EventID)
	}
	fixed(s, out)
}

// fixed judges the constants of the mapping, which no request will change.
func fixed(s *section, out *Spec) {
	for _, sel := range out.EventType {
		if sel.kind == selectConst && !event.ValidType(sel.name) {
			s.bad("event_type", "const: must be followed by dot-separated words of [A-Za-z0-9_-]")
		}
	}
	for _, sel := range out.MessageID {
		if sel.kind == selectConst && !event.ValidMessageID(sel.name) {
			s.bad("message_id", "const: must be followed by 1 to 128 characters of visible ASCII")
		}
	}
	for name, list := range map[string][]Selector{"event_id": out.EventID, "derive_id": out.DeriveID} {
		if len(list) > 0 && !slices.ContainsFunc(list, func(sel Selector) bool { return sel.kind != selectConst }) {
			s.bad(name, "is the same for all events: only the first would be delivered")
		}
	}
	if len(out.EventType) > 0 && !slices.ContainsFunc(out.EventType, func(sel Selector) bool { return !sel.Optional }) {
		s.bad("event_type", "has nothing that must be there")
	}
}

func parseSuccess(s *section) Success {
	v, _ := s.get("success")
	in := newSection(s.path+".success", v, s.errs)
	out := Success{Status: in.integer("status", 200, 200, 299), Body: in.text("body", "")}
	kind := "text/plain; charset=utf-8"
	if strings.HasPrefix(strings.TrimSpace(out.Body), "{") {
		kind = "application/json"
	}
	out.ContentType = in.text("content_type", kind)
	in.end()
	if len(out.Body) > maxSuccessBody {
		in.bad("body", "is over %d bytes", maxSuccessBody)
	}
	if (out.Status == 204 || out.Status == 205) && out.Body != "" {
		in.bad("body", "must be empty with status %d", out.Status)
	}
	for _, c := range []byte(out.ContentType) {
		if c < ' ' || c > '~' {
			in.bad("content_type", "must be printable ASCII")
			break
		}
	}
	return out
}

var requireTypes = []string{"", "string", "number", "integer", "boolean", "object", "array", "null"}

func parseRequire(s *section) []Requirement {
	v, ok := s.get("require")
	if !ok {
		return nil
	}
	items, ok := v.([]any)
	if !ok || len(items) > maxRequire {
		s.bad("require", "must be a list of at most %d {path, type, max_len}", maxRequire)
		return nil
	}
	var out []Requirement
	for i, item := range items {
		in := newSection(fmt.Sprintf("%s.require[%d]", s.path, i), item, s.errs)
		r := Requirement{Path: strings.TrimPrefix(in.text("path", ""), "json:"), Type: in.choice("type", "", requireTypes...), MaxLen: in.integer("max_len", 0, 1, 1<<20)}
		if _, err := event.ParsePath(r.Path); err != nil {
			in.bad("path", "%s", err)
		}
		if r.MaxLen > 0 && r.Type == "" {
			r.Type = "string"
		}
		if r.MaxLen > 0 && r.Type != "string" {
			in.bad("max_len", "is for the type string only")
		}
		in.end()
		out = append(out, r)
	}
	return out
}

func parseHMAC(s *section) HMAC {
	out := HMAC{
		Header: s.text("header", ""), Prefix: s.text("prefix", ""),
		Encoding:       s.choice("encoding", "hex", "hex", "base64", "base64url"),
		Algorithm:      s.choice("algorithm", "sha256", "sha1", "sha256", "sha512"),
		SecretEncoding: s.choice("secret_encoding", "text", "text", "hex", "base64"),
	}
	if !validToken(out.Header) {
		s.bad("header", "must be the name of the header that holds the signature")
	}
	for _, c := range []byte(out.Prefix) {
		if c < ' ' || c > '~' {
			s.bad("prefix", "must be printable ASCII")
			break
		}
	}
	signed, err := parseTemplate(s.text("signed", "{body}"))
	if err != nil {
		s.bad("signed", "%s", err)
	}
	out.Signed = signed
	if text := s.text("timestamp", ""); text != "" {
		out.Timestamp = parseTimestamp(s, text)
	}
	s.end()
	if err != nil {
		return out
	}
	switch inSigned := signed.has(partTimestamp); {
	case inSigned && out.Timestamp == nil:
		s.bad("timestamp", "is missing, and signed holds {timestamp}")
	case inSigned && out.Timestamp.kind == selectJSON:
		s.bad("timestamp", "of the body cannot stand in signed: the body is not read before it is verified; it is signed with the body anyway")
	case !inSigned && out.Timestamp != nil && out.Timestamp.kind != selectJSON && !signed.signsHeader(out.Timestamp):
		s.bad("timestamp", "is not in signed: anyone could change it")
	}
	return out
}

// signsHeader says whether the template signs the header that sel names.
func (t template) signsHeader(sel *Selector) bool {
	return sel.kind == selectHeader && slices.ContainsFunc(t, func(p templatePart) bool {
		return p.kind == partHeader && strings.EqualFold(p.text, sel.name)
	})
}

func parseTimestamp(s *section, text string) *Selector {
	if name, ok := strings.CutPrefix(text, "param:"); ok && validToken(name) {
		return &Selector{kind: selectParam, name: name}
	}
	sel, err := ParseSelector(text)
	if err != nil || sel.Optional || sel.kind != selectHeader && sel.kind != selectJSON {
		s.bad("timestamp", "must be header:NAME, param:NAME (an item NAME= of the signature header) or json:a.b.c")
		return &Selector{kind: selectHeader, name: "x"}
	}
	return &sel
}

// Warnings are what is allowed and likely not meant.
func (s *Spec) Warnings() []SettingError {
	var out []SettingError
	if len(s.DeriveID) > 0 && !slices.ContainsFunc(s.DeriveID, Selector.timely) {
		out = append(out, SettingError{s.Name + ".derive_id", "names no time: a second event with equal values is taken for the first one sent again, and dropped"})
	}
	if s.Scheme == SchemeHMAC && s.HMAC.Timestamp == nil {
		out = append(out, SettingError{s.Name + ".hmac.timestamp", "is not set: a captured request can be sent again when it is no longer remembered; set it if the provider signs a time"})
	}
	if s.Scheme == SchemeHMAC && s.HMAC.Algorithm == "sha1" {
		out = append(out, SettingError{s.Name + ".hmac.algorithm", "is sha1; use a stronger one if the provider has it"})
	}
	if len(s.TrustedProxies) > 0 && len(s.AllowCIDRs) == 0 {
		out = append(out, SettingError{s.Name + ".trusted_proxies", "has no effect without allow_cidrs"})
	}
	return out
}
