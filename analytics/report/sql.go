package report

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// statement is SQL with the values of its parameters. The text is made of constants only.
type statement struct {
	text string
	args map[string]any // by name; string, []string, int64, uint64 or time.Time
}

// bound returns the arguments for the driver. They travel as query parameters beside the
// text, on both protocols.
func (s *statement) bound() []any {
	out := make([]any, 0, len(s.args))
	for name, v := range s.args {
		if t, ok := v.(time.Time); ok {
			out = append(out, clickhouse.DateNamed(name, t, clickhouse.MilliSeconds))
			continue
		}
		out = append(out, clickhouse.Named(name, v))
	}
	return out
}

// String is the query in a form that clickhouse-client takes as it is.
func (s *statement) String() string {
	var b strings.Builder
	names := make([]string, 0, len(s.args))
	for name := range s.args {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(&b, "SET param_%s = %s;\n", name, literal(s.args[name]))
	}
	b.WriteString(strings.TrimSpace(s.text))
	b.WriteString(";\n")
	return b.String()
}

// literal is a value of SET param_...: text that the server reads as the parameter's type.
func literal(v any) string {
	var text string
	switch v := v.(type) {
	case time.Time:
		text = v.UTC().Format("2006-01-02 15:04:05.000")
	default:
		text = fmt.Sprint(v)
	}
	// Escaped twice: once as a string of SQL, once as the text of a parameter.
	text = strings.NewReplacer(`\`, `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`).Replace(text)
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}

// conditions collects the WHERE of a query from constants, and its parameters.
type conditions struct {
	terms []string
	args  map[string]any
}

func newConditions() *conditions { return &conditions{args: map[string]any{}} }

func (c *conditions) add(term string) { c.terms = append(c.terms, term) }

func (c *conditions) set(name string, value any) { c.args[name] = value }

func (c *conditions) String() string { return strings.Join(c.terms, "\n  AND ") }

// filters adds what the question filters by; tables name the columns alike.
func (c *conditions) filters(q *Query) {
	for _, f := range []struct{ column, value string }{
		{"tenant_id", q.Tenant}, {"endpoint_id", q.Endpoint}, {"event_type", q.Type}, {"event_id", q.EventID}, {"message_id", q.MessageID},
	} {
		if f.value != "" {
			c.add(f.column + " = {" + f.column + ":String}")
			c.set(f.column, f.value)
		}
	}
}

// raw bounds a raw table by a DateTime64 column.
func (c *conditions) raw(column string, q *Query) {
	c.add(column + " >= {since:DateTime64(3,'UTC')}")
	c.add(column + " < {until:DateTime64(3,'UTC')}")
	c.set("since", q.Since)
	c.set("until", q.Until)
}

// rollup bounds a rollup by its DateTime column; start is the function that finds the cell
// that since falls into.
func (c *conditions) rollup(column, start string, q *Query) {
	c.add(column + " >= " + start + "({since:DateTime64(3,'UTC')})")
	c.add(column + " < {until:DateTime64(3,'UTC')}")
	c.set("since", q.Since)
	c.set("until", q.Until)
}

// statement closes a query with its row limit: one more than asked for tells of more.
func (c *conditions) statement(q *Query, text string) *statement {
	c.set("row_limit", uint64(q.Limit)+1)
	return &statement{text: text + "\nLIMIT {row_limit:UInt64}", args: c.args}
}
