package endpoint

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// maxCachedTypes bounds the cache of one tenant. A tenant that makes up event types without
// end pays for matching them, and costs no memory.
const maxCachedTypes = 1024

// Snapshot is an immutable view of all endpoints. Safe for concurrent use; what it returns
// is shared and must not be written to.
type Snapshot struct {
	byID    map[string]*Endpoint
	tenants map[string]*tenantView
}

// tenantView answers which endpoints of one tenant want an event type.
type tenantView struct {
	members  []*Endpoint // by id
	patterns [][]pattern // of members[i]

	cache atomic.Pointer[map[string][]*Endpoint] // never written in place
	mu    sync.Mutex                             // one writer of cache at a time
}

func newTenantView(members []*Endpoint) *tenantView {
	slices.SortFunc(members, func(a, b *Endpoint) int { return cmp.Compare(a.ID, b.ID) })
	v := &tenantView{members: members, patterns: make([][]pattern, len(members))}
	for i, e := range members {
		if len(e.Events) == 0 {
			v.patterns[i] = []pattern{{tail: true}}
			continue
		}
		for _, text := range e.Events {
			// A stored pattern was valid when it was written; one that this release does not
			// know matches nothing.
			if p, err := compilePattern(text); err == nil {
				v.patterns[i] = append(v.patterns[i], p)
			}
		}
	}
	return v
}

// Match returns the endpoints of tenant whose filter names eventType, by id, disabled ones
// included. A type that was asked for before costs two map lookups and no allocation.
func (s *Snapshot) Match(tenant, eventType string) []*Endpoint {
	v := s.tenants[tenant]
	if v == nil {
		return nil
	}
	if cache := v.cache.Load(); cache != nil {
		if found, ok := (*cache)[eventType]; ok {
			return found
		}
	}
	found := v.match(eventType)
	v.remember(eventType, found)
	return found
}

func (v *tenantView) match(eventType string) []*Endpoint {
	var found []*Endpoint
	for i, e := range v.members {
		for j := range v.patterns[i] {
			if v.patterns[i][j].matches(eventType) {
				found = append(found, e)
				break
			}
		}
	}
	return slices.Clip(found) // a caller's append must not write into the cache
}

func (v *tenantView) remember(eventType string, found []*Endpoint) {
	v.mu.Lock()
	defer v.mu.Unlock()
	old := v.cache.Load()
	if old != nil && len(*old) >= maxCachedTypes {
		return
	}
	next := make(map[string][]*Endpoint, 8)
	if old != nil {
		for k, m := range *old {
			next[k] = m
		}
	}
	next[strings.Clone(eventType)] = found // eventType may alias a Kafka record
	v.cache.Store(&next)
}

// Get returns the endpoint with this id.
func (s *Snapshot) Get(id string) (*Endpoint, bool) {
	e, ok := s.byID[id]
	return e, ok
}

// Len is the number of endpoints.
func (s *Snapshot) Len() int { return len(s.byID) }

// All yields every endpoint, in no order.
func (s *Snapshot) All() iter.Seq[*Endpoint] {
	return func(yield func(*Endpoint) bool) {
		for _, e := range s.byID {
			if !yield(e) {
				return
			}
		}
	}
}

// Tenant returns the endpoints of one tenant, by id.
func (s *Snapshot) Tenant(tenant string) []*Endpoint {
	if v := s.tenants[tenant]; v != nil {
		return v.members
	}
	return nil
}
