package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hookline/hookline/analytics/report"
)

type reportCmd struct {
	Name      string `arg:"" help:"Which report; see below." placeholder:"NAME"`
	Since     string `help:"Not before: RFC 3339, or a duration back such as 15m, 24h or 7d." placeholder:"TIME"`
	Until     string `help:"Before: RFC 3339, or a duration back." placeholder:"TIME"`
	Tenant    string `help:"Only this tenant's." placeholder:"TENANT"`
	Endpoint  string `help:"Only this endpoint's." placeholder:"ID"`
	Type      string `help:"Only this event type." placeholder:"TYPE"`
	EventID   string `help:"Only this event (trace)." placeholder:"ID"`
	MessageID string `help:"Only this message id (trace)." placeholder:"ID"`
	Step      string `help:"Width of a point in time (latency, queue-wait)." placeholder:"DURATION"`
	Limit     string `help:"At most so many rows; the most is 100000." placeholder:"N"`
	Format    string `help:"table, json, csv, or sql: the query with its parameters, without asking it." default:"table" enum:"table,json,csv,sql" placeholder:"FORMAT"`
	JSON      bool   `help:"The same as --format json."`
	adminFlags
}

// Help lists the reports.
func (c *reportCmd) Help() string {
	var b strings.Builder
	b.WriteString("Reports:\n\n")
	for _, name := range report.Names() {
		fmt.Fprintf(&b, "  %-13s %s\n", name, report.Help(name))
	}
	return b.String()
}

func (c *reportCmd) query() url.Values {
	q := url.Values{}
	for name, v := range map[string]string{
		"since": c.Since, "until": c.Until, "tenant": c.Tenant, "endpoint": c.Endpoint, "type": c.Type, "event_id": c.EventID,
		"message_id": c.MessageID, "step": c.Step, "limit": c.Limit, "format": c.Format,
	} {
		if v != "" {
			q.Set(name, v)
		}
	}
	return q
}

func (c *reportCmd) Run(a *app) error {
	if c.JSON {
		c.Format = string(report.JSON)
	}
	if !slices.Contains(report.Names(), c.Name) {
		return usagef("there is no report %q; the reports are %s", c.Name, strings.Join(report.Names(), ", "))
	}
	if _, err := report.Parse(c.Name, c.query(), time.Now()); err != nil {
		return usageError{err}
	}
	client, err := a.adminClient(c.adminFlags)
	if err != nil {
		return err
	}
	var out rawAnswer
	if err := client.do(a.ctx, "GET", "/v1/reports/"+c.Name+"?"+c.query().Encode(), nil, nil, &out); err != nil {
		return err
	}
	if c.Format == string(report.JSON) {
		return printJSON(a, json.RawMessage(out))
	}
	_, err = a.stdout.Write(out)
	return err
}

type eventsTraceCmd struct {
	EventID   string `arg:"" optional:"" help:"Id of the event, as its publish answered it." placeholder:"EVENT_ID"`
	MessageID string `help:"All events of this message id instead." placeholder:"ID"`
	Tenant    string `help:"Only this tenant's." placeholder:"TENANT"`
	JSON      bool   `help:"Print JSON."`
	adminFlags
}

// traced is what a trace tells, and its JSON.
type traced struct {
	deliveryPage
	Attempts json.RawMessage `json:"attempts"`
}

func (c *eventsTraceCmd) Run(a *app) error {
	if (c.EventID == "") == (c.MessageID == "") {
		return usagef("name one event, or --message-id ID")
	}
	q := url.Values{}
	for name, v := range map[string]string{"event_id": c.EventID, "message_id": c.MessageID, "tenant": c.Tenant} {
		if v != "" {
			q.Set(name, v)
		}
	}
	if _, err := parseSubject(q.Encode()); err != nil {
		if e, ok := errors.AsType[*apiError](err); ok {
			return usagef("%s", e.Detail)
		}
		return err
	}
	client, err := a.adminClient(c.adminFlags)
	if err != nil {
		return err
	}
	var t traced
	if err := client.do(a.ctx, "GET", "/v1/deliveries?"+q.Encode(), nil, nil, &t.deliveryPage); err != nil {
		return err
	}
	var rows struct {
		Rows      json.RawMessage `json:"rows"`
		Truncated bool            `json:"truncated"`
	}
	if err := client.do(a.ctx, "GET", "/v1/reports/trace?"+q.Encode(), nil, nil, &rows); err != nil {
		return err
	}
	t.Attempts, t.Truncated = rows.Rows, t.Truncated || rows.Truncated
	if len(t.Events) == 0 {
		return fmt.Errorf("nothing is known of it %s; an event shows here seconds after its publish", asOfText(t.AsOf, t.Lag))
	}
	if c.JSON {
		return printJSON(a, t)
	}
	return t.tell(a.stdout)
}

func asOfText(at time.Time, lag *float64) string {
	text := "as of " + at.UTC().Format(time.RFC3339)
	if lag == nil {
		return text + ", with an unknown lag"
	}
	return fmt.Sprintf("%s, with ClickHouse %.4g s behind", text, *lag)
}
