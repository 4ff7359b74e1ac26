package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// The limits of a batch, as the ingest listener has them.
const (
	batchEvents = 1000
	batchBytes  = 4 << 20
)

// batchAnswer is the answer for a batch, or for several that were one input.
type batchAnswer struct {
	Accepted int         `json:"accepted"`
	Rejected int         `json:"rejected"`
	Items    []batchItem `json:"items"`
}

type batchItem struct {
	Index  int    `json:"index"`
	Status int    `json:"status"`
	ID     string `json:"id,omitempty"`
	Code   string `json:"code,omitempty"`
	Field  string `json:"field,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// batchInput says whether an input is many events: a JSON array, or lines of which the first is
// a JSON value by itself. One event may well be written over several lines.
func batchInput(body []byte) (contentType string, many bool) {
	trimmed := bytes.TrimSpace(body)
	if json.Valid(trimmed) {
		return "application/json", trimmed[0] == '['
	}
	first, rest, _ := bytes.Cut(trimmed, []byte("\n"))
	return "application/x-ndjson", len(bytes.TrimSpace(rest)) > 0 && json.Valid(first)
}

// chunks cuts NDJSON into batches of so many events and bytes. A line that is too long by itself
// is sent by itself, and refused by the listener.
func chunks(body []byte, events, size int) [][]byte {
	var out [][]byte
	start, lines := 0, 0
	for at := 0; at < len(body); {
		end := len(body)
		if i := bytes.IndexByte(body[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		blank := len(bytes.TrimSpace(body[at:end])) == 0
		if !blank && lines > 0 && (lines == events || end-start > size) {
			out, start, lines = append(out, body[start:at]), at, 0
		}
		if !blank {
			lines++
		}
		at = end
	}
	if lines > 0 {
		out = append(out, body[start:])
	}
	return out
}

// publishMany sends the events of an input in as few requests as the listener allows, in order.
func (c *eventsPublishCmd) publishMany(a *app, client *apiClient, contentType string, body []byte) error {
	parts := [][]byte{body}
	if contentType == "application/x-ndjson" {
		parts = chunks(body, batchEvents, batchBytes)
	}
	var all batchAnswer
	for _, part := range parts {
		header := http.Header{"Content-Type": {contentType}}
		if key := c.IdempotencyKey; key != "" {
			// The listener counts the events of each request from 0. The first one's keys are
			// those of the same input in one request; later ones have the place where they begin.
			if len(all.Items) > 0 {
				key += "/" + strconv.Itoa(len(all.Items))
			}
			header.Set("Idempotency-Key", key)
		}
		var out batchAnswer
		if err := client.do(a.ctx, "POST", "/v1/events/batch", header, part, &out); err != nil {
			return errors.Join(all.print(a, c.JSON), c.afterSome(all.Accepted, err))
		}
		for _, item := range out.Items {
			item.Index = len(all.Items)
			all.Items = append(all.Items, item)
		}
		all.Accepted, all.Rejected = all.Accepted+out.Accepted, all.Rejected+out.Rejected
	}
	if err := all.print(a, c.JSON); err != nil {
		return err
	}
	if all.Rejected > 0 {
		return fmt.Errorf("%d of %d events were not accepted; see above", all.Rejected, len(all.Items))
	}
	return nil
}

// afterSome says what a failure in the middle of an input means for what went before.
func (c *eventsPublishCmd) afterSome(accepted int, err error) error {
	switch {
	case accepted == 0:
		return err
	case c.IdempotencyKey == "":
		return fmt.Errorf("%w; %d events before that were accepted, send only the others again", err, accepted)
	}
	return fmt.Errorf("%w; %d events before that were accepted, sending all again with the same --idempotency-key is safe", err, accepted)
}

// print writes a line for each event that was accepted, and one to stderr for each that was not.
func (b *batchAnswer) print(a *app, asJSON bool) error {
	if len(b.Items) == 0 {
		return nil
	}
	if asJSON {
		return printJSON(a, b)
	}
	var out, errOut bytes.Buffer
	for _, item := range b.Items {
		if item.Status == http.StatusAccepted {
			fmt.Fprintf(&out, "%s index=%d\n", item.ID, item.Index)
		} else {
			fmt.Fprintf(&errOut, "event %d: %d %s: %s\n", item.Index, item.Status, item.Code, item.Detail)
		}
	}
	if _, err := a.stderr.Write(errOut.Bytes()); err != nil {
		return fmt.Errorf("write errors: %w", err)
	}
	_, err := a.stdout.Write(out.Bytes())
	return err
}
