package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// ContentType of an answer in a format.
func (f Format) ContentType() string {
	switch f {
	case CSV:
		return "text/csv; charset=utf-8"
	case Table, SQL:
		return "text/plain; charset=utf-8"
	case JSON:
	}
	return "application/json"
}

// Write writes the answer in a format. SQL is not one of an answer: see Query.SQL.
func (r *Result) Write(w io.Writer, f Format) error {
	switch f {
	case CSV:
		return r.csv(w)
	case Table:
		return r.table(w)
	case JSON, SQL:
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("write report %s: %w", r.Report, err)
	}
	return nil
}

// csv holds the rows and nothing else; a null is an empty field.
func (r *Result) csv(w io.Writer) error {
	out := csv.NewWriter(w)
	line := make([]string, len(r.Columns))
	_ = out.Write(r.Columns) // a failure stays and is what Error returns
	for _, row := range r.Rows {
		for i, v := range row {
			line[i] = text(v, -1)
		}
		_ = out.Write(line)
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write report %s: %w", r.Report, err)
	}
	return nil
}

// table is for people: headings, aligned columns, and a last line that says of when it is.
func (r *Result) table(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, strings.ToUpper(strings.Join(r.Columns, "\t")))
	for _, line := range r.Texts() {
		fmt.Fprintln(out, strings.Join(line, "\t"))
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write report %s: %w", r.Report, err)
	}
	_, err := fmt.Fprintln(w, r.Note())
	if err != nil {
		return fmt.Errorf("write report %s: %w", r.Report, err)
	}
	return nil
}

// Texts are the rows as people read them; what is empty is a dash.
func (r *Result) Texts() [][]string {
	out := make([][]string, len(r.Rows))
	for i, row := range r.Rows {
		out[i] = make([]string, len(row))
		for j, v := range row {
			if out[i][j] = text(v, 3); out[i][j] == "" {
				out[i][j] = "-"
			}
		}
	}
	return out
}

// Note says of when the rows are and whether there are more.
func (r *Result) Note() string {
	lag := "lag unknown"
	if s := lagSeconds(r.Lag); s != nil {
		lag = "ClickHouse is " + strconv.FormatFloat(*s, 'f', -1, 64) + " s behind"
	}
	note := fmt.Sprintf("%d rows as of %s, %s", len(r.Rows), stamp(r.AsOf), lag)
	if r.Truncated {
		note += "; there are more: narrow the time, add a filter, or raise limit"
	}
	return note
}

// text is a value for a reader; digits bounds those behind the point, -1 keeps all.
func text(v any, digits int) string {
	switch v := v.(type) {
	case nil:
		return ""
	case time.Time:
		return stamp(v)
	case float64:
		if digits < 0 {
			return strconv.FormatFloat(v, 'g', -1, 64)
		}
		return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(v, 'f', digits, 64), "0"), ".")
	}
	return fmt.Sprint(v)
}
