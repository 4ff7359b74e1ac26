package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
)

// defaultFile is read when no --config is given and it exists.
const defaultFile = "hookline.yaml"

// problem is one fault of the settings, with the path of the key.
type problem struct {
	Key    string `json:"key"`
	Text   string `json:"problem"`
	Origin string `json:"origin,omitempty"`

	missing bool // nothing is wrong but that run needs it
}

func (p problem) String() string {
	if p.Origin == "" {
		return p.Key + ": " + p.Text
	}
	return p.Key + ": " + p.Text + " (" + p.Origin + ")"
}

// layers are the sources of settings, the strongest last.
type layers struct {
	list []layer
	file string // the file that was read, "" = none
	// unknownEnv are HOOKLINE_ variables that no setting has: a hint, not an error, since an
	// orchestrator adds variables named after a service called hookline.
	unknownEnv []string
}

type layer struct {
	name string
	k    *koanf.Koanf
}

// flagValues are settings from flags, by key.
type flagValues map[string]string

// yamlParser is koanf's door to the YAML library that the rest of the program uses.
type yamlParser struct{}

func (yamlParser) Unmarshal(b []byte) (map[string]any, error) {
	var out map[string]any
	if err := yaml.Unmarshal(b, &out); err != nil {
		// Without the source: a line of the file may hold a secret.
		return nil, errors.New(strings.ReplaceAll(yaml.FormatError(err, false, false), "\n", " "))
	}
	return out, nil
}

func (yamlParser) Marshal(m map[string]any) ([]byte, error) { return yaml.Marshal(m) }

// ReadBytes makes flagValues a koanf provider; it has no bytes.
func (f flagValues) ReadBytes() ([]byte, error) { return nil, errors.New("flags have no bytes") }

// Read returns the flags as nested maps.
func (f flagValues) Read() (map[string]any, error) {
	k := koanf.New(".")
	for key, v := range f {
		if err := k.Set(key, v); err != nil {
			return nil, fmt.Errorf("set %s: %w", key, err)
		}
	}
	return k.Raw(), nil
}

// clientVariable reports whether a variable tells client commands where the servers are.
func clientVariable(name string) bool {
	switch name {
	case "HOOKLINE_ADMIN_URL", "HOOKLINE_INGEST_URL", "HOOKLINE_API_KEY":
		return true
	}
	return false
}

// readLayers reads the file, the environment and the flags. path "" = hookline.yaml if present.
func readLayers(path string, environ []string, flags flagValues) (*layers, error) {
	l := &layers{}
	if path == "" {
		if _, err := os.Stat(defaultFile); err == nil {
			path = defaultFile
		}
	}
	if path != "" {
		k := koanf.New(".")
		if err := k.Load(file.Provider(path), yamlParser{}); err != nil {
			return nil, fmt.Errorf("read settings from %s: %w", path, err)
		}
		if err := liftTLS(k); err != nil {
			return nil, err
		}
		l.file = path
		l.list = append(l.list, layer{path, k})
	}
	known := map[string]setting{}
	for _, s := range settings() {
		if s.env != "" {
			known[s.env] = s
		}
	}
	fromEnv := koanf.New(".")
	provider := env.Provider(".", env.Opt{
		Prefix:      "HOOKLINE_",
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			s, ok := known[name]
			if !ok && !clientVariable(name) {
				l.unknownEnv = append(l.unknownEnv, name)
			}
			if !ok {
				return "", nil
			}
			if value == "" && !s.empty {
				return "", nil
			}
			return s.key, value
		},
	})
	if err := fromEnv.Load(provider, nil); err != nil {
		return nil, fmt.Errorf("read settings from the environment: %w", err)
	}
	l.list = append(l.list, layer{"environment", fromEnv})
	fromFlags := koanf.New(".")
	if err := fromFlags.Load(flags, nil); err != nil {
		return nil, fmt.Errorf("read settings from flags: %w", err)
	}
	l.list = append(l.list, layer{"flags", fromFlags})
	slices.Sort(l.unknownEnv)
	return l, nil
}

