package engine

import (
	"bytes"
	"strings"
)

// statement is what has to be known about a query before the engine sees it: whether it takes
// data, and in which format data flows. The engine's own parser stays the judge of the rest.
type statement struct {
	verb      string // first word in capitals
	insert    bool   // takes data in the format named by a FORMAT clause
	format    string // of the FORMAT clause; "" = none
	formatAt  int    // where the clause begins
	formatEnd int    // and ends
}

// parseStatement reads a query as far as needed.
func parseStatement(sql []byte) statement {
	var s statement
	lex := lexer{text: sql}
	var previous string // word before, in capitals; "" for anything else
	for {
		t, ok := lex.next()
		if !ok {
			return s
		}
		word := strings.ToUpper(string(t.word))
		if s.verb == "" && (word != "" || t.symbol != '(') {
			s.verb = word
		}
		if lex.depth != 0 {
			previous = ""
			continue
		}
		if s.verb == "INSERT" && (word == "VALUES" || word == "SELECT" || word == "WITH") && named(previous) {
			return s // the rest is data or another query, in which FORMAT may mean anything
		}
		if word != "FORMAT" || !named(previous) {
			previous = word
			continue
		}
		after := lex
		name, ok := after.next()
		if !ok || name.word == nil {
			previous = word
			continue
		}
		if s.verb == "INSERT" {
			s.insert, s.format, s.formatAt, s.formatEnd = true, string(name.word), t.at, after.pos
			return s
		}
		end := after.pos
		if follow, more := after.next(); !more || follow.symbol == ';' || strings.EqualFold(string(follow.word), "SETTINGS") {
			s.format, s.formatAt, s.formatEnd = string(name.word), t.at, end
		}
		previous = word
	}
}

// named says that what follows this word is not a name of the user's.
func named(previous string) bool {
	return previous != "INTO" && previous != "TABLE" && previous != "AS"
}

// inlineData returns what follows the FORMAT clause of an INSERT in its own text: blanks and one
// line end separate it from the data.
func (s statement) inlineData(sql []byte) []byte {
	rest := bytes.TrimLeft(sql[s.formatEnd:], " \t\f\r\v")
	return bytes.TrimPrefix(rest, []byte("\n"))
}

// streams says whether the engine may hand the result over in pieces: it formats each piece as a
// whole document, so only formats without a head and a foot can be put together again.
func (s statement) streams(format string) bool {
	if s.verb != "SELECT" && s.verb != "WITH" {
		return false
	}
	switch strings.ToUpper(format) {
	case "NATIVE", "ROWBINARY", "JSONEACHROW", "NDJSON", "JSONLINES", "JSONCOMPACTEACHROW", "TABSEPARATED", "TSV",
		"TABSEPARATEDRAW", "TSVRAW", "CSV", "LINEASSTRING", "RAWBLOB":
		return true
	}
	return false
}

// token is a word or a symbol; quoted text, numbers and everything else is symbol 0 with no word.
type token struct {
	at     int
	word   []byte
	symbol byte
}

// lexer splits SQL into tokens; comments and blanks fall out.
type lexer struct {
	text  []byte
	pos   int
	depth int // open brackets
}

func (l *lexer) next() (token, bool) {
	l.skipBlanks()
	if l.pos >= len(l.text) {
		return token{}, false
	}
	t := token{at: l.pos}
	switch c := l.text[l.pos]; {
	case c == '\'' || c == '"' || c == '`':
		l.skipQuoted(c)
	case isWordStart(c):
		for l.pos < len(l.text) && isWordPart(l.text[l.pos]) {
			l.pos++
		}
		t.word = l.text[t.at:l.pos]
	case c >= '0' && c <= '9':
		for l.pos < len(l.text) && (isWordPart(l.text[l.pos]) || l.text[l.pos] == '.') {
			l.pos++
		}
	case c == '$' && l.skipHeredoc():
	default:
		l.pos++
		t.symbol = c
		switch c {
		case '(', '[', '{':
			l.depth++
		case ')', ']', '}':
			l.depth = max(0, l.depth-1)
		}
	}
	return t, true
}

func (l *lexer) skipBlanks() {
	for l.pos < len(l.text) {
		rest := l.text[l.pos:]
		switch {
		case rest[0] == ' ' || rest[0] >= '\t' && rest[0] <= '\r':
			l.pos++
		case bytes.HasPrefix(rest, []byte("--")), bytes.HasPrefix(rest, []byte("# ")), bytes.HasPrefix(rest, []byte("#!")):
			l.skipPast("\n", 0)
		case bytes.HasPrefix(rest, []byte("/*")):
			l.skipPast("*/", 2)
		default:
			return
		}
	}
}

// skipPast moves behind the next end that begins at least offset bytes on, or to the end of the text.
func (l *lexer) skipPast(end string, offset int) {
	i := bytes.Index(l.text[l.pos+offset:], []byte(end))
	if i < 0 {
		l.pos = len(l.text)
		return
	}
	l.pos += offset + i + len(end)
}

func (l *lexer) skipQuoted(quote byte) {
	for l.pos++; l.pos < len(l.text); l.pos++ {
		switch l.text[l.pos] {
		case '\\':
			l.pos++
		case quote:
			l.pos++
			return // a doubled quote begins the next token, which is as good
		}
	}
	l.pos = len(l.text)
}

// skipHeredoc moves behind $tag$ ... $tag$.
func (l *lexer) skipHeredoc() bool {
	end := l.pos + 1
	for end < len(l.text) && isWordPart(l.text[end]) && l.text[end] != '$' {
		end++
	}
	if end >= len(l.text) || l.text[end] != '$' {
		return false
	}
	tag := l.text[l.pos : end+1]
	i := bytes.Index(l.text[end+1:], tag)
	if i < 0 {
		return false
	}
	l.pos = end + 1 + i + len(tag)
	return true
}

func isWordStart(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isWordPart(c byte) bool { return isWordStart(c) || c >= '0' && c <= '9' || c == '$' }
