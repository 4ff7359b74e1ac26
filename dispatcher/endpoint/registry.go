package endpoint

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
)

// Registry turns the records of the topic into Snapshots. Apply is its writer, one at a
// time by its lock; Snapshot may be called from everywhere.
type Registry struct {
	ring   Keyring
	policy URLPolicy

	dirty   atomic.Bool // set under mu, cleared under mu before the build reads the state
	current atomic.Pointer[Snapshot]

	mu      sync.Mutex // guards what is below
	byID    map[string]*Endpoint
	faults  map[string]error
	touched map[string]bool // tenants whose view must be built anew
}

// NewRegistry makes an empty view. The URL policy is applied again to what is stored: an
// endpoint that it refuses now is kept with Fault set.
func NewRegistry(ring Keyring, policy URLPolicy) *Registry {
	r := &Registry{
		ring:    ring,
		policy:  policy,
		byID:    make(map[string]*Endpoint),
		faults:  make(map[string]error),
		touched: make(map[string]bool),
	}
	r.current.Store(&Snapshot{})
	return r
}

// Apply takes one record: a nil value is a tombstone. It has the form of the table's
// OnChange; offsets of one id grow. A record that cannot be read at all leaves the version
// before it in place, and Faults tells it.
func (r *Registry) Apply(key string, value []byte, offset int64) {
	var e *Endpoint
	var err error
	if value != nil {
		e, err = Open(key, value, r.ring)
		if e != nil {
			e.Version = offset
			if fault := r.recheck(e); fault != nil {
				e.Fault = errors.Join(e.Fault, fault)
				err = errors.Join(err, fault)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.faults, key)
	if err != nil {
		r.faults[key] = err
		if e == nil {
			return
		}
	}
	if old := r.byID[key]; old != nil {
		r.touched[old.Tenant] = true
		delete(r.byID, key)
	}
	if e != nil {
		r.byID[key] = e
		r.touched[e.Tenant] = true
	}
	r.dirty.Store(true)
}

// recheck applies the policy of today to a stored endpoint.
func (r *Registry) recheck(e *Endpoint) error {
	clean, err := r.policy.Normalize(e.URL)
	if err != nil {
		return fmt.Errorf("endpoint %s: %w", e.ID, err)
	}
	e.URL = clean
	return nil
}

// Get returns an endpoint as it was applied last, nil for none. Unlike Snapshot it builds nothing.
func (r *Registry) Get(id string) *Endpoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

// Snapshot returns a view that holds everything applied before the call. It costs two loads
// unless something changed; then the first caller builds the tenants that changed, once for
// all changes so far.
func (r *Registry) Snapshot() *Snapshot {
	if !r.dirty.Load() {
		return r.current.Load()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dirty.Load() {
		r.current.Store(r.buildLocked(r.current.Load()))
		r.dirty.Store(false)
	}
	return r.current.Load()
}

func (r *Registry) buildLocked(old *Snapshot) *Snapshot {
	s := &Snapshot{byID: maps.Clone(r.byID), tenants: maps.Clone(old.tenants)}
	if s.tenants == nil {
		s.tenants = make(map[string]*tenantView)
	}
	members := make(map[string][]*Endpoint, len(r.touched))
	for _, e := range r.byID {
		if r.touched[e.Tenant] {
			members[e.Tenant] = append(members[e.Tenant], e)
		}
	}
	for tenant := range r.touched {
		if len(members[tenant]) == 0 {
			delete(s.tenants, tenant)
			continue
		}
		s.tenants[tenant] = newTenantView(members[tenant])
	}
	clear(r.touched)
	return s
}

// Faults returns the records that could not be used as they are, by key.
func (r *Registry) Faults() map[string]error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.faults)
}
