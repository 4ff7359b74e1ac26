package report

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookline/hookline/ingest/event"
)

// Format is how an answer is written.
type Format string

// Formats. SQL is the query itself with its parameters: nothing is asked.
const (
	JSON  Format = "json"
	CSV   Format = "csv"
	Table Format = "table"
	SQL   Format = "sql"
)

func formats() []Format { return []Format{Table, JSON, CSV, SQL} }

// MaxRows is the most rows that an answer has.
const MaxRows = 100_000

// Bounds of what may be asked about.
const (
	maxBack  = 400 * 24 * time.Hour // the longest that any table is kept
	skew     = time.Hour            // how far a clock of ours may be ahead
	maxValue = 256                  // bytes of a filter; ids are shorter
)

// Query is one question. The zero value of a filter asks for all.
type Query struct {
	Report    string
	Tenant    string
	Endpoint  string
	Type      string
	EventID   string
	MessageID string
	Since     time.Time
	Until     time.Time // rows before it
	Step      time.Duration
	Limit     int
	Format    Format
	now       time.Time
}

// Parse reads the parameters of a question about a report. The error is ErrUnknown or a
// *FieldError. A parameter that the report does not have is refused: ignoring it would
// answer another question.
func Parse(name string, values url.Values, now time.Time) (*Query, error) {
	d, ok := find(name)
	if !ok {
		return nil, ErrUnknown
	}
	q := &Query{Report: name, Limit: MaxRows, Format: JSON, now: now.UTC().Truncate(time.Millisecond)}
	q.Since, q.Until = now.Add(-d.back), now.Add(skew)
	for key, all := range values {
		if len(all) != 1 {
			return nil, fieldf(key, "%s is given %d times", key, len(all))
		}
		if all[0] == "" {
			continue
		}
		if err := q.set(d, key, all[0], now); err != nil {
			return nil, err
		}
	}
	if err := q.check(d); err != nil {
		return nil, err
	}
	q.Since, q.Until = q.Since.UTC().Truncate(time.Millisecond), q.Until.UTC().Truncate(time.Millisecond)
	return q, nil
}

func (q *Query) set(d *definition, key, value string, now time.Time) error {
	if !slices.Contains(d.takes, key) {
		return fieldf(key, "%s is no parameter of the report %s; it takes %s", shown(key), d.name, strings.Join(d.takes, ", "))
	}
	if len(value) > maxValue {
		return fieldf(key, "%s is longer than %d bytes", key, maxValue)
	}
	var err error
	switch key {
	case "tenant":
		q.Tenant, err = value, valid(event.ValidTenant(value), "a tenant")
	case "endpoint":
		q.Endpoint, err = value, valid(event.ValidID(value) && len(value) <= 64, "the id of an endpoint")
	case "type":
		q.Type, err = value, valid(event.ValidType(value), "an event type")
	case "event_id":
		q.EventID, err = value, valid(event.ValidID(value), "the id of an event")
	case "message_id":
		q.MessageID, err = value, valid(event.ValidMessageID(value), "a message id")
	case "since":
		q.Since, err = Instant(value, now)
	case "until":
		q.Until, err = Instant(value, now)
	case "step":
		if q.Step, err = duration(value); err == nil && (q.Step < time.Minute || q.Step%time.Minute != 0 || q.Step > 31*24*time.Hour) {
			err = errors.New("it must be whole minutes, such as 5m, at most 31d")
		}
	case "limit":
		if q.Limit, err = strconv.Atoi(value); err != nil || q.Limit < 1 || q.Limit > MaxRows {
			err = fmt.Errorf("it must be 1 to %d", MaxRows)
		}
	case "format":
		q.Format, err = Format(value), valid(slices.Contains(formats(), Format(value)), "one of table, json, csv, sql")
	}
	if err != nil {
		return fieldf(key, "%s: %s", key, err.Error())
	}
	return nil
}

func (q *Query) check(d *definition) error {
	switch {
	case d.needsID && q.EventID == "" && q.MessageID == "":
		return &FieldError{Field: "event_id", Detail: "the report " + d.name + " needs event_id or message_id", Missing: true}
	case !q.Since.Before(q.Until):
		return fieldf("since", "since must be before until")
	case q.Until.Sub(q.Since) > maxBack+skew:
		return fieldf("since", "since and until are more than %d days apart; nothing is kept that long", maxBack/(24*time.Hour))
	case q.Since.Year() < 1971 || q.Until.Year() > 2200:
		return fieldf("since", "since and until must be times of this age")
	}
	return nil
}

func valid(ok bool, want string) error {
	if ok {
		return nil
	}
	return fmt.Errorf("it is not %s", want)
}

// shown bounds what of a name that a user gave is quoted back.
func shown(key string) string { return fmt.Sprintf("%.40q", key) }

// Instant reads RFC 3339, or a duration back from now such as 15m, 24h or 7d.
func Instant(s string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	d, err := duration(s)
	if err != nil {
		return time.Time{}, errors.New("it must be RFC 3339 or a duration back, such as 15m, 24h or 7d")
	}
	return now.Add(-d), nil
}

// duration is Go's form with days beside it; not negative.
func duration(s string) (time.Duration, error) {
	var days time.Duration
	if n, rest, ok := strings.Cut(s, "d"); ok {
		v, err := strconv.ParseUint(n, 10, 16)
		if err != nil {
			return 0, errors.New("it must be a duration such as 15m, 24h or 7d")
		}
		if days = time.Duration(v) * 24 * time.Hour; rest == "" {
			return days, nil
		}
		s = rest
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > 10*maxBack {
		return 0, errors.New("it must be a duration such as 15m, 24h or 7d")
	}
	return days + d, nil
}
