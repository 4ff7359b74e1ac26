package ingest

import (
	"errors"

	"github.com/valyala/fasthttp"

	"github.com/hookline/hookline/ingest/event"
)

// cloudEvent fills in e from the envelope of a CloudEvent, in the body or in the headers. The
// body stays as it was sent, and so does its content type.
func (a *admission) cloudEvent(h *fasthttp.RequestHeader, e *event.Event) *problem {
	var c event.CloudEvent
	var err error
	if a.form == formStructured {
		c, err = event.ParseCloudEvent(e.Body)
	} else {
		c, err = binaryCloudEvent(h, e)
	}
	if err != nil {
		return badBody(err)
	}
	a.cloud(&c, e, string(a.idempotencyKey))
	return nil
}

// binaryCloudEvent reads the attributes from the headers. Data that claims to be JSON is
// checked, any other is what its producer and its receiver agreed on.
func binaryCloudEvent(h *fasthttp.RequestHeader, e *event.Event) (event.CloudEvent, error) {
	c, err := event.CloudHeaders(func(name string) ([]byte, bool) { return single(h, name) })
	if err != nil {
		return c, err
	}
	if media, _, ok := mediaType([]byte(e.ContentType)); ok && isJSON(media) {
		return c, event.CheckJSON(e.Body)
	}
	return c, nil
}

// cloud puts a CloudEvent's attributes into e. Its source and id are the idempotency key unless
// the request names one: whoever sets that header wants it to count.
func (a *admission) cloud(c *event.CloudEvent, e *event.Event, key string) {
	e.Type, e.MessageID, e.Source, e.OccurredAt, e.Sequence, e.Schema = c.Type, c.Subject, c.Source, c.Time, c.Sequence, c.Schema
	if e.Traceparent == "" {
		e.Traceparent = c.Traceparent
	}
	if key == "" {
		e.ID = event.DeriveCloudID(e.Tenant, e.Type, e.MessageID, c.Source, c.ID)
	} else {
		e.ID = event.DeriveID(e.Tenant, e.Type, e.MessageID, key)
	}
}

// badBody is the answer for a body or a header that event refused.
func badBody(err error) *problem {
	var field *event.FieldError
	if !errors.As(err, &field) {
		panic("BUG: error of a body is no FieldError: " + err.Error())
	}
	return &problem{status: fasthttp.StatusBadRequest, code: field.Code, field: field.Field, detail: field.Detail}
}
