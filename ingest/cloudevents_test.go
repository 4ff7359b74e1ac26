package ingest

import (
	"strings"
	"testing"
	"time"

	"github.com/hookline/hookline/ingest/event"
)

const (
	cloudType = "application/cloudevents+json"
	cloudData = `{
    "message": "Hello World!"
}`
	cloudBody = `{
    "specversion": "1.0",
    "type": "com.example.someevent",
    "time": "2018-04-05T03:56:24Z",
    "id": "1234-1234-1234",
    "source": "/mycontext/subcontext",
    "subject": "sub-1",
    "datacontenttype": "application/json",
    "data": {
        "message": "Hello World!"
    }
}`
)

// cloud posts a CloudEvent in binary mode; headers are pairs that replace its attributes.
func (r *room) cloud(contentType, data string, headers ...string) answer {
	r.t.Helper()
	all := []string{"Content-Type", "", "ce-specversion", "1.0", "ce-type", "com.example.someevent", "ce-time", "2018-04-05T03:56:24Z",
		"ce-id", "1234-1234-1234", "ce-source", "/mycontext/subcontext", "ce-subject", "sub-1"}
	if contentType != "" {
		all = append(all, "Content-Type", contentType)
	}
	for i := 0; i < len(headers); i += 2 {
		all = append(all, headers[i], "")
		if headers[i+1] != "" {
			all = append(all, headers[i], headers[i+1])
		}
	}
	a := r.post(data, all...)
	documented(r.t, PathEvents, a)
	return a
}

func (r *room) structured(contentType, body string, headers ...string) answer {
	r.t.Helper()
	a := r.post(body, append([]string{"Content-Type", "", "Content-Type", contentType}, headers...)...)
	documented(r.t, PathEvents, a)
	return a
}

