package ingest

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/hookline/hookline/ingest/event"
)

// Paths where producers ask what became of their events. The last segment is percent-decoded
// once: a message id may hold any visible ASCII.
const (
	PathEvent   = "/v1/events/{id}"
	PathMessage = "/v1/messages/{message_id}"
)

// Lookup answers what became of a tenant's events. It is asked about ids that are well-formed
// and must return within its context's time.
type Lookup interface {
	// LookupEvent returns the JSON of the answer about one event, nil when the tenant has none
	// of that id, and of when that is.
	LookupEvent(ctx context.Context, tenant, id string) (answer []byte, asOf time.Time, err error)
	// LookupMessage is the same about all events of a message id.
	LookupMessage(ctx context.Context, tenant, messageID string) (answer []byte, asOf time.Time, err error)
}

// Bounds of what is asked at once. A look-up costs far more than a publish, and publishing
// comes first: what is over them is refused at once and does not wait.
const (
	maxLookups          = 8
	maxLookupsPerTenant = 4
	lookupTime          = 5 * time.Second
)

// lookupGate counts the look-ups under way.
type lookupGate struct {
	mu       sync.Mutex
	all      int
	byTenant map[string]int // no zeros
}

func (g *lookupGate) enter(tenant string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all >= maxLookups || g.byTenant[tenant] >= maxLookupsPerTenant {
		return false
	}
	if g.byTenant == nil {
		g.byTenant = map[string]int{}
	}
	g.all++
	g.byTenant[tenant]++
	return true
}

func (g *lookupGate) leave(tenant string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all--
	if g.byTenant[tenant]--; g.byTenant[tenant] == 0 {
		delete(g.byTenant, tenant)
	}
}

// lookupDoor finds who asks. A request with a body is not one of ours to read.
func (s *Server) lookupDoor(ctx *fasthttp.RequestCtx) (*caller, *problem) {
	value, ok := single(&ctx.Request.Header, fasthttp.HeaderAuthorization)
	c := s.keys.Load().find(value)
	if !ok || c == nil {
		return nil, errUnauthorized
	}
	return c, nil
}

func (s *Server) lookupEvent(ctx *fasthttp.RequestCtx) {
	s.lookup(ctx, "id", event.ValidID, Lookup.LookupEvent)
}

func (s *Server) lookupMessage(ctx *fasthttp.RequestCtx) {
	s.lookup(ctx, "message_id", event.ValidMessageID, Lookup.LookupMessage)
}

// lookup answers about one id of the caller's tenant. What another tenant owns is answered
// exactly as what does not exist.
func (s *Server) lookup(ctx *fasthttp.RequestCtx, field string, valid func(string) bool,
	ask func(Lookup, context.Context, string, string) ([]byte, time.Time, error)) {
	who, p := s.lookupDoor(ctx)
	if p != nil {
		s.refuse(ctx, p)
		return
	}
	id, err := url.PathUnescape(string(lastSegment(ctx)))
	if err != nil || !valid(id) {
		s.refuse(ctx, &problem{status: 400, code: event.CodeInvalidField, field: field, detail: "the last segment of the path is not a valid " + field + ", percent-encoded"})
		return
	}
	if s.deps.Lookup == nil {
		s.refuse(ctx, errAnalyticsOff)
		return
	}
	if !s.lookups.enter(who.tenant) {
		s.refuse(ctx, errLookups)
		return
	}
	defer s.lookups.leave(who.tenant)
	within, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	answer, asOf, err := ask(s.deps.Lookup, within, who.tenant, id)
	switch {
	case err != nil:
		if n, ok := s.lookupFailures.pass(time.Now()); ok {
			s.log.Warn("look-up of a producer failed", "error", err, "like_it_since_last", n)
		}
		s.refuse(ctx, lookupFailed(err))
	case answer == nil:
		s.refuse(ctx, notKnown(asOf))
	default:
		ctx.SetContentType("application/json")
		ctx.SetBody(answer)
		s.metrics.answered(codeOK)
	}
}

var (
	errAnalyticsOff = &problem{status: 501, code: codeAnalyticsOff, detail: "this installation keeps no analytics, which this answer would come from"}
	errLookups      = &problem{status: 503, code: codeUnavailable, detail: "too many look-ups are under way; publishing is not affected", header: "Retry-After", value: retryAfter}
)

func lookupFailed(err error) *problem {
	detail := "analytics cannot be asked now; publishing and deliveries are not affected"
	if errors.Is(err, context.DeadlineExceeded) {
		detail = "analytics did not answer in time; publishing and deliveries are not affected"
	}
	return &problem{status: 503, code: codeUnavailable, detail: detail, header: "Retry-After", value: "5"}
}

// notKnown is the answer for what is not there, which may only not be there yet: an event is
// shown a few seconds after its 202.
func notKnown(asOf time.Time) *problem {
	return &problem{status: 404, code: codeNotFound, header: "Retry-After", value: "2",
		detail: "no such event of this tenant was known as of " + asOf.UTC().Format(time.RFC3339) + "; one that was accepted after that is not lost: it shows here seconds after its 202, see as_of"}
}
