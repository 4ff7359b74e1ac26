package endpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// Default is an endpoint with every field at the default of CONTRACT section 4; id, tenant
// and url are empty.
func Default() Endpoint {
	return Endpoint{
		Events:      []string{"**"},
		Ordering:    BestEffort,
		Timeout:     Duration(5 * time.Second),
		MaxInFlight: 64,
		Signature:   SignatureV1,
		Retry: Retry{
			MaxAttempts:     16,
			MaxAge:          Duration(72 * time.Hour),
			Base:            Duration(2 * time.Second),
			Factor:          2,
			Cap:             Duration(time.Hour),
			UnclearAttempts: 5,
			Permanent:       []int{410},
			Transient:       []int{},
		},
		WhenOpen: WhenOpenPark,
		OnDead:   OnDeadContinue,
		Enabled:  true,
	}
}

// Parse reads one endpoint in the JSON form; what is missing takes its default. A name that
// is not part of the form is an error: it is a misspelt setting. Parse does not Validate.
func Parse(data []byte) (Endpoint, error) { return Merge(Default(), data) }

// Merge reads a part of the JSON form over base, which stays as it is: what data does not
// name keeps the value of base. A header with the value null is taken away. It serves PATCH
// and the settings' own defaults.
func Merge(base Endpoint, data []byte) (Endpoint, error) {
	e := base.Clone()
	patch := struct {
		*Endpoint
		Headers json.RawMessage `json:"headers"` // shadows the field of Endpoint
	}{Endpoint: &e}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&patch); err != nil {
		return Endpoint{}, fmt.Errorf("decode endpoint: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Endpoint{}, errors.New("decode endpoint: data after the object")
	}
	if bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
		return Endpoint{}, errors.New("decode endpoint: null is not an endpoint")
	}
	if e.Events == nil {
		e.Events = []string{"**"}
	}
	if patch.Headers != nil {
		if err := e.mergeHeaders(patch.Headers); err != nil {
			return Endpoint{}, err
		}
	}
	return e, nil
}

func (e *Endpoint) mergeHeaders(data json.RawMessage) error {
	var patch map[string]*string
	if err := json.Unmarshal(data, &patch); err != nil {
		// The decoder's own text could quote a header value.
		return errors.New("decode endpoint: headers is not an object of strings")
	}
	if patch == nil {
		e.Headers = nil
		return nil
	}
	if e.Headers == nil {
		e.Headers = make(map[string]string, len(patch))
	}
	for name, value := range patch {
		if value == nil {
			delete(e.Headers, name)
			continue
		}
		e.Headers[name] = *value
	}
	return nil
}

// Clone returns a copy that shares nothing with e.
func (e *Endpoint) Clone() Endpoint {
	c := *e
	c.Events = slices.Clone(e.Events)
	c.Headers = maps.Clone(e.Headers)
	c.Retry.Permanent = slices.Clone(e.Retry.Permanent)
	c.Retry.Transient = slices.Clone(e.Retry.Transient)
	c.Keys = slices.Clone(e.Keys)
	return c
}
