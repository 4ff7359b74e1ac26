package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"text/tabwriter"
)

type endpointsCmd struct {
	Apply   endpointsApplyCmd   `cmd:"" help:"Make the endpoints as a YAML file says; shows the difference, changes with --yes."`
	List    endpointsListCmd    `cmd:"" help:"List endpoints."`
	Get     endpointsGetCmd     `cmd:"" help:"Show one endpoint."`
	Set     endpointsSetCmd     `cmd:"" help:"Change fields of one endpoint."`
	Enable  endpointsEnableCmd  `cmd:"" help:"Let an endpoint's deliveries flow."`
	Disable endpointsDisableCmd `cmd:"" help:"Park an endpoint's deliveries."`
	Rotate  endpointsRotateCmd  `cmd:"" name:"rotate-secret" help:"Make a new signing key; the one before signs too until its grace is over."`
	Test    endpointsTestCmd    `cmd:"" help:"Send an endpoint one signed hookline.test event and say what came of it."`
	Delete  endpointsDeleteCmd  `cmd:"" help:"Delete an endpoint; what waits for it becomes dead letters."`
}

// endpointPath is the resource of one endpoint.
func endpointPath(id string) string { return "/v1/endpoints/" + url.PathEscape(id) }

type endpointsListCmd struct {
	Tenant string `help:"Only this tenant's."`
	JSON   bool   `help:"Print JSON."`
	adminFlags
}

// listAll reads every page.
func listAll(ctx context.Context, c *apiClient, tenant string) ([]*endpointForm, error) {
	out := []*endpointForm{}
	cursor := ""
	for {
		var page struct {
			Items []*endpointForm `json:"items"`
			Next  string          `json:"next"`
		}
		q := url.Values{"limit": {"1000"}}
		if cursor != "" {
			q.Set("cursor", cursor)
		}
		if tenant != "" {
			q.Set("tenant", tenant)
		}
		if err := c.do(ctx, "GET", "/v1/endpoints?"+q.Encode(), nil, nil, &page); err != nil {
			return nil, err
		}
		out = append(out, page.Items...)
		if page.Next == "" {
			return out, nil
		}
		cursor = page.Next
	}
}

func (c *endpointsListCmd) Run(a *app) error {
	client, err := a.adminClient(c.adminFlags)
	if err != nil {
		return err
	}
	list, err := listAll(a.ctx, client, c.Tenant)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a, map[string]any{"items": list})
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tTENANT\tSTATE\tEVENTS\tURL")
	for _, e := range list {
		state := "enabled"
		if !e.Enabled {
			state = "disabled"
		}
		if e.Fault != "" {
			state = "unusable"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", e.ID, e.Tenant, state, strings.Join(e.Events, ","), e.URL)
	}
	return w.Flush()
}

func printJSON(a *app, v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

type endpointsGetCmd struct {
	ID   string `arg:"" help:"Endpoint id."`
	JSON bool   `help:"Print JSON (the default)."`
	adminFlags
}

func (c *endpointsGetCmd) Run(a *app) error {
	return c.request(a, c.adminFlags, "GET", endpointPath(c.ID), nil)
}

// request sends one request about an endpoint and prints the answer.
func (endpointsGetCmd) request(a *app, f adminFlags, method, path string, body any) error {
	client, err := a.adminClient(f)
	if err != nil {
		return err
	}
	var out json.RawMessage
	if err := client.do(a.ctx, method, path, nil, body, &out); err != nil {
		return err
	}
	if out == nil {
		return nil
	}
	return printJSON(a, out)
}

type endpointsSetCmd struct {
	ID     string   `arg:"" help:"Endpoint id."`
	Fields []string `arg:"" help:"FIELD=VALUE: a field of the form (retry.cap=10m, enabled=false, events=[\"a.*\"]); the value is JSON, or a text."`
	JSON   bool     `help:"Print JSON (the default)."`
	adminFlags
}

func (c *endpointsSetCmd) Run(a *app) error {
	patch, err := patchOf(c.Fields)
	if err != nil {
		return err
	}
	return endpointsGetCmd{}.request(a, c.adminFlags, "PATCH", endpointPath(c.ID), patch)
}

// patchOf makes a merge patch of FIELD=VALUE texts; a field may be a path.
func patchOf(fields []string) (map[string]any, error) {
	patch := map[string]any{}
	for _, f := range fields {
		path, text, ok := strings.Cut(f, "=")
		if !ok || path == "" {
			return nil, usagef("%q is not FIELD=VALUE", f)
		}
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			value = text
		}
		at := patch
		names := strings.Split(path, ".")
		for _, name := range names[:len(names)-1] {
			inner, ok := at[name].(map[string]any)
			if !ok {
				inner = map[string]any{}
				at[name] = inner
			}
			at = inner
		}
		at[names[len(names)-1]] = value
	}
	return patch, nil
}

type endpointsEnableCmd struct {
	ID   string `arg:"" help:"Endpoint id."`
	JSON bool   `help:"Print JSON (the default)."`
	adminFlags
}

func (c *endpointsEnableCmd) Run(a *app) error {
	return endpointsGetCmd{}.request(a, c.adminFlags, "POST", endpointPath(c.ID)+"/enable", nil)
}

type endpointsDisableCmd struct {
	ID   string `arg:"" help:"Endpoint id."`
	JSON bool   `help:"Print JSON (the default)."`
	adminFlags
}

func (c *endpointsDisableCmd) Run(a *app) error {
	return endpointsGetCmd{}.request(a, c.adminFlags, "POST", endpointPath(c.ID)+"/disable", nil)
}

type endpointsRotateCmd struct {
	ID    string `arg:"" help:"Endpoint id."`
	Grace string `help:"How long the key before stays valid." default:"24h" placeholder:"DURATION"`
	JSON  bool   `help:"Print JSON (the default)."`
	adminFlags
}

func (c *endpointsRotateCmd) Run(a *app) error {
	return endpointsGetCmd{}.request(a, c.adminFlags, "POST", endpointPath(c.ID)+"/rotate-secret", map[string]any{"grace": c.Grace})
}

type endpointsTestCmd struct {
	ID   string `arg:"" help:"Endpoint id."`
	JSON bool   `help:"Print JSON (the default)."`
	adminFlags
}

// Run fails when the test was made and not delivered.
func (c *endpointsTestCmd) Run(a *app) error {
	client, err := a.adminClient(c.adminFlags)
	if err != nil {
		return err
	}
	var out testForm
	if err := client.do(a.ctx, "POST", endpointPath(c.ID)+"/test", nil, nil, &out); err != nil {
		return err
	}
	if err := printJSON(a, out); err != nil {
		return err
	}
	if !out.Delivered {
		return fmt.Errorf("%s did not take the test event: %s", c.ID, out.Error)
	}
	return nil
}

type endpointsDeleteCmd struct {
	ID string `arg:"" help:"Endpoint id."`
	adminFlags
}

func (c *endpointsDeleteCmd) Run(a *app) error {
	client, err := a.adminClient(c.adminFlags)
	if err != nil {
		return err
	}
	if err := client.do(a.ctx, "DELETE", endpointPath(c.ID), nil, nil, nil); err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.stdout, "deleted "+c.ID)
	return err
}
