package event

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
)

func mustPaths(t testing.TB, texts ...string) *Finder {
	t.Helper()
	var paths []Path
	for _, s := range texts {
		p, err := ParsePath(s)
		if err != nil {
			t.Fatal(err)
		}
		if p.String() != s {
			t.Fatalf("path %q is written as %q", s, p)
		}
		paths = append(paths, p)
	}
	f, err := NewFinder(paths...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFindReturnsWhatStandsAtThePaths(t *testing.T) {
	t.Parallel()
	f := mustPaths(t, "a", "a.b", "list.1.id", `x\.y.z`, "n", "none", "big", "list.0", "a")
	got, err := f.Find([]byte(` {"a":{"b":"v\u0041l"},"list":[{"id":0},{"id":"one","id2":1}],"x.y":{"z":null},"n":-12,"big":1.5,"0":{"b":1}} `))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`{"b":"v\u0041l"}`, `"v\u0041l"`, `"one"`, "null", "-12", "", "1.5", `{"id":0}`, `{"b":"v\u0041l"}`}
	kinds := []string{"object", "string", "string", "null", "number", "", "number", "object", "object"}
	for i := range want {
		if string(got[i].Raw) != want[i] || got[i].Kind() != kinds[i] {
			t.Errorf("value %d is %s %s, want %s %s", i, got[i].Kind(), got[i].Raw, kinds[i], want[i])
		}
	}
	if s, ok := got[1].Text(); !ok || s != "vAl" {
		t.Errorf("text is %q", s)
	}
	if s, ok := got[4].Integer(); !ok || s != "-12" {
		t.Errorf("integer is %q", s)
	}
	if s, ok := got[6].Integer(); ok {
		t.Errorf("1.5 is the integer %q", s)
	}
}

func TestFindRefusesWhatReadersCouldReadDifferently(t *testing.T) {
	t.Parallel()
	f := mustPaths(t, "data.id", "list.0.id")
	for body, want := range map[string]string{
		`{"data":{"id":"a","id":"b"}}`:          `invalid_field data.id`,
		`{"data":{"id":"a","\u0069d":"b"}}`:     `invalid_field data.id`,
		`{"data":{"id":"a"},"data":1}`:          `invalid_field data`,
		`{"list":[{"id":1,"id":1}]}`:            `invalid_field list.0.id`,
		`{"other":1,"other":2,"data":{"id":1}}`: ``,
		`{"data":{"x":{"id":1,"id":2}}}`:        ``,
		`{"list":[1,{"id":1,"id":2}]}`:          ``,
		`{"data":{"id":"a","id":"b"}`:           `invalid_json `,
		`{"data":{}} x`:                         `invalid_json `,
		"{\"data\":\"\xff\"}":                   `invalid_json `,
		" ":                                     `empty_body `,
		`{"data":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`: `invalid_json `,
		strings.Repeat(`{"data":`, 65) + "1" + strings.Repeat("}", 65):       `invalid_json `,
		`[]`: ``, `"x"`: ``, `nul`: `invalid_json `,
	} {
		_, err := f.Find([]byte(body))
		got := ""
		var field *FieldError
		if errors.As(err, &field) {
			got = field.Code + " " + field.Field
		}
		if got != want {
			t.Errorf("%.60q: %q, want %q", body, got, want)
		}
	}
}

func TestParsePathRefuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", ".", "a.", ".a", "a..b", `a\b`, `a\`, "\xff", strings.Repeat("a.", 16) + "a", strings.Repeat("a", 257)} {
		if p, err := ParsePath(s); err == nil {
			t.Errorf("%q is the path %q", s, p)
		}
	}
	paths := make([]Path, MaxPaths+1)
	for i := range paths {
		paths[i] = Path{strconv.Itoa(i)}
	}
	if _, err := NewFinder(paths...); err == nil {
		t.Error("more than MaxPaths are taken")
	}
}

// FuzzFind holds Find against encoding/json: what it accepts is valid JSON, and a value that
// it finds is the one that a reader with a tree finds.
func FuzzFind(f *testing.F) {
	for _, body := range []string{`{"a":{"b":[1,{"c":"x"}]},"d":1}`, `[{"a":1}]`, `{"a":{"b":{"1":{"c":null}}}}`, `{"a":1,"a":2}`, `{"\u0061":{"b":[0,{"c":"\ud800"}]}}`} {
		f.Add([]byte(body))
	}
	finder := mustPaths(f, "a.b.1.c", "d", "a")
	f.Fuzz(func(t *testing.T, body []byte) {
		values, err := finder.Find(body)
		if err != nil {
			var field *FieldError
			if !errors.As(err, &field) {
				t.Fatalf("error is a %T", err)
			}
			return
		}
		if !json.Valid(body) {
			t.Fatalf("accepted %q", body)
		}
		var tree any
		if err := json.Unmarshal(body, &tree); err != nil {
			return // a number out of range: still JSON
		}
		for i, path := range [][]string{{"a", "b", "1", "c"}, {"d"}, {"a"}} {
			want, ok := lookup(tree, path)
			if (values[i].Kind() != "") != ok {
				t.Fatalf("%q: %v found %t, want %t", body, path, !ok, ok)
			}
			if !ok {
				continue
			}
			var got any
			if err := json.Unmarshal(values[i].Raw, &got); err != nil {
				t.Fatal(err)
			}
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(want)
			if string(a) != string(b) {
				t.Fatalf("%q: %v is %s, want %s", body, path, a, b)
			}
			if s, isText := want.(string); isText {
				if text, _ := values[i].Text(); text != s {
					t.Fatalf("%q: text %q, want %q", body, text, s)
				}
			}
		}
	})
}

func lookup(v any, path []string) (any, bool) {
	for _, name := range path {
		switch at := v.(type) {
		case map[string]any:
			inner, ok := at[name]
			if !ok {
				return nil, false
			}
			v = inner
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(at) || strconv.Itoa(i) != name {
				return nil, false
			}
			v = at[i]
		default:
			return nil, false
		}
	}
	return v, true
}
