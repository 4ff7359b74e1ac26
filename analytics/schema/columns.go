package schema

import "strings"

// Column is a column as the statements declare it.
type Column struct{ Name, Type string }

// Table is what the statements declare.
type Table struct {
	Name    string
	View    bool // a materialized view: it has no columns of its own
	Columns []Column
}

// Tables returns the tables and views in the order of their declaration.
func Tables() ([]Table, error) {
	all, err := steps(form{database: "hookline"})
	if err != nil {
		return nil, err
	}
	var out []Table
	for _, step := range all {
		for _, s := range step.Statements {
			if t, ok := declared(s); ok {
				out = append(out, t)
			}
		}
	}
	return out, nil
}

// declared reads CREATE TABLE and CREATE MATERIALIZED VIEW.
func declared(sql string) (Table, bool) {
	const table, view = "CREATE TABLE IF NOT EXISTS hookline.", "CREATE MATERIALIZED VIEW IF NOT EXISTS hookline."
	if rest, ok := strings.CutPrefix(sql, view); ok {
		return Table{Name: firstWord(rest), View: true}, true
	}
	rest, ok := strings.CutPrefix(sql, table)
	if !ok {
		return Table{}, false
	}
	t := Table{Name: firstWord(rest)}
	for _, field := range fields(rest[len(t.Name):]) {
		name := firstWord(field)
		if name == "INDEX" || name == "" {
			continue
		}
		t.Columns = append(t.Columns, Column{Name: name, Type: typeOf(field[len(name):])})
	}
	return t, true
}

func firstWord(s string) string {
	n := 0
	for n < len(s) && isWord(s[n]) {
		n++
	}
	return s[:n]
}

// fields splits the first parenthesis of s at its own commas.
func fields(s string) []string {
	var out []string
	depth, from := 0, 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\'':
			i += stringEnd(s[i:]) - 1
		case '(':
			if depth++; depth == 1 {
				from = i + 1
			}
		case ')':
			if depth--; depth == 0 {
				return append(out, strings.TrimSpace(s[from:i]))
			}
		case ',':
			if depth == 1 {
				out = append(out, strings.TrimSpace(s[from:i]))
				from = i + 1
			}
		}
	}
	return out
}

// typeOf is a declaration without its codec.
func typeOf(s string) string {
	if i := strings.Index(s, "CODEC("); i >= 0 {
		s = s[:i]
	}
	return strings.TrimSpace(s)
}

// sameType compares two spellings of a type.
func sameType(a, b string) bool {
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
	return squeeze(a) == squeeze(b)
}
