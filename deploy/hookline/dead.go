package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hookline/hookline/retrytiers/tier"
)

// deadFilter selects dead letters; a zero field selects all.
type deadFilter struct {
	Endpoint  string
	Tenant    string
	Type      string
	Reason    tier.Reason
	Status    int
	EventID   string
	MessageID string
	Since     time.Time
	Until     time.Time
}

func (f *deadFilter) matches(d *tier.DeadLetter) bool {
	switch {
	case f.Endpoint != "" && d.EndpointID != f.Endpoint,
		f.Tenant != "" && d.Tenant != f.Tenant,
		f.Type != "" && d.EventType != f.Type,
		f.Reason != "" && d.Reason != f.Reason,
		f.Status != 0 && d.LastStatus != f.Status,
		f.EventID != "" && d.EventID != f.EventID,
		f.MessageID != "" && d.MessageID != f.MessageID,
		!f.Since.IsZero() && d.DeadAt.Before(f.Since),
		!f.Until.IsZero() && !d.DeadAt.Before(f.Until):
		return false
	}
	return true
}

// parseDeadFilter reads a query; a name that is no filter is refused, since ignoring it
// would list too much.
func parseDeadFilter(q url.Values, now time.Time) (deadFilter, error) {
	var f deadFilter
	var errs []error
	for name, values := range q {
		v := values[len(values)-1]
		var err error
		switch name {
		case "endpoint":
			f.Endpoint = v
		case "tenant":
			f.Tenant = v
		case "type":
			f.Type = v
		case "reason":
			f.Reason = tier.Reason(v)
			if v != "" && !knownReason(f.Reason) {
				err = fmt.Errorf("reason must be one of %s", strings.Join(reasonNames(), ", "))
			}
		case "status":
			if f.Status, err = strconv.Atoi(v); err != nil || f.Status < 0 || f.Status > 999 {
				err = errors.New("status must be an HTTP status")
			}
		case "event_id":
			f.EventID = v
		case "message_id":
			f.MessageID = v
		case "since":
			f.Since, err = parseInstant(v, now)
		case "until":
			f.Until, err = parseInstant(v, now)
		case "limit", "cursor":
		default:
			err = fmt.Errorf("%.40q is not a filter", name)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return f, refuse(http.StatusBadRequest, "invalid_field", "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return f, nil
}

// parseInstant takes RFC 3339 or a duration back from now.
func parseInstant(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	if d, err := asDuration(s); err == nil {
		return now.Add(-d), nil
	}
	return time.Time{}, errors.New("since and until must be RFC 3339 or a duration back, such as 15m")
}

func reasonNames() []string {
	return []string{
		string(tier.Exhausted), string(tier.Expired), string(tier.Permanent), string(tier.Unclear), string(tier.EndpointGone),
		string(tier.EndpointDeleted), string(tier.CircuitOpen), string(tier.IDConflict), string(tier.Poison), string(tier.TooLarge),
		string(tier.Operator),
	}
}

func knownReason(r tier.Reason) bool {
	for _, name := range reasonNames() {
		if name == string(r) {
			return true
		}
	}
	return false
}

func (s *admin) listDead(w http.ResponseWriter, r *http.Request) {
	limit, err := pageSize(r)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	filter, err := parseDeadFilter(r.URL.Query(), time.Now())
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	cursor, err := parseDeadCursor(r.URL.Query().Get("cursor"))
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	page, err := s.dead.list(r.Context(), &filter, cursor, limit)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, page)
}

// deadShow is one letter in full.
type deadShow struct {
	tier.DeadLetter
	Headers    map[string]string `json:"headers"`
	Body       *string           `json:"body,omitempty"`
	BodyBase64 string            `json:"body_base64,omitempty"`
}

func (s *admin) showDead(w http.ResponseWriter, r *http.Request) {
	partition, perr := strconv.ParseInt(r.PathValue("partition"), 10, 32)
	offset, oerr := strconv.ParseInt(r.PathValue("offset"), 10, 64)
	if perr != nil || oerr != nil || partition < 0 || offset < 0 {
		s.writeError(w, r, refuse(http.StatusNotFound, "not_found", "a dead letter is PARTITION/OFFSET"))
		return
	}
	d, err := s.dead.get(r.Context(), int32(partition), offset)
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, showLetter(d))
}

func showLetter(d *tier.DeadLetter) *deadShow {
	out := &deadShow{DeadLetter: *d, Headers: map[string]string{}}
	for _, h := range d.Headers {
		out.Headers[h.Key] = strings.ToValidUTF8(string(h.Value), "\ufffd")
	}
	if utf8.Valid(d.Value) {
		text := string(d.Value)
		out.Body = &text
	} else {
		out.BodyBase64 = base64.StdEncoding.EncodeToString(d.Value)
	}
	return out
}

// deadCursor says, by partition, below which offset a list goes on. A partition that it
// does not name has not been looked at.
type deadCursor map[int32]int64

func parseDeadCursor(text string) (deadCursor, error) {
	if text == "" {
		return nil, nil
	}
	var c deadCursor
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil || c == nil {
		return nil, refuse(http.StatusBadRequest, "invalid_field", "cursor is not one that a list gave")
	}
	return c, nil
}

func (c deadCursor) String() string {
	raw, err := json.Marshal(map[int32]int64(c))
	if err != nil {
		panic("BUG: encode cursor: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}
