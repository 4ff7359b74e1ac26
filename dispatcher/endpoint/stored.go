package endpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// storedVersion is the version of the stored record that this code writes.
const storedVersion = 1

const (
	useSecret  = "secret"
	useHeaders = "headers"
)

// stored is the value of a record of the topic; doc.go draws it.
type stored struct {
	V         int             `json:"v"`
	Endpoint  json.RawMessage `json:"endpoint"`
	Keys      []storedKey     `json:"keys"`
	Headers   *Sealed         `json:"headers,omitempty"`
	CreatedAt time.Time       `json:"created_at,omitzero"`
	UpdatedAt time.Time       `json:"updated_at,omitzero"`
}

type storedKey struct {
	Sealed
	CreatedAt time.Time `json:"created_at,omitzero"`
	NotAfter  time.Time `json:"not_after,omitzero"`
}

// Seal makes the value of e's record. A Secret that is set becomes the current key if there
// is none yet; to change one use Rotate. e must be valid.
func Seal(e *Endpoint, ring Keyring) ([]byte, error) {
	open := e.Clone()
	if open.Secret != "" && len(open.Keys) == 0 {
		open.Keys = []Key{{Secret: open.Secret, CreatedAt: open.UpdatedAt}}
	}
	open.Secret = ""
	s := stored{V: storedVersion, CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt}
	for _, k := range open.Keys {
		box, err := ring.Seal(useSecret, e.Tenant, e.ID, []byte(k.Secret))
		if err != nil {
			return nil, fmt.Errorf("seal endpoint %s: %w", e.ID, err)
		}
		s.Keys = append(s.Keys, storedKey{Sealed: box, CreatedAt: k.CreatedAt, NotAfter: k.NotAfter})
	}
	if len(open.Headers) > 0 {
		plain, err := json.Marshal(open.Headers)
		if err != nil {
			return nil, fmt.Errorf("encode headers of endpoint %s: %w", e.ID, err)
		}
		box, err := ring.Seal(useHeaders, e.Tenant, e.ID, plain)
		if err != nil {
			return nil, fmt.Errorf("seal endpoint %s: %w", e.ID, err)
		}
		s.Headers = &box
		open.Headers = nil
	}
	var err error
	if s.Endpoint, err = json.Marshal(&open); err != nil {
		return nil, fmt.Errorf("encode endpoint %s: %w", e.ID, err)
	}
	value, err := json.Marshal(&s)
	if err != nil {
		return nil, fmt.Errorf("encode endpoint %s: %w", e.ID, err)
	}
	return value, nil
}

// Open reads the value of the record with the given key (the endpoint's id). When the form
// is readable but a secret is not, it returns the endpoint with Fault set beside the error,
// so that the caller can keep it in the view; otherwise the endpoint is nil.
func Open(key string, value []byte, ring Keyring) (*Endpoint, error) {
	var s stored
	if err := json.Unmarshal(value, &s); err != nil {
		return nil, fmt.Errorf("decode stored endpoint %.64q: %w", key, err)
	}
	// Not Merge: a newer release may have added fields, and it must be possible to go back.
	e := Default()
	if err := json.Unmarshal(s.Endpoint, &e); err != nil {
		return nil, fmt.Errorf("decode stored endpoint %.64q: %w", key, err)
	}
	if e.ID != key || !ValidID(e.ID) {
		return nil, fmt.Errorf("decode stored endpoint %.64q: its id is not its key", key)
	}
	e.Secret = ""
	e.CreatedAt, e.UpdatedAt = s.CreatedAt, s.UpdatedAt
	if e.Fault = e.unseal(&s, ring); e.Fault != nil {
		return &e, fmt.Errorf("open stored endpoint %s: %w", e.ID, e.Fault)
	}
	return &e, nil
}

func (e *Endpoint) unseal(s *stored, ring Keyring) error {
	if s.V != storedVersion {
		return fmt.Errorf("record version %d is not known here", s.V)
	}
	var errs []error
	for _, k := range s.Keys {
		plain, err := ring.Open(useSecret, e.Tenant, e.ID, k.Sealed)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if err := checkSecret(e.Signature, string(plain)); err != nil {
			errs = append(errs, fmt.Errorf("open %s: %w", useSecret, err))
			continue
		}
		e.Keys = append(e.Keys, Key{Secret: string(plain), CreatedAt: k.CreatedAt, NotAfter: k.NotAfter})
	}
	if len(s.Keys) == 0 {
		errs = append(errs, errors.New("has no signing key"))
	}
	if s.Headers != nil {
		plain, err := ring.Open(useHeaders, e.Tenant, e.ID, *s.Headers)
		if err != nil {
			errs = append(errs, err)
		} else if err := json.Unmarshal(plain, &e.Headers); err != nil {
			errs = append(errs, errors.New("decode headers: not an object of strings"))
		}
	}
	return errors.Join(errs...)
}

// Sealers returns the ids of the secret keys that a stored record needs, for resealing.
func Sealers(value []byte) ([]string, error) {
	var s stored
	if err := json.Unmarshal(value, &s); err != nil {
		return nil, fmt.Errorf("decode stored endpoint: %w", err)
	}
	var ids []string
	for _, k := range s.Keys {
		ids = append(ids, k.KeyID)
	}
	if s.Headers != nil {
		ids = append(ids, s.Headers.KeyID)
	}
	return ids, nil
}
