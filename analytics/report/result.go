package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Result is the answer to a question about a report.
type Result struct {
	Report    string
	AsOf      time.Time
	Lag       time.Duration // negative: could not be measured
	Truncated bool
	Columns   []string
	Rows      [][]any
}

// timeForm is RFC 3339 in UTC with milliseconds, the precision of the tables.
const timeForm = "2006-01-02T15:04:05.000Z"

func stamp(t time.Time) string { return t.UTC().Format(timeForm) }

// lagSeconds is lag_seconds of an answer: null when the brokers could not be asked.
func lagSeconds(lag time.Duration) *float64 {
	if lag < 0 {
		return nil
	}
	s := math.Round(lag.Seconds()*1000) / 1000
	return &s
}

// finite keeps what JSON can hold; the rest is a ratio or a quantile of nothing.
func finite(f float64) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return f
}

// MarshalJSON writes the rows as objects whose members are in the order of the columns.
func (r *Result) MarshalJSON() ([]byte, error) {
	head, err := json.Marshal(struct {
		Report    string   `json:"report"`
		AsOf      string   `json:"as_of"`
		Lag       *float64 `json:"lag_seconds"`
		Truncated bool     `json:"truncated"`
		Columns   []string `json:"columns"`
	}{r.Report, stamp(r.AsOf), lagSeconds(r.Lag), r.Truncated, r.Columns})
	if err != nil {
		return nil, fmt.Errorf("encode report %s: %w", r.Report, err)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	b.Write(head[:len(head)-1])
	b.WriteString(`,"rows":[`)
	for i, row := range r.Rows {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('{')
		for j, v := range row {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%q:", r.Columns[j])
			if t, ok := v.(time.Time); ok {
				v = stamp(t)
			}
			if err := enc.Encode(v); err != nil {
				return nil, fmt.Errorf("encode column %s of report %s: %w", r.Columns[j], r.Report, err)
			}
			b.Truncate(b.Len() - 1) // Encode ends with a line
		}
		b.WriteByte('}')
	}
	b.WriteString("]}")
	return b.Bytes(), nil
}
