package source

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/hookline/hookline/ingest/event"
)

// Source takes the webhooks of one provider. Safe for concurrent use.
type Source struct {
	spec    Spec
	secrets Secrets
	token   Secrets // of Spec.VerifyToken, nil = none
	cached  atomic.Pointer[keySet]

	algorithm string
	encoding  string
	stamped   bool // the scheme signs a time

	finder   *event.Finder  // all paths of the mapping
	jsonAt   map[string]int // their places in it, by their text in the settings
	parses   bool           // something is looked up in the body as JSON
	bodyTime *event.Finder  // HMAC.Timestamp in the body
	slack    *event.Finder  // type and challenge of a handshake

	ceSource string
	// Replays are the requests that were taken.
	Replays *Memory
}

// New returns the source of a Spec that Parse made. token is nil without a VerifyToken.
func New(spec Spec, secrets, token Secrets) (*Source, error) {
	s := &Source{spec: spec, secrets: secrets, token: token, algorithm: "sha256", encoding: "hex", jsonAt: map[string]int{},
		ceSource: event.PublishSource(spec.Tenant) + "/sources/" + spec.Name, Replays: NewMemory(2*spec.Tolerance+memorySlack, memorySize)}
	switch spec.Scheme {
	case SchemeStandardWebhooks:
		s.encoding, s.stamped = "base64", true
	case SchemeShopify:
		s.encoding = "base64"
	case SchemeStripe, SchemeSlack:
		s.stamped = true
	case SchemeHMAC:
		s.algorithm, s.encoding, s.stamped = spec.HMAC.Algorithm, spec.HMAC.Encoding, spec.HMAC.Timestamp != nil
	}
	if err := s.finders(); err != nil {
		return nil, fmt.Errorf("source %s: %w", spec.Name, err)
	}
	return s, nil
}

// finders makes the finders of all paths that the source looks at.
func (s *Source) finders() (err error) {
	var paths []event.Path
	add := func(text string, p event.Path) {
		if _, ok := s.jsonAt[text]; !ok {
			s.jsonAt[text] = len(paths)
			paths = append(paths, p)
		}
	}
	for _, list := range [][]Selector{s.spec.EventType, s.spec.MessageID, s.spec.EventID, s.spec.DeriveID} {
		for _, sel := range list {
			if sel.kind == selectJSON {
				add(sel.name, sel.path)
			}
		}
	}
	for _, r := range s.spec.Require {
		p, err := event.ParsePath(r.Path)
		if err != nil {
			return fmt.Errorf("require %s: %w", r.Path, err)
		}
		add(r.Path, p)
	}
	s.parses = len(paths) > 0
	if s.finder, err = event.NewFinder(paths...); err != nil {
		return err
	}
	if t := s.spec.HMAC.Timestamp; t != nil && t.kind == selectJSON {
		if s.bodyTime, err = event.NewFinder(t.path); err != nil {
			return err
		}
	}
	s.slack, err = event.NewFinder(event.Path{"type"}, event.Path{"challenge"})
	return err
}

// Name is the source's name, in the path and in hl_source.
func (s *Source) Name() string { return s.spec.Name }

// Success is the answer to a request that was taken.
func (s *Source) Success() Success { return s.spec.Success }

// Allows says whether a request may come from peer, the address at the other end of the
// connection. forwarded are the values of X-Forwarded-For, which count only as far as they
// were written by a trusted proxy.
func (s *Source) Allows(peer netip.Addr, forwarded []string) bool {
	if len(s.spec.AllowCIDRs) == 0 {
		return true
	}
	return within(s.spec.AllowCIDRs, clientOf(peer, forwarded, s.spec.TrustedProxies))
}
