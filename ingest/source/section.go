package source

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// section reads one map of the settings and collects every fault. What is not asked for by
// the end is an unknown name.
type section struct {
	path  string
	m     map[string]any
	asked map[string]bool
	errs  *[]error
}

func newSection(path string, v any, errs *[]error) *section {
	s := &section{path: path, asked: map[string]bool{}, errs: errs}
	m, ok := v.(map[string]any)
	if !ok && v != nil {
		s.bad("", "must be a section")
	}
	s.m = m
	return s
}

// bad notes a fault of the member name, of the section itself if that is "".
func (s *section) bad(name, format string, args ...any) {
	path := s.path
	if name != "" {
		path += "." + name
	}
	*s.errs = append(*s.errs, &SettingError{path, fmt.Sprintf(format, args...)})
}

// get returns a member; null is as good as none.
func (s *section) get(name string) (any, bool) {
	s.asked[name] = true
	v := s.m[name]
	return v, v != nil
}

// end reports the names that nobody asked for.
func (s *section) end() {
	for _, name := range slices.Sorted(maps.Keys(s.m)) {
		if !s.asked[name] {
			s.bad(name, "is not a setting; known are %s", strings.Join(slices.Sorted(maps.Keys(s.asked)), ", "))
		}
	}
}

// asText takes what YAML makes of a plain word. Its errors never repeat the value.
func asText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int, int64, uint64, float64:
		return fmt.Sprint(v), true
	}
	return "", false
}

// asItem is asText for a list: inside {...} the YAML library takes the plain word json:type of
// a list for a map, where YAML has a text.
func asItem(v any) (string, bool) {
	if m, ok := v.(map[string]any); ok && len(m) == 1 {
		for name, inner := range m {
			text, ok := asText(inner)
			return name + ":" + text, ok
		}
	}
	return asText(v)
}

func (s *section) text(name, otherwise string) string {
	v, ok := s.get(name)
	if !ok {
		return otherwise
	}
	text, ok := asText(v)
	if !ok {
		s.bad(name, "must be a text")
	}
	return text
}

// choice is text with a closed set of values.
func (s *section) choice(name, otherwise string, allowed ...string) string {
	v := s.text(name, otherwise)
	if !slices.Contains(allowed, v) {
		s.bad(name, "must be one of %s", strings.Join(allowed, ", "))
		return otherwise
	}
	return v
}

func (s *section) integer(name string, otherwise, low, high int) int {
	if _, ok := s.get(name); !ok {
		return otherwise
	}
	n, err := strconv.Atoi(s.text(name, ""))
	if err != nil || n < low || n > high {
		s.bad(name, "must be a whole number from %d to %d", low, high)
		return otherwise
	}
	return n
}

func (s *section) number(name string, low, high float64) float64 {
	if _, ok := s.get(name); !ok {
		return 0
	}
	n, err := strconv.ParseFloat(s.text(name, ""), 64)
	if err != nil || !(n >= low && n <= high) {
		s.bad(name, "must be a number from %g to %g", low, high)
		return 0
	}
	return n
}

func (s *section) duration(name string, otherwise, low, high time.Duration) time.Duration {
	if _, ok := s.get(name); !ok {
		return otherwise
	}
	d, err := time.ParseDuration(s.text(name, ""))
	if err != nil || d < low || d > high {
		s.bad(name, "must be a duration from %s to %s, such as 5m", low, high)
		return otherwise
	}
	return d
}

// list takes a list of texts, or one text alone.
func (s *section) list(name string) []string {
	v, ok := s.get(name)
	if !ok {
		return nil
	}
	items, ok := v.([]any)
	if !ok {
		items = []any{v}
	}
	if texts, ok := v.([]string); ok {
		return texts
	}
	var out []string
	for i, item := range items {
		text, ok := asItem(item)
		if !ok {
			s.bad(fmt.Sprintf("%s[%d]", name, i), "must be a text")
			continue
		}
		out = append(out, strings.TrimSpace(text))
	}
	return out
}

// selectors takes one selector or a list of them.
func (s *section) selectors(name string, otherwise []string) []Selector {
	texts := otherwise
	if _, ok := s.get(name); ok {
		texts = s.list(name)
	}
	if len(texts) > maxList {
		s.bad(name, "has more than %d entries", maxList)
		return nil
	}
	var out []Selector
	for i, text := range texts {
		sel, err := ParseSelector(text)
		if err != nil {
			at := name
			if len(texts) > 1 {
				at = fmt.Sprintf("%s[%d]", name, i)
			}
			s.bad(at, "%s", err)
			continue
		}
		out = append(out, sel)
	}
	return out
}

func (s *section) prefixes(name string) []netip.Prefix {
	var out []netip.Prefix
	for i, text := range s.list(name) {
		if ip, err := netip.ParseAddr(text); err == nil && ip.Zone() == "" {
			out = append(out, netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			s.bad(fmt.Sprintf("%s[%d]", name, i), "must be a CIDR, such as 10.0.0.0/8")
		case p.Masked() != p:
			s.bad(fmt.Sprintf("%s[%d]", name, i), "has bits set beyond its length; write %s", p.Masked())
		case p.Addr().Is4In6():
			s.bad(fmt.Sprintf("%s[%d]", name, i), "is an IPv4 range written as IPv6; write it as IPv4")
		default:
			out = append(out, p)
		}
	}
	return out
}
