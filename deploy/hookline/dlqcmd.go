package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/hookline/hookline/retrytiers/tier"
)

type dlqCmd struct {
	List dlqListCmd `cmd:"" help:"List dead letters, newest first."`
	Show dlqShowCmd `cmd:"" help:"Show one dead letter with headers and body."`
}

type dlqListCmd struct {
	Endpoint  string `help:"Only this endpoint's." placeholder:"ID"`
	Tenant    string `help:"Only this tenant's." placeholder:"TENANT"`
	Type      string `help:"Only this event type." placeholder:"TYPE"`
	Reason    string `help:"Only this reason." placeholder:"REASON"`
	Status    int    `help:"Only this last HTTP status." placeholder:"STATUS"`
	Since     string `help:"Not before: RFC 3339, or a duration back such as 15m." placeholder:"TIME"`
	Until     string `help:"Before: RFC 3339, or a duration back." placeholder:"TIME"`
	EventID   string `help:"Only this event." placeholder:"ID"`
	MessageID string `help:"Only this message id." placeholder:"ID"`
	Limit     int    `help:"At most so many; 0 = all." default:"100"`
	JSON      bool   `help:"Print JSON."`
	adminFlags
}

func (c *dlqListCmd) query() url.Values {
	q := url.Values{}
	for name, v := range map[string]string{
		"endpoint": c.Endpoint, "tenant": c.Tenant, "type": c.Type, "reason": c.Reason, "since": c.Since, "until": c.Until,
		"event_id": c.EventID, "message_id": c.MessageID,
	} {
		if v != "" {
			q.Set(name, v)
		}
	}
	if c.Status != 0 {
		q.Set("status", strconv.Itoa(c.Status))
	}
	return q
}

func (c *dlqListCmd) Run(a *app) error {
	client, err := a.adminClient(c.adminFlags)
	if err != nil {
		return err
	}
	q := c.query()
	items := []*tier.DeadLetter{}
	scanned := 0
	progress := newProgress(a)
	defer progress.clear()
	for c.Limit == 0 || len(items) < c.Limit {
		q.Set("limit", strconv.Itoa(pageLimit(c.Limit-len(items), c.Limit == 0)))
		var page deadPage
		if err := client.do(a.ctx, "GET", "/v1/dead-letters?"+q.Encode(), nil, nil, &page); err != nil {
			return err
		}
		items = append(items, page.Items...)
		scanned += page.Scanned
		progress.show("%d found, %d records read", len(items), scanned)
		if page.Next == "" {
			break
		}
		q.Set("cursor", page.Next)
	}
	progress.clear()
	if c.JSON {
		return printJSON(a, map[string]any{"items": items})
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DEAD AT\tP/O\tENDPOINT\tREASON\tATTEMPTS\tSTATUS\tTYPE\tMESSAGE\tEVENT\tERROR")
	for _, d := range items {
		fmt.Fprintf(w, "%s\t%d/%d\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", d.DeadAt.Format(time.RFC3339), d.Partition, d.Offset,
			orDefault(d.EndpointID, "-"), d.Reason, d.Attempts, d.LastStatus, d.EventType, d.MessageID, d.EventID, d.LastError)
	}
	return w.Flush()
}

func pageLimit(left int, all bool) int {
	if all || left > maxPage {
		return maxPage
	}
	return left
}

type dlqShowCmd struct {
	Position string `arg:"" help:"PARTITION/OFFSET, as the list shows it." placeholder:"P/O"`
	JSON     bool   `help:"Print JSON (the default)."`
	adminFlags
}

func (c *dlqShowCmd) Run(a *app) error {
	partition, offset, ok := strings.Cut(c.Position, "/")
	_, perr := strconv.ParseInt(partition, 10, 32)
	_, oerr := strconv.ParseInt(offset, 10, 64)
	if !ok || perr != nil || oerr != nil {
		return usagef("%q is not PARTITION/OFFSET, such as 3/42", c.Position)
	}
	client, err := a.adminClient(c.adminFlags)
	if err != nil {
		return err
	}
	var out json.RawMessage
	if err := client.do(a.ctx, "GET", "/v1/dead-letters/"+partition+"/"+offset, nil, nil, &out); err != nil {
		return err
	}
	return printJSON(a, out)
}

// progress is one line on a terminal that is written over; in a pipe it stays quiet.
type progress struct {
	a    *app
	on   bool
	used bool
}

func newProgress(a *app) *progress {
	f, ok := a.stderr.(*os.File)
	if !ok {
		return &progress{}
	}
	info, err := f.Stat()
	return &progress{a: a, on: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

func (p *progress) show(format string, args ...any) {
	if p.on {
		p.used = true
		fmt.Fprintf(p.a.stderr, "\r\033[K"+format, args...)
	}
}

func (p *progress) clear() {
	if p.used {
		p.used = false
		fmt.Fprint(p.a.stderr, "\r\033[K")
	}
}
