package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

type configCmd struct {
	Check configCheckCmd `cmd:"" help:"Report every problem of the settings at once."`
	Print configPrintCmd `cmd:"" help:"Print the settings in effect, secrets redacted."`
}

type configFlags struct {
	For string `help:"Judge as for dev or run; auto = run when brokers are set." enum:"auto,dev,run" default:"auto"`
	settingFlags
	JSON bool `help:"Print JSON."`
}

// profile decides what the settings are for: whoever names brokers means a deployment.
func (f *configFlags) profile(l *layers) profile {
	switch f.For {
	case "dev":
		return dev
	case "run":
		return production
	}
	for _, s := range kafkaSettings() {
		if s.key != "kafka.brokers" {
			continue
		}
		if v, _, ok := l.value(s, dev); ok {
			if list, err := asSeeds(v); err != nil || len(list) > 0 {
				return production
			}
		}
	}
	return dev
}

type configCheckCmd struct{ configFlags }

func (c *configCheckCmd) Run(a *app) error {
	l, err := readLayers(a.cli.Config, a.environ, c.values())
	if err != nil {
		return err
	}
	p := c.profile(l)
	cfg, problems := l.decode(p)
	if c.JSON {
		out := map[string]any{"ok": len(problems) == 0, "for": string(p), "file": l.file, "problems": problems, "unknown_variables": l.unknownEnv, "warnings": append([]problem{}, cfg.Warnings...)}
		if problems == nil {
			out["problems"] = []problem{}
		}
		if err := json.NewEncoder(a.stdout).Encode(out); err != nil {
			return err
		}
	} else {
		for _, p := range problems {
			fmt.Fprintln(a.stderr, p)
		}
		for _, w := range cfg.Warnings {
			fmt.Fprintf(a.stderr, "warning: %s\n", w)
		}
		for _, name := range l.unknownEnv {
			fmt.Fprintf(a.stderr, "note: %s is in the environment and is not a setting\n", name)
		}
		if len(problems) == 0 {
			fmt.Fprintf(a.stdout, "ok: settings from %s, checked for hookline %s\n", orDefault(l.file, "environment and defaults"), p)
		}
	}
	if len(problems) > 0 {
		if !c.JSON {
			fmt.Fprintf(a.stderr, "hookline: %d problems in the settings for hookline %s; correct them and check again\n", len(problems), p)
		}
		return errSilent
	}
	return nil
}

type configPrintCmd struct{ configFlags }

// Run prints what is in effect even when something is wrong: it is a tool to find out why.
func (c *configPrintCmd) Run(a *app) error {
	l, err := readLayers(a.cli.Config, a.environ, c.values())
	if err != nil {
		return err
	}
	p := c.profile(l)
	if c.JSON {
		out := map[string]any{}
		for _, s := range settings() {
			if v, origin, ok := l.value(s, p); ok {
				out[s.key] = map[string]any{"value": redact(s, v), "origin": origin, "env": s.env}
			}
		}
		return json.NewEncoder(a.stdout).Encode(out)
	}
	fmt.Fprintf(a.stdout, "# in effect for hookline %s; names in brackets say where a value comes from\n", p)
	var b strings.Builder
	var open []string
	for _, s := range settings() {
		v, origin, ok := l.value(s, p)
		if !ok {
			continue
		}
		path := strings.Split(s.key, ".")
		for i, part := range path[:len(path)-1] {
			if i < len(open) && open[i] == part {
				continue
			}
			open = append(open[:i:i], part)
			fmt.Fprintf(&b, "%s%s:\n", strings.Repeat("  ", i), part)
		}
		open = open[:len(path)-1]
		text, err := flowYAML(redact(s, v))
		if err != nil {
			return fmt.Errorf("print %s: %w", s.key, err)
		}
		fmt.Fprintf(&b, "%s%s: %s  # [%s] %s\n", strings.Repeat("  ", len(path)-1), path[len(path)-1], text, origin, s.help)
	}
	_, err = fmt.Fprint(a.stdout, b.String())
	return err
}

// flowYAML writes a value on one line. Numbers and truth values that came as text, from the
// environment or the table, are written as what they are.
func flowYAML(v any) (string, error) {
	if s, ok := v.(string); ok {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			v = n
		} else if s == "true" || s == "false" {
			return s, nil
		}
	}
	b, err := yaml.MarshalWithOptions(v, yaml.Flow(true))
	return strings.TrimSpace(string(b)), err
}

const redacted = "(redacted)"

// redact takes secrets out of a value for printing. A reference to a file or a variable is
// shown: it helps and tells nothing. A command is not: it may carry a token.
func redact(s setting, v any) any {
	if s.tree {
		return redactTree(v)
	}
	if !s.secret {
		return v
	}
	list, err := asSecretItems(v)
	if err != nil {
		return redacted
	}
	for i, item := range list {
		list[i] = redactItem(s.key, item)
	}
	if len(list) == 1 {
		return list[0]
	}
	return list
}

func redactItem(key, item string) string {
	if strings.HasPrefix(item, "file:") || strings.HasPrefix(item, "env:") || strings.HasPrefix(item, "@") {
		return item
	}
	switch key {
	case "ingest.api_keys":
		if tenant, _, ok := strings.Cut(item, ":"); ok && !secretRef(item) {
			return tenant + ":" + redacted
		}
	case "clickhouse.dsn":
		if item == "off" || item == "" {
			return item
		}
		if u, err := url.Parse(item); err == nil && u.Host != "" {
			return u.Scheme + "://" + u.Host + "/" + redacted
		}
	}
	return redacted
}

// redactSecrets hides one secret or a list of them, but not the names of places.
func redactSecrets(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = redactSecrets(v[i])
		}
		return out
	case string:
		return redactItem("", v)
	}
	return redacted
}

// redactTree hides header values and secrets inside a section.
func redactTree(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		if list, ok := v.([]any); ok {
			out := make([]any, len(list))
			for i := range list {
				out[i] = redactTree(list[i])
			}
			return out
		}
		return v
	}
	out := make(map[string]any, len(m))
	for k, inner := range m {
		switch k {
		case "headers":
			out[k] = redacted
		case "secret", "secrets", "verify_token":
			out[k] = redactSecrets(inner)
		default:
			out[k] = redactTree(inner)
		}
	}
	return out
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