// liftTLS lets a file say "kafka.tls: true" for kafka.tls.enabled.
func liftTLS(k *koanf.Koanf) error {
	v := k.Get("kafka.tls")
	if v == nil {
		return nil
	}
	if _, section := v.(map[string]any); section {
		return nil
	}
	k.Delete("kafka.tls")
	return k.Set("kafka.tls.enabled", v)
}

// value returns what the strongest layer says of s, and that layer's name.
func (l *layers) value(s setting, p profile) (v any, origin string, ok bool) {
	for _, layer := range slices.Backward(l.list) {
		if layer.k.Exists(s.key) {
			if v := layer.k.Get(s.key); v != nil {
				if layer.name == "environment" {
					return v, s.env, true
				}
				return v, layer.name, true
			}
		}
	}
	text := s.run
	if p == dev {
		text = s.dev
	}
	if text == "" {
		return nil, "", false
	}
	return text, "default", true
}

// text returns the value of a setting that has no default and is one text, "" if it is not set.
func (l *layers) text(key string) (string, error) {
	for _, s := range settings() {
		if s.key != key {
			continue
		}
		v, _, _ := l.value(s, dev)
		text, err := asString(v)
		if err != nil {
			return "", fmt.Errorf("settings: %s: %w", key, err)
		}
		return text, nil
	}
	panic("BUG: no setting " + key)
}

// decode makes a Config for profile p and returns every problem at once. The Config is
// usable only without problems.
func (l *layers) decode(p profile) (*Config, []problem) {
	c := &Config{}
	c.Retrytiers.Ladder = defaultLadder()
	problems := l.unknownKeys()
	for _, s := range settings() {
		v, origin, ok := l.value(s, p)
		if !ok {
			if s.need && p == production {
				problems = append(problems, problem{Key: s.key, Text: "is missing; set it in the file or as " + s.env, missing: true})
			}
			continue
		}
		if err := s.set(c, v); err != nil {
			problems = append(problems, problemsOf(s.key, origin, err)...)
		}
	}
	if p == production && len(c.Kafka.Brokers) == 0 && !hasProblem(problems, "kafka.brokers") {
		problems = append(problems, problem{Key: "kafka.brokers", Text: "is empty; run needs a Kafka cluster", missing: true})
	}
	// What is judged together makes sense once each part can be read.
	if !slices.ContainsFunc(problems, func(p problem) bool { return !p.missing }) {
		problems = append(problems, c.check(p)...)
	}
	return c, problems
}

func hasProblem(list []problem, key string) bool {
	return slices.ContainsFunc(list, func(p problem) bool { return p.Key == key })
}

// unknownKeys finds names in the file and the flags that no setting has.
func (l *layers) unknownKeys() []problem {
	table := settings()
	var out []problem
	for _, layer := range l.list {
		keys := layer.k.Keys()
		slices.Sort(keys)
		for _, key := range keys {
			if knownKey(table, key, layer.k.Get(key)) {
				continue
			}
			text := "is not a setting"
			if slices.ContainsFunc(table, func(s setting) bool { return strings.HasPrefix(s.key, key+".") }) {
				text = "is a section, not a value"
			} else if near := nearest(table, key); near != "" {
				text += "; did you mean " + near + "?"
			}
			out = append(out, problem{Key: key, Text: text, Origin: layer.name})
		}
	}
	return out
}

func knownKey(table []setting, key string, v any) bool {
	for _, s := range table {
		if s.key == key || strings.HasPrefix(key, s.key+".") {
			return true // what is inside a value is judged by the setting
		}
		if v == nil && strings.HasPrefix(s.key, key+".") {
			return true // an empty section
		}
		if m, ok := v.(map[string]any); ok && len(m) == 0 && strings.HasPrefix(s.key, key+".") {
			return true
		}
	}
	return false
}

// nearest returns the setting that key is most likely a misspelling of.
func nearest(table []setting, key string) string {
	best, distance := "", 4
	for _, s := range table {
		if d := editDistance(s.key, key); d < distance {
			best, distance = s.key, d
		}
		if i := strings.LastIndexByte(s.key, '.'); i >= 0 && s.key[i+1:] == key {
			return s.key
		}
	}
	return best
}

// editDistance is the Levenshtein distance of two short texts.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