// The requests of the CloudEvents conformance suite for the HTTP binding, with a subject.
func TestCloudEventsAreInTheLogAsTheyWereSent(t *testing.T) {
	r, b := start(t)
	id := event.DeriveCloudID("dev", "com.example.someevent", "sub-1", "/mycontext/subcontext", "1234-1234-1234")
	for name, c := range map[string]struct {
		a                 answer
		body, contentType string
	}{
		"binary":              {r.cloud("application/json", cloudData), cloudData, "application/json"},
		"binary, charset":     {r.cloud("application/json; charset=utf-8", cloudData), cloudData, "application/json; charset=utf-8"},
		"binary, no type":     {r.cloud("", cloudData), cloudData, "application/json"},
		"binary, JSON scalar": {r.cloud("application/json", " 7 "), " 7 ", "application/json"},
		"binary, text":        {r.cloud("text/plain; charset=iso-8859-1", "caf\xe9"), "caf\xe9", "text/plain; charset=iso-8859-1"},
		"binary, XML":         {r.cloud("application/xml", "<a/>"), "<a/>", "application/xml"},
		"structured":          {r.structured(cloudType, cloudBody), cloudBody, cloudType},
		"structured, charset": {r.structured(cloudType+"; charset=UTF-8", cloudBody), cloudBody, cloudType + "; charset=UTF-8"},
		"structured, headers": {r.structured(cloudType, cloudBody, "ce-specversion", "0.3", "ce-id", "other"), cloudBody, cloudType},
		"compressed":          {r.structured(cloudType, string(gzipOf(t, cloudBody)), "Content-Encoding", "gzip"), cloudBody, cloudType},
	} {
		if c.a.status != 202 || c.a.ID != id || c.a.MessageID != "sub-1" {
			t.Errorf("%s: %s, want id %s", name, c.a, id)
			continue
		}
		rec := fetch(t, b, c.a.Partition, c.a.Offset)
		e, err := event.Decode(rec)
		if err != nil || string(rec.Value) != c.body || e.ContentType != c.contentType {
			t.Errorf("%s: %q as %s, %v", name, rec.Value, e.ContentType, err)
		}
		if e.ID != id || e.Type != "com.example.someevent" || e.MessageID != "sub-1" || e.Tenant != "dev" || e.Source != "/mycontext/subcontext" ||
			!e.OccurredAt.Equal(time.Date(2018, 4, 5, 3, 56, 24, 0, time.UTC)) || e.Sequence != -1 || e.Schema != "1" || e.Origin != "" {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestCloudAttributesOfTheHeaders(t *testing.T) {
	r, b := start(t)
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	const other = "00-11111111111111111111111111111111-2222222222222222-01"
	a := r.cloud("application/json", cloudData, "ce-id", "Euro%20%E2%82%AC", "CE-Subject", "%61b%25", "ce-sequence", "00017", "ce-schemaversion", "4", "ce-traceparent", trace, "ce-time", "")
	if want := event.DeriveCloudID("dev", "com.example.someevent", "ab%", "/mycontext/subcontext", "Euro \u20ac"); a.status != 202 || a.ID != want || a.MessageID != "ab%" {
		t.Fatalf("%s, want id %s", a, want)
	}
	e, err := event.Decode(fetch(t, b, a.Partition, a.Offset))
	if err != nil || e.Sequence != 17 || e.Schema != "4" || e.Traceparent != trace || !e.OccurredAt.IsZero() {
		t.Errorf("%+v, %v", e, err)
	}
	a = r.cloud("application/json", cloudData, "ce-traceparent", trace, "traceparent", other)
	if e, err = event.Decode(fetch(t, b, a.Partition, a.Offset)); err != nil || e.Traceparent != other {
		t.Errorf("the header of the request goes before the extension: %+v, %v", e, err)
	}
}

// source and id together are the key; a header that says otherwise takes their place.
func TestCloudIdempotency(t *testing.T) {
	r, _ := start(t)
	first := r.cloud("application/json", cloudData)
	for name, c := range map[string]struct {
		a    answer
		same bool
	}{
		"again":           {r.cloud("application/json", cloudData), true},
		"structured":      {r.structured(cloudType, cloudBody), true},
		"another id":      {r.cloud("application/json", cloudData, "ce-id", "5"), false},
		"another source":  {r.cloud("application/json", cloudData, "ce-source", "/other"), false},
		"moved character": {r.cloud("application/json", cloudData, "ce-source", "/mycontext/subcontext1", "ce-id", "234-1234-1234"), false},
		"another tenant":  {r.cloud("application/json", cloudData, "Authorization", "Bearer other"), false},
	} {
		if c.a.status != 202 || (c.a.ID == first.ID) != c.same || event.IsRandomID(c.a.ID) {
			t.Errorf("%s: %s, first %s", name, c.a, first)
		}
	}
	want := event.DeriveID("dev", "com.example.someevent", "sub-1", "k")
	if a := r.cloud("application/json", cloudData, "Idempotency-Key", "k"); a.ID != want {
		t.Errorf("with a key of its own: %s, want %s", a, want)
	}
	if a := r.structured(cloudType, cloudBody, "Idempotency-Key", "k"); a.ID != want {
		t.Errorf("with a key of its own: %s, want %s", a, want)
	}
}

func TestCloudErrors(t *testing.T) {
	r, _ := start(t, func(c *Config) { c.MaxBody = 1000 })
	without := func(member string) string { return strings.Replace(cloudBody, `"`+member+`"`, `"x`+member+`"`, 1) }
	for name, c := range map[string]struct {
		a           answer
		status      int
		code, field string
	}{
		"no version":           {r.cloud("application/json", cloudData, "ce-specversion", ""), 400, "missing_field", "ce-specversion"},
		"other version":        {r.cloud("application/json", cloudData, "ce-specversion", "0.3"), 400, "invalid_field", "ce-specversion"},
		"no id":                {r.cloud("application/json", cloudData, "ce-id", ""), 400, "missing_field", "ce-id"},
		"no type":              {r.cloud("application/json", cloudData, "ce-type", ""), 400, "missing_field", "ce-type"},
		"no source":            {r.cloud("application/json", cloudData, "ce-source", ""), 400, "missing_field", "ce-source"},
		"no subject":           {r.cloud("application/json", cloudData, "ce-subject", ""), 400, "missing_field", "ce-subject"},
		"type with a slash":    {r.cloud("application/json", cloudData, "ce-type", "a/b"), 400, "invalid_field", "ce-type"},
		"subject with a blank": {r.cloud("application/json", cloudData, "ce-subject", "a%20b"), 400, "invalid_field", "ce-subject"},
		"overlong UTF-8":       {r.cloud("application/json", cloudData, "ce-id", "%C0%A0"), 400, "invalid_field", "ce-id"},
		"broken percent":       {r.cloud("application/json", cloudData, "ce-id", "100%"), 400, "invalid_field", "ce-id"},
		"bad time":             {r.cloud("application/json", cloudData, "ce-time", "now"), 400, "invalid_field", "ce-time"},
		"no data":              {r.cloud("application/json", ""), 400, "empty_body", ""},
		"data is no JSON":      {r.cloud("application/json", "{"), 400, "invalid_json", ""},
		"data is no +json":     {r.cloud("application/vnd.acme+json", "{"), 400, "invalid_json", ""},
		"data is not UTF-8":    {r.cloud("application/json", "\"\xff\""), 400, "invalid_json", ""},
		"data too large":       {r.cloud("text/plain", strings.Repeat("x", 1001)), 413, "too_large", ""},
		"latin JSON":           {r.cloud("application/json; charset=latin1", cloudData), 415, "unsupported_media_type", "Content-Type"},
		"no media type":        {r.cloud("nonsense;;", cloudData), 415, "unsupported_media_type", "Content-Type"},
		"long media type":      {r.cloud("text/plain; x="+strings.Repeat("x", 250), cloudData), 415, "unsupported_media_type", "Content-Type"},
		"batch format":         {r.structured("application/cloudevents-batch+json", "["+cloudBody+"]"), 415, "unsupported_media_type", "Content-Type"},
		"other format":         {r.structured("application/cloudevents+protobuf", "x"), 415, "unsupported_media_type", "Content-Type"},
		"latin envelope":       {r.structured(cloudType+"; charset=latin1", cloudBody), 415, "unsupported_media_type", "Content-Type"},
		"envelope, no id":      {r.structured(cloudType, without("id")), 400, "missing_field", "id"},
		"envelope, no subject": {r.structured(cloudType, without("subject")), 400, "missing_field", "subject"},
		"envelope, bad type":   {r.structured(cloudType, strings.Replace(cloudBody, "com.example", "com/example", 1)), 400, "invalid_field", "type"},
		"envelope, no JSON":    {r.structured(cloudType, cloudBody+"x"), 400, "invalid_json", ""},
		"envelope, empty":      {r.structured(cloudType, ""), 400, "empty_body", ""},
	} {
		if c.a.status != c.status || c.a.Code != c.code || c.a.Field != c.field {
			t.Errorf("%s: %s", name, c.a)
		}
	}
	twice := r.post(cloudData, "ce-specversion", "1.0", "ce-id", "1", "ce-id", "1", "ce-source", "/s", "ce-type", "a", "ce-subject", "m")
	if twice.status != 400 || twice.Code != "invalid_field" || twice.Field != "ce-id" {
		t.Errorf("an attribute twice: %s", twice)
	}
}

func TestCloudEventsBatch(t *testing.T) {
	r, b := start(t)
	one := strings.ReplaceAll(cloudBody, "\n", "")
	bad := strings.Replace(one, `"id"`, `"di"`, 1)
	a := r.batch(cloudArray, "[ "+one+",\n"+bad+", "+strings.Replace(one, "sub-1", "sub-2", 1)+" ]")
	if a.status != 207 || a.Accepted != 2 || a.Items[1].Code != "missing_field" || a.Items[1].Field != "id" {
		t.Fatal(a)
	}
	if want := r.structured(cloudType, one).ID; a.Items[0].ID != want {
		t.Errorf("id %s, want %s as by itself", a.Items[0].ID, want)
	}
	if a := r.batch(cloudArray, "["+one+"]", "Idempotency-Key", "k"); a.Items[0].ID != event.DeriveID("dev", "com.example.someevent", "sub-1", "k/0") {
		t.Errorf("with a key: %s", a)
	}
	rec := logged(t, b, 4)[a.Items[0].ID]
	if e, err := event.Decode(rec); err != nil || string(rec.Value) != one || e.ContentType != cloudType || e.Source != "/mycontext/subcontext" {
		t.Errorf("%+v, %v", e, err)
	}
}
