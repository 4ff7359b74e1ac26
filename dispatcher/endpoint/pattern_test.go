package endpoint

import (
	"strings"
	"testing"
)

func TestPatterns(t *testing.T) {
	cases := []struct {
		pattern, eventType string
		want               bool
	}{
		{"message.delivered", "message.delivered", true},
		{"message.delivered", "message.delivered.late", false},
		{"message.delivered", "message", false},
		{"message.*", "message.delivered", true},
		{"message.*", "message", false},
		{"message.*", "message.a.b", false},
		{"*.delivered", "message.delivered", true},
		{"*.delivered", "a.b.delivered", false},
		{"*", "account", true},
		{"*", "account.closed", false},
		{"message.**", "message.a", true},
		{"message.**", "message.a.b", true},
		{"message.**", "message", false},
		{"message.**", "messages.a", false},
		{"message.*.**", "message.a", false},
		{"message.*.**", "message.a.b", true},
		{"a.*.c", "a.b.c", true},
		{"a.*.c", "a.b.d", false},
		{"a.*.c", "a.b", false},
		{"**", "anything.at.all", true},
		{"**", "hookline.endpoint.disabled", false},
		{"*.endpoint.disabled", "hookline.endpoint.disabled", false},
		{"*.**", "hookline.endpoint.disabled", false},
		{"hookline.**", "hookline.endpoint.disabled", true},
		{"hookline.*.disabled", "hookline.endpoint.disabled", true},
		{"hookline.delivery.dead", "hookline.delivery.dead", true},
		{"**", "hooklines.x", true},
		{"**", "hookline", true},
	}
	for _, c := range cases {
		got, err := MatchPattern(c.pattern, c.eventType)
		if err != nil || got != c.want {
			t.Errorf("%q on %q = %v, %v; want %v", c.pattern, c.eventType, got, err, c.want)
		}
	}
}

func TestBadPatternsAreRefused(t *testing.T) {
	for _, text := range []string{"", ".", "a.", ".a", "a..b", "**.a", "a.**.b", "a*", "a.b*", "***", "a b", "a.\u00e9", strings.Repeat("a", 129)} {
		if _, err := compilePattern(text); err == nil {
			t.Errorf("%q accepted", text)
		}
	}
}

// FuzzPattern: compiling never panics; a pattern without wildcards matches itself and
// nothing else; matching never reads past the type.
func FuzzPattern(f *testing.F) {
	f.Add("message.*", "message.delivered")
	f.Add("**", "hookline.a")
	f.Add("a.*.**", "a..b")
	f.Fuzz(func(t *testing.T, text, eventType string) {
		p, err := compilePattern(text)
		if err != nil {
			return
		}
		got := p.matches(eventType)
		if !strings.Contains(text, "*") && got != (text == eventType) {
			t.Fatalf("%q on %q = %v", text, eventType, got)
		}
		if got && isFeedback(eventType) && !strings.HasPrefix(text, "hookline.") {
			t.Fatalf("%q brings feedback %q", text, eventType)
		}
	})
}
