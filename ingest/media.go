package ingest

import (
	"mime"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/hookline/hookline/ingest/event"
)

// form is how a request's body holds its events.
type form uint8

const (
	formJSON       form = iota // one event of our own form
	formStructured             // one CloudEvent, the envelope is the body
	formBinary                 // one CloudEvent, the envelope is in ce-* headers
	formLines                  // a batch, one event of our own form a line
	formArray                  // a batch, a JSON array of them
	formCloudArray             // a batch, a JSON array of structured CloudEvents
)

const (
	utf8ContentType  = "application/json; charset=utf-8"
	mediaCloudEvent  = "application/cloudevents+json"
	mediaCloudEvents = "application/cloudevents-batch+json"
	mediaLines       = "application/x-ndjson"
	mediaLinesShort  = "application/ndjson"
)

// oneForm reads the form of a publish and what is delivered as its content type.
func oneForm(h *fasthttp.RequestHeader) (form, string, *problem) {
	header := h.ContentType()
	binary := isCloudEvent(h)
	if !binary {
		switch string(header) {
		case event.DefaultContentType:
			return formJSON, event.DefaultContentType, nil
		case utf8ContentType:
			return formJSON, utf8ContentType, nil
		}
	}
	media, charset, ok := mediaType(header)
	switch {
	case ok && media == mediaCloudEvent && isUTF8(charset):
		return formStructured, string(header), nil
	case strings.HasPrefix(media, "application/cloudevents"):
		return 0, "", errCloudMedia
	case binary && len(header) == 0:
		return formBinary, event.DefaultContentType, nil
	case binary && ok && (isUTF8(charset) || !isJSON(media)):
		return formBinary, string(header), nil
	case binary:
		return 0, "", errCloudData
	case ok && media == event.DefaultContentType && isUTF8(charset):
		return formJSON, string(header), nil
	}
	return 0, "", errMediaType
}

// manyForm reads the form of a batch and the content type of each of its events.
func manyForm(h *fasthttp.RequestHeader) (form, string, *problem) {
	media, charset, ok := mediaType(h.ContentType())
	if !ok || !isUTF8(charset) {
		return 0, "", errBatchMedia
	}
	switch media {
	case mediaLines, mediaLinesShort:
		return formLines, event.DefaultContentType, nil
	case event.DefaultContentType:
		return formArray, event.DefaultContentType, nil
	case mediaCloudEvents:
		return formCloudArray, mediaCloudEvent, nil
	}
	return 0, "", errBatchMedia
}

// isCloudEvent says whether a request carries the envelope of a CloudEvent in its headers.
// One without a version is meant to be one too, and is told what it lacks.
func isCloudEvent(h *fasthttp.RequestHeader) bool {
	return h.Peek("Ce-Specversion") != nil || h.Peek("Ce-Id") != nil
}

// mediaType returns the media type of a Content-Type header in lower case and its charset,
// and false for a header that could not be sent on as it is.
func mediaType(header []byte) (media, charset string, ok bool) {
	if len(header) == 0 || len(header) > event.MaxContentType {
		return "", "", false
	}
	for _, c := range header {
		if c < ' ' || c > '~' {
			return "", "", false
		}
	}
	switch string(header) { // ParseMediaType makes a map
	case event.DefaultContentType, mediaLines, mediaCloudEvent:
		return string(header), "", true
	}
	media, params, err := mime.ParseMediaType(string(header))
	return media, params["charset"], err == nil
}

// isUTF8 says whether a charset parameter, "" for none, is the one of JSON.
func isUTF8(charset string) bool { return charset == "" || strings.EqualFold(charset, "utf-8") }

func isJSON(media string) bool {
	return media == event.DefaultContentType || strings.HasSuffix(media, "+json")
}
