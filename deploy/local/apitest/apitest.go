package apitest

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Doc is an OpenAPI 3.1 document. Safe for concurrent use.
type Doc struct {
	paths    map[string]any
	anywhere []Answer
	problem  string // pointer of the schema of a problem

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema
	seen     map[Answer]bool
}

// Answer is a documented answer: an operation as "POST /v1/events", a status, and the code of a
// problem, "" for success.
type Answer struct {
	Operation string
	Status    int
	Code      string
}

func (a Answer) String() string {
	return strings.TrimSpace(fmt.Sprint(a.Operation, " ", a.Status, " ", a.Code))
}

const base = "mem:///openapi.json"

// Load reads a document. anywhere are the problems that any request may be answered with and that
// the document does not repeat for each operation; their Operation is empty.
func Load(raw []byte, anywhere ...Answer) (*Doc, error) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("read OpenAPI document: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource(base, v); err != nil {
		return nil, fmt.Errorf("read OpenAPI document: %w", err)
	}
	d := &Doc{paths: object(object(v)["paths"]), anywhere: anywhere, problem: "/components/schemas/Problem",
		compiler: c, schemas: map[string]*jsonschema.Schema{}, seen: map[Answer]bool{}}
	if version, _ := object(v)["openapi"].(string); !strings.HasPrefix(version, "3.1.") || len(d.paths) == 0 {
		return nil, fmt.Errorf("document of version %q with %d paths is not OpenAPI 3.1", version, len(d.paths))
	}
	return d, nil
}

// Response is what came back for a request.
type Response struct {
	Method, Path string // the path as it was sent, with or without a query
	Status       int
	Header       http.Header
	Body         []byte
}

// Check says what about an answer is not documented, nil if all of it is.
func (d *Doc) Check(r Response) error {
	code := ""
	if mediaOf(r.Header) == problemType {
		body, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.Body))
		if err != nil && r.Method != http.MethodHead {
			return fmt.Errorf("%s %s: %d is no problem: %w", r.Method, r.Path, r.Status, err)
		}
		code, _ = object(body)["code"].(string)
	}
	template, item := d.find(r.Path)
	here := Answer{r.Method + " " + template, r.Status, code}
	if slices.Contains(d.anywhere, Answer{"", r.Status, code}) && !slices.Contains(d.Answers(here.Operation), here) {
		return d.valid(r, d.problem)
	}
	op := object(item[strings.ToLower(r.Method)])
	if op == nil {
		return fmt.Errorf("%s %s: %d %s, but there is no such operation", r.Method, r.Path, r.Status, code)
	}
	responses := object(op["responses"])
	status := strconv.Itoa(r.Status)
	if responses[status] == nil {
		status = status[:1] + "XX" // what OpenAPI has for all of a hundred
	}
	resp := object(responses[status])
	if resp == nil {
		return fmt.Errorf("%s %s: status %d %s is not documented", r.Method, template, r.Status, code)
	}
	for name := range object(resp["headers"]) {
		if r.Header.Get(name) == "" {
			return fmt.Errorf("%s %s: %d %s has no header %s", r.Method, template, r.Status, code, name)
		}
	}
	content := object(resp["content"])
	media := mediaOf(r.Header)
	if free := content["*/*"] != nil || len(r.Body) == 0 && media == ""; len(content) > 0 && !free && r.Method != http.MethodHead {
		i := slices.IndexFunc(keys(content), func(k string) bool { return mediaOf(http.Header{"Content-Type": {k}}) == media })
		if i < 0 {
			return fmt.Errorf("%s %s: %d has content type %q, documented %v", r.Method, template, r.Status, media, keys(content))
		}
		at := pointer("paths", template, strings.ToLower(r.Method), "responses", status, "content", keys(content)[i], "schema")
		if err := d.valid(r, at); err != nil {
			return err
		}
	} else if len(content) == 0 && len(r.Body) > 0 {
		return fmt.Errorf("%s %s: %d has a body, documented none", r.Method, template, r.Status)
	}
	d.note(here)
	return nil
}

const problemType = "application/problem+json"

// valid holds a JSON body against the schema at a pointer of the document. Text has none to be
// held against.
func (d *Doc) valid(r Response, at string) error {
	if !strings.HasSuffix(mediaOf(r.Header), "json") || r.Method == http.MethodHead {
		return nil
	}
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.Body))
	if err != nil {
		return fmt.Errorf("%s %s: body of the %d: %w", r.Method, r.Path, r.Status, err)
	}
	schema, err := d.schema(at)
	if err != nil {
		return err
	}
	if err := schema.Validate(body); err != nil {
		return fmt.Errorf("%s %s: body of the %d is not as documented: %w: %.500s", r.Method, r.Path, r.Status, err, r.Body)
	}
	return nil
}

func (d *Doc) schema(at string) (*jsonschema.Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.schemas[at]; s != nil {
		return s, nil
	}
	s, err := d.compiler.Compile(base + "#" + at)
	if err != nil {
		return nil, fmt.Errorf("schema at %s: %w", at, err)
	}
	d.schemas[at] = s
	return s, nil
}

// Accepts says whether the schema of a request body allows body, for a test of the examples.
func (d *Doc) Accepts(method, template, media string, body []byte) error {
	at := pointer("paths", template, strings.ToLower(method), "requestBody", "content", media, "schema")
	return d.valid(Response{Method: method, Path: template, Header: http.Header{"Content-Type": {"json"}}, Body: body}, at)
}

// find is the path item of a request: an exact name, or a template with one name a segment.
func (d *Doc) find(path string) (string, map[string]any) {
	path, _, _ = strings.Cut(path, "?")
	if item := object(d.paths[path]); item != nil {
		return path, item
	}
	want := strings.Split(path, "/")
	for _, template := range keys(d.paths) {
		parts := strings.Split(template, "/")
		if len(parts) != len(want) {
			continue
		}
		if !slices.ContainsFunc(indexes(parts), func(i int) bool { return parts[i] != want[i] && !strings.HasPrefix(parts[i], "{") }) {
			return template, object(d.paths[template])
		}
	}
	return path, nil
}

func indexes(s []string) []int {
	out := make([]int, len(s))
	for i := range out {
		out[i] = i
	}
	return out
}

func mediaOf(h http.Header) string {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return h.Get("Content-Type")
	}
	return media
}

// pointer is a JSON pointer, as a URL fragment.
func pointer(parts ...string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D", "+", "%2B")
	out := ""
	for _, p := range parts {
		out += "/" + escape.Replace(p)
	}
	return out
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func keys(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
