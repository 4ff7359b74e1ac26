package schema

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
)

//go:embed migrations/*.sql
var files embed.FS

// Step is one version of the schema.
type Step struct {
	Version    int
	Name       string
	Statements []string
}

// form says how the statements of the files are to be written for a server.
type form struct {
	database   string
	replicated bool
}

var (
	fileName     = regexp.MustCompile(`^(\d{4})_([a-z0-9_]+)\.sql$`)
	databaseName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
)

// steps reads all files, oldest first.
func steps(f form) ([]Step, error) {
	if !databaseName.MatchString(f.database) {
		return nil, fmt.Errorf("%q cannot be the name of the database: want letters, digits and _", f.database)
	}
	names, err := fs.Glob(files, "migrations/*.sql") // sorted
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	var out []Step
	for i, path := range names {
		m := fileName.FindStringSubmatch(strings.TrimPrefix(path, "migrations/"))
		if m == nil {
			return nil, fmt.Errorf("BUG: migration %s is not called NNNN_name.sql", path)
		}
		version, err := strconv.Atoi(m[1])
		if err != nil || version != i+1 {
			return nil, fmt.Errorf("BUG: migration %s is number %d", path, i+1)
		}
		text, err := files.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", path, err)
		}
		out = append(out, Step{Version: version, Name: m[2], Statements: f.statements(string(text))})
	}
	return out, nil
}

const window = "non_replicated_deduplication_window"

// word writes one word of the language.
func (f form) word(w string) string {
	switch {
	case w == "hookline":
		return f.database
	case !f.replicated:
		return w
	case strings.HasSuffix(w, "MergeTree"):
		return "Replicated" + w
	case w == window:
		return "replicated_deduplication_window_seconds = 604800, replicated_deduplication_window"
	}
	return w
}

// statements splits a file at its semicolons. Comments fall out, strings stay as they are.
func (f form) statements(text string) []string {
	var out []string
	var b strings.Builder
	end := func() {
		if s := strings.TrimSpace(b.String()); s != "" {
			out = append(out, s)
		}
		b.Reset()
	}
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '-' && strings.HasPrefix(text[i:], "--"):
			i += lineEnd(text[i:])
		case c == '\'':
			n := stringEnd(text[i:])
			b.WriteString(text[i : i+n])
			i += n
		case isWord(c):
			n := 1
			for i+n < len(text) && isWord(text[i+n]) {
				n++
			}
			b.WriteString(f.word(text[i : i+n]))
			i += n
		case c == ';':
			end()
			i++
		default:
			b.WriteByte(c)
			i++
		}
	}
	end()
	for i, s := range out {
		out[i] = tidy(s)
	}
	return out
}

// tidy takes away what a comment leaves behind at the end of a line.
func tidy(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " \t")
	}
	return strings.Join(lines, "\n")
}

func lineEnd(s string) int {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return i
	}
	return len(s)
}

// stringEnd is the length of the string literal that s begins with.
func stringEnd(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '\'':
			return i + 1
		}
	}
	return len(s)
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}
