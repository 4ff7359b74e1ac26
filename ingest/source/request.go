package source

import "unsafe"

// Request is what a source looks at. Its memory may be the server's own: nothing that a
// source keeps or returns aliases it, but for what Map is given.
type Request struct {
	Method string
	// Header returns the first value of a header and how many it has.
	Header func(name string) (value string, count int)
	Body   []byte
}

// body is the body as a string without a copy, for hashing.
func (r *Request) body() string { return unsafe.String(unsafe.SliceData(r.Body), len(r.Body)) }

// one returns the value of a header that must be there exactly once: of two, another reader
// of the request might take the other.
func (r *Request) one(name string) (string, error) {
	v, count := r.Header(name)
	switch {
	case count == 0:
		return "", badSignature("the header " + name + " is missing")
	case count > 1:
		return "", badSignature("the header " + name + " must be given once")
	}
	return v, nil
}
