package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"
)

// happening is one row of the report trace, as a story needs it.
type happening struct {
	AttemptedAt time.Time  `json:"attempted_at"`
	EventID     string     `json:"event_id"`
	EndpointID  string     `json:"endpoint_id"`
	Attempt     int        `json:"attempt"`
	Outcome     string     `json:"outcome"`
	StatusCode  int        `json:"status_code"`
	ErrorClass  string     `json:"error_class"`
	Trigger     string     `json:"trigger"`
	QueueWaitUs int64      `json:"queue_wait_us"`
	TotalUs     int64      `json:"total_us"`
	NextRetryAt *time.Time `json:"next_retry_at"`
}

// tell prints one paragraph for each event: what it is, then all that happened, in time.
func (t *traced) tell(w io.Writer) error {
	var steps []happening
	if err := json.Unmarshal(t.Attempts, &steps); err != nil {
		return fmt.Errorf("read the attempts of the answer: %w", err)
	}
	byEvent := map[string][]happening{}
	for _, s := range steps {
		byEvent[s.EventID] = append(byEvent[s.EventID], s)
	}
	for i := range t.Events {
		e := &t.Events[i]
		fmt.Fprintf(w, "%s %s  %s  message_id=%s tenant=%s\n", e.ID, e.State, e.Event, e.MessageID, e.Tenant)
		if err := e.tell(w, byEvent[e.ID]); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	more := ""
	if t.Truncated {
		more = "; there is more: trace one event, or narrow report trace by time"
	}
	_, err := fmt.Fprintf(w, "%s%s\n", asOfText(t.AsOf, t.Lag), more)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func (e *eventState) tell(w io.Writer, steps []happening) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "  TIME\tAFTER\tENDPOINT\tATTEMPT\tOUTCOME\tSTATUS\tERROR\tWAITED\tTOOK\tNEXT")
	var start time.Time
	if e.AcceptedAt != nil {
		start = *e.AcceptedAt
		fmt.Fprintf(out, "  %s\t0s\t-\t-\taccepted\t-\t-\t-\t-\t-\n", start.UTC().Format(clockForm))
	}
	for i := range steps {
		s := &steps[i]
		after, next, attempt, took := "-", "-", "-", "-"
		if !start.IsZero() {
			after = s.AttemptedAt.Sub(start).String()
		}
		if s.NextRetryAt != nil {
			next = "in " + s.NextRetryAt.Sub(s.AttemptedAt).String()
		}
		if s.Attempt > 0 && s.Outcome != "parked" {
			attempt, took = strconv.Itoa(s.Attempt), micros(s.TotalUs)
		}
		outcome := s.Outcome
		if s.Trigger != "auto" && s.Trigger != "" {
			outcome += " (" + s.Trigger + ")"
		}
		fmt.Fprintf(out, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.AttemptedAt.UTC().Format(clockForm), after, orDefault(s.EndpointID, "-"), attempt, outcome,
			number(s.StatusCode), orDefault(s.ErrorClass, "-"), micros(s.QueueWaitUs), took, next)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

const clockForm = "2006-01-02T15:04:05.000Z"

func micros(us int64) string { return strconv.FormatFloat(float64(us)/1e3, 'f', -1, 64) + "ms" }

func number(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}
