package schema

import (
	"os"
	"strings"
	"testing"
)

// The first migration is the schema as people know it.
func TestFirstMigration(t *testing.T) {
	t.Parallel()
	all, err := steps(form{database: "hookline"})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(all[0].Statements); n != 12 || all[0].Name != "tables" { // database, 7 tables, 4 views
		t.Fatalf("%d statements of %s", n, all[0].Name)
	}
	raw, err := os.ReadFile("migrations/0001_tables.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all[0].Statements {
		last := s[strings.LastIndex(s, "\n")+1:]
		if !strings.Contains(string(raw), last) || strings.Contains(s, "--") {
			t.Errorf("statement %q", s)
		}
	}
	tables, err := Tables()
	if err != nil {
		t.Fatal(err)
	}
	columns := map[string]int{}
	for _, table := range tables {
		columns[table.Name] = len(table.Columns)
	}
	for name, want := range map[string]int{"events": 12, "attempts": 35, "attempts_1m": 17, "attempts_1h": 17, "failures_1h": 9, "funnel_1h": 6, "dead_letters": 16, "attempts_1m_mv": 0} {
		if n, ok := columns[name]; !ok || n != want {
			t.Errorf("%s has %d columns, want %d", name, n, want)
		}
	}
}

func TestReplicatedForm(t *testing.T) {
	t.Parallel()
	all, err := steps(form{database: "d2", replicated: true})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(all[0].Statements, ";\n")
	for want, n := range map[string]int{
		"ENGINE = Replicated": 7, "ENGINE = ReplicatedReplacingMergeTree(version)": 1, "non_replicated": 0,
		"replicated_deduplication_window_seconds = 604800, replicated_deduplication_window = 10000": 7, "hookline": 0, "CREATE DATABASE IF NOT EXISTS d2": 1,
	} {
		if got := strings.Count(text, want); got != n {
			t.Errorf("%q %d times, want %d", want, got, n)
		}
	}
}

// FuzzStatements: never panics, keeps strings, leaves no database name of the files outside them.
func FuzzStatements(f *testing.F) {
	f.Add("CREATE TABLE hookline.t (a String DEFAULT 'it\\'s; hookline') -- c; d\n;SELECT 1")
	f.Add("'")
	f.Add("--")
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range (form{database: "other"}).statements(text) {
			if strings.TrimSpace(s) == "" {
				t.Fatal("an empty statement")
			}
			if strings.Contains(s, "hookline") && !strings.Contains(s, "'") && !strings.ContainsAny(s, "hookline0123456789_") {
				t.Fatalf("%q", s)
			}
		}
	})
}
