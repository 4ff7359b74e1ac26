package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/hookline/hookline/dispatcher/endpoint"
)

type endpointsApplyCmd struct {
	File   string `short:"f" required:"" help:"YAML file with a list of endpoints; - reads stdin." placeholder:"FILE"`
	Yes    bool   `help:"Make the changes; without it they are only shown."`
	Prune  bool   `help:"Delete endpoints that the file does not name."`
	Force  bool   `help:"Delete more than 10 % of the endpoints at once."`
	Tenant string `help:"Look at this tenant's endpoints only."`
	JSON   bool   `help:"Print JSON."`
	adminFlags
}

// step is one change that apply would make.
type step struct {
	Action string            `json:"action"` // create | update | delete
	ID     string            `json:"id"`
	Fields map[string][2]any `json:"fields,omitempty"` // was, becomes
	Secret string            `json:"secret,omitempty"` // of a created endpoint, shown once

	body map[string]any
}

func (c *endpointsApplyCmd) Run(a *app) error {
	wanted, err := c.read(a)
	if err != nil {
		return err
	}
	client, err := a.adminClient(c.adminFlags)
	if err != nil {
		return err
	}
	list, err := listAll(a.ctx, client, c.Tenant)
	if err != nil {
		return err
	}
	have := map[string]map[string]any{}
	for _, e := range list {
		m, err := formMap(e)
		if err != nil {
			return err
		}
		have[e.ID] = m
	}
	steps, extra, err := planApply(wanted, have)
	if err != nil {
		return err
	}
	if c.Prune {
		for _, id := range extra {
			steps = append(steps, step{Action: "delete", ID: id})
		}
		if err := pruneLimit(len(extra), len(have), c.Force); err != nil {
			return err
		}
	}
	if !c.JSON {
		c.show(a, steps, extra)
	}
	if c.Yes {
		if err := c.carryOut(a, client, steps); err != nil {
			return err
		}
	}
	if c.JSON {
		return printJSON(a, map[string]any{"changed": c.Yes, "steps": nonNil(steps), "not_in_file": nonNil(extra)})
	}
	if !c.Yes && len(steps) > 0 {
		fmt.Fprintln(a.stdout, "nothing was changed; add --yes to make these changes")
	}
	return nil
}

// pruneLimit refuses to delete more than a tenth at once: it is what a truncated or a wrong
// file looks like. One endpoint may always go.
func pruneLimit(deletes, have int, force bool) error {
	if force || deletes <= 1 || deletes*10 <= have {
		return nil
	}
	return fmt.Errorf("the file would delete %d of %d endpoints, over 10 %%; check the file, or add --force", deletes, have)
}

// read returns the endpoints of the file as JSON values, in its order.
func (c *endpointsApplyCmd) read(a *app) ([]map[string]any, error) {
	var raw []byte
	var err error
	if c.File == "-" {
		raw, err = io.ReadAll(a.stdin)
	} else {
		raw, err = os.ReadFile(c.File)
	}
	if err != nil {
		return nil, fmt.Errorf("read endpoints: %w", err)
	}
	return parseEndpointFile(raw)
}

func parseEndpointFile(raw []byte) ([]map[string]any, error) {
	var file map[string]any
	if err := yaml.Unmarshal(raw, &file); err != nil {
		// Without the source: a line of it may hold a secret.
		return nil, errors.New("read endpoints: " + strings.ReplaceAll(yaml.FormatError(err, false, false), "\n", " "))
	}
	for name := range file {
		if name != "endpoints" {
			return nil, fmt.Errorf("read endpoints: the file has %.40q; it takes endpoints: [...] only", name)
		}
	}
	items, ok := file["endpoints"].([]any)
	if !ok {
		return nil, errors.New("read endpoints: the file must hold endpoints: [...]")
	}
	var errs []error
	seen := map[string]bool{}
	out := make([]map[string]any, 0, len(items))
	for i, item := range items {
		m, err := jsonMap(item)
		if err != nil {
			errs = append(errs, fmt.Errorf("endpoint %d: %w", i+1, err))
			continue
		}
		for _, name := range readOnly() {
			delete(m, name)
		}
		id, _ := m["id"].(string)
		if _, err := mergeForm(endpoint.Default(), m); err != nil {
			errs = append(errs, fmt.Errorf("endpoint %d %s: %w", i+1, id, err))
			continue
		}
		if id == "" || seen[id] {
			errs = append(errs, fmt.Errorf("endpoint %d: id %q is missing or there twice", i+1, id))
			continue
		}
		seen[id] = true
		out = append(out, m)
	}
	return out, errors.Join(errs...)
}

// jsonMap brings a value from YAML into the types that JSON has.
func jsonMap(v any) (map[string]any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, errors.New("is not a section")
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil || m == nil {
		return nil, errors.New("is not a section")
	}
	return m, nil
}

func mergeForm(base endpoint.Endpoint, m map[string]any) (endpoint.Endpoint, error) {
	raw, err := json.Marshal(m)
	if err != nil {
		return base, err
	}
	e, err := endpoint.Merge(base, raw)
	if err != nil {
		return e, errors.New(strings.TrimPrefix(err.Error(), "decode endpoint: "))
	}
	return e, nil
}

// formMap is an endpoint of the API as a JSON value without what cannot be set.
func formMap(e *endpointForm) (map[string]any, error) {
	m, err := jsonMap(e)
	if err != nil {
		return nil, err
	}
	for _, name := range readOnly() {
		delete(m, name)
	}
	return m, nil
}

