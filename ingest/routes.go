package ingest

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// Paths where producers publish.
const (
	PathEvents = "/v1/events"
	PathBatch  = "/v1/events/batch"
)

// operation is one method of a path.
type operation struct {
	serve func(*fasthttp.RequestCtx)
	// door is what the headers alone say, for a request whose body is not there: it was too
	// large, or its sender waits for a word. nil takes any.
	door func(*fasthttp.RequestCtx) *problem
}

// route is one path: its operations by method.
type route map[string]operation

// allow is the Allow header of a 405.
func (r route) allow() string {
	methods := make([]string, 0, len(r))
	for m := range r {
		methods = append(methods, m)
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}

// routeTable are all paths, under the names that they have in the OpenAPI document. A name that
// ends in "/{...}" is any path with one more segment after that slash; an exact path goes first.
type routeTable map[string]route

// table is the whole of it: nothing else is answered.
func (s *Server) table() routeTable {
	read := func(fn func(*fasthttp.RequestCtx)) route { return route{"GET": {serve: fn}, "HEAD": {serve: fn}} }
	post := func(fn func(*fasthttp.RequestCtx), door func(*fasthttp.RequestCtx) (admission, *problem)) route {
		return route{"POST": {serve: fn, door: func(ctx *fasthttp.RequestCtx) *problem {
			a, p := door(ctx)
			if p != nil {
				return p
			}
			return a.caller.bucket.look(time.Now())
		}}}
	}
	ask := func(fn func(*fasthttp.RequestCtx)) route {
		return route{"GET": {serve: fn, door: func(ctx *fasthttp.RequestCtx) *problem {
			_, p := s.lookupDoor(ctx)
			return p
		}}}
	}
	return routeTable{
		PathEvents:      post(s.publish, s.eventDoor),
		PathBatch:       post(s.publishBatch, s.batchDoor),
		PathSources:     s.sourceRoute(),
		PathEvent:       ask(s.lookupEvent),
		PathMessage:     ask(s.lookupMessage),
		"/healthz":      read(s.healthz),
		"/readyz":       read(s.readyz),
		"/metrics":      read(s.scrape),
		"/openapi.json": read(s.openapi),
	}
}

// find looks up the request in the table by the path as it was sent: fasthttp's own Path
// resolves "/x/../v1/events", and a proxy in front may not have seen it that way.
func (s *Server) find(ctx *fasthttp.RequestCtx) (operation, *problem) {
	path := ctx.URI().PathOriginal()
	r, ok := s.routes[string(path)]
	if !ok {
		if r, ok = s.under[string(path[:lastSlash(path)])]; !ok || lastSlash(path) == len(path) {
			return operation{}, errNotFound
		}
	}
	op, ok := r[string(ctx.Method())]
	if !ok {
		return operation{}, notAllowed(r.allow())
	}
	return op, nil
}

// lastSegment is what stands for "{...}" in the path of a request, as it was sent.
func lastSegment(ctx *fasthttp.RequestCtx) []byte {
	path := ctx.URI().PathOriginal()
	return path[lastSlash(path):]
}

// lastSlash is the index after the last slash.
func lastSlash(path []byte) int { return bytes.LastIndexByte(path, '/') + 1 }

// under are the routes whose last segment is free, by what is before it.
func (t routeTable) under() map[string]route {
	out := map[string]route{}
	for name, r := range t {
		if head, _, ok := strings.Cut(name, "{"); ok {
			out[head] = r
		}
	}
	return out
}
