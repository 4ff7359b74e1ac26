package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

type eventsCmd struct {
	Publish eventsPublishCmd `cmd:"" help:"Publish one event, or one a line, from a file or stdin."`
	Trace   eventsTraceCmd   `cmd:"" help:"Tell what happened to an event or a message."`
}

type eventsPublishCmd struct {
	File           string `arg:"" optional:"" default:"-" help:"File with an event's JSON, one event a line (NDJSON), or a JSON array of events; - reads stdin." placeholder:"FILE"`
	IdempotencyKey string `help:"Posts with one key answer with one id and are delivered once; of many events, event n has KEY/n." placeholder:"KEY"`
	JSON           bool   `help:"Print JSON."`
	ingestFlags
}

// accepted is the answer of a publish.
type accepted struct {
	ID        string `json:"id"`
	MessageID string `json:"message_id"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// maxPublish is above every body limit; the server decides.
const maxPublish = 64 << 20

func (c *eventsPublishCmd) Run(a *app) error {
	in := a.stdin
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return fmt.Errorf("read event: %w", err)
		}
		defer f.Close() //nolint:errcheck // only read
		in = f
	}
	body, err := io.ReadAll(io.LimitReader(in, maxPublish+1))
	if err != nil {
		return fmt.Errorf("read event: %w", err)
	}
	if len(body) > maxPublish {
		return usagef("the input is over %d MiB; publish it in parts", maxPublish>>20)
	}
	if len(body) == 0 {
		return usagef("the event is empty; give a file or pipe its JSON in")
	}
	client, err := a.ingestClient(c.ingestFlags)
	if err != nil {
		return err
	}
	if contentType, many := batchInput(body); many {
		return c.publishMany(a, client, contentType, body)
	}
	header := http.Header{}
	if c.IdempotencyKey != "" {
		header.Set("Idempotency-Key", c.IdempotencyKey)
	}
	var out accepted
	// The bytes as they are: the body is delivered as it was given.
	if err := client.do(a.ctx, "POST", "/v1/events", header, body, &out); err != nil {
		if e, ok := errors.AsType[*apiError](err); ok && e.Code == "unknown_outcome" && c.IdempotencyKey == "" {
			return fmt.Errorf("%w; it may have been accepted, and without --idempotency-key sending again may deliver it twice", err)
		}
		return err
	}
	if c.JSON {
		return printJSON(a, out)
	}
	_, err = fmt.Fprintf(a.stdout, "%s message_id=%s partition=%d offset=%d\n", out.ID, out.MessageID, out.Partition, out.Offset)
	return err
}