// planApply compares the file with what is there. Only the fields that the file names are
// compared: what it leaves out stays as it is. extra are the endpoints it does not name.
func planApply(wanted []map[string]any, have map[string]map[string]any) (steps []step, extra []string, err error) {
	left := maps.Clone(have)
	for _, m := range wanted {
		id := m["id"].(string)
		current, ok := have[id]
		delete(left, id)
		if !ok {
			steps = append(steps, step{Action: "create", ID: id, body: m})
			continue
		}
		fields, err := differences(current, m)
		if err != nil {
			return nil, nil, fmt.Errorf("endpoint %s: %w", id, err)
		}
		if len(fields) > 0 {
			steps = append(steps, step{Action: "update", ID: id, Fields: fields, body: m})
		}
	}
	return steps, slices.Sorted(maps.Keys(left)), nil
}

// differences applies m to the current form and compares field by field, so that 60m and 1h
// are equal. A secret is compared by what the API shows of it.
func differences(current, m map[string]any) (map[string][2]any, error) {
	before, err := mergeForm(endpoint.Default(), current)
	if err != nil {
		return nil, err
	}
	after, err := mergeForm(before, m)
	if err != nil {
		return nil, err
	}
	was, err := jsonMap(before)
	if err != nil {
		return nil, err
	}
	becomes, err := jsonMap(after)
	if err != nil {
		return nil, err
	}
	out := map[string][2]any{}
	compareMaps("", was, becomes, out)
	if pair, ok := out["secret"]; ok {
		shown, _ := pair[0].(string)
		given, _ := pair[1].(string)
		delete(out, "secret")
		if shown == "" || !strings.HasSuffix(given, shown) {
			out["secret"] = [2]any{redacted, redacted}
		}
	}
	// The server stores a cleaned form of a URL; a difference that it would clean away again
	// must not show for ever.
	if pair, ok := out["url"]; ok && sameURL(pair[0], pair[1]) {
		delete(out, "url")
	}
	return out, nil
}

func sameURL(a, b any) bool {
	policy := endpoint.URLPolicy{HTTP: true}
	text, ok := b.(string)
	if !ok {
		return false
	}
	clean, err := policy.Normalize(text)
	return err == nil && clean == a
}

func compareMaps(prefix string, a, b map[string]any, out map[string][2]any) {
	names := map[string]bool{}
	for k := range a {
		names[k] = true
	}
	for k := range b {
		names[k] = true
	}
	for k := range names {
		am, aok := a[k].(map[string]any)
		bm, bok := b[k].(map[string]any)
		if (aok || bok) && k != "headers" && (aok || a[k] == nil) && (bok || b[k] == nil) {
			compareMaps(prefix+k+".", am, bm, out)
			continue
		}
		if !reflect.DeepEqual(a[k], b[k]) {
			out[prefix+k] = [2]any{a[k], b[k]}
			if k == "headers" { // values carry tokens
				out[prefix+k] = [2]any{headerNames(am), headerNames(bm)}
			}
		}
	}
}

func headerNames(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

func (c *endpointsApplyCmd) show(a *app, steps []step, extra []string) {
	for _, s := range steps {
		switch s.Action {
		case "create":
			fmt.Fprintf(a.stdout, "+ %s  %v\n", s.ID, s.body["url"])
		case "delete":
			fmt.Fprintf(a.stdout, "- %s\n", s.ID)
		default:
			fmt.Fprintf(a.stdout, "~ %s\n", s.ID)
			for _, name := range slices.Sorted(maps.Keys(s.Fields)) {
				fmt.Fprintf(a.stdout, "    %s: %s -> %s\n", name, compact(s.Fields[name][0]), compact(s.Fields[name][1]))
			}
		}
	}
	if len(steps) == 0 {
		fmt.Fprintln(a.stdout, "no changes")
	}
	if len(extra) > 0 && !c.Prune {
		fmt.Fprintf(a.stdout, "%d endpoints are not in the file and stay; --prune deletes them: %s\n", len(extra), cut(strings.Join(extra, ", "), 400))
	}
}

func compact(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return string(b)
}

// carryOut makes the changes in order and stops at the first that is refused.
func (c *endpointsApplyCmd) carryOut(a *app, client *apiClient, steps []step) error {
	for i := range steps {
		s := &steps[i]
		var out endpointForm
		var err error
		switch s.Action {
		case "create":
			err = client.do(a.ctx, "POST", "/v1/endpoints", nil, s.body, &out)
			if _, given := s.body["secret"]; err == nil && !given {
				s.Secret = out.Secret
				if !c.JSON {
					fmt.Fprintf(a.stdout, "created %s, secret (shown once): %s\n", s.ID, out.Secret)
				}
			} else if err == nil && !c.JSON {
				fmt.Fprintf(a.stdout, "created %s\n", s.ID)
			}
		case "update":
			err = client.do(a.ctx, "PATCH", endpointPath(s.ID), nil, s.body, &out)
			if err == nil && !c.JSON {
				fmt.Fprintf(a.stdout, "updated %s\n", s.ID)
			}
		case "delete":
			err = client.do(a.ctx, "DELETE", endpointPath(s.ID), nil, nil, nil)
			if e, ok := errors.AsType[*apiError](err); ok && e.Status == http.StatusNotFound {
				err = nil // gone already
			}
			if err == nil && !c.JSON {
				fmt.Fprintf(a.stdout, "deleted %s\n", s.ID)
			}
		}
		if err != nil {
			return fmt.Errorf("%s %s (%d of %d changes made): %w", s.Action, s.ID, i, len(steps), err)
		}
	}
	return nil
}
