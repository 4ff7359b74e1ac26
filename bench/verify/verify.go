// Package verify compares the set of accepted events with what receivers got and what is
// dead: lost, duplicates, changed bodies, order. It is pure and knows neither HTTP nor Kafka;
// bench scenarios and the crash tests share it.
//
// It judges by ids alone, never by counters: an event is lost when one of the endpoints it
// is owed to neither answered 2xx nor has a dead letter of it.
//
// Non-obvious:
//   - An event that was received but not accepted is no fault: its publisher saw a timeout
//     or a cut connection. Such ids are counted as Extra.
//   - A duplicate is a 2xx after the first 2xx of the same event at the same endpoint. A
//     repeated attempt (same attempt number again) is counted apart: after a crash both are
//     bounded, by what was in flight and what finished since the last commit.
//   - Order is judged at the first 2xx of each event. Endpoints that fail reorder
//     (best_effort); Overtaken is a fault only where a scenario says so.
package verify

import (
	"fmt"
	"time"
)

// Received is one request at a receiver.
type Received struct {
	ID        string
	Endpoint  string
	MessageID string
	Sequence  uint64
	Attempt   int
	BodyHash  uint64
	At        time.Time
	OK        bool // answered 2xx
}

// Report is the verdict. Pairs are (event, endpoint).
type Report struct {
	Accepted         int `json:"accepted"`
	Owed             int `json:"owed"`      // pairs
	Delivered        int `json:"delivered"` // pairs with a 2xx
	Dead             int `json:"dead"`      // pairs with a dead letter and no 2xx
	Lost             int `json:"lost"`      // pairs with neither
	Duplicates       int `json:"duplicates"`
	RepeatedAttempts int `json:"repeated_attempts"`
	Extra            int `json:"extra"` // events received that were never answered 202
	BodyChanged      int `json:"body_changed"`
	SequenceChanged  int `json:"sequence_changed"` // an event came with two sequences
	Overtaken        int `json:"overtaken"`        // first 2xx after a higher sequence of its message id
	Misrouted        int `json:"misrouted"`        // at an endpoint that it is not owed to
	AlsoDead         int `json:"also_dead"`        // pairs with a 2xx and a dead letter

	LostSamples      []string `json:"lost_samples,omitempty"` // "event endpoint"
	DuplicateSamples []string `json:"duplicate_samples,omitempty"`
}

// Faults says in words what no run of any scenario may show; empty = none.
func (r Report) Faults() []string {
	var out []string
	for _, f := range []struct {
		n    int
		what string
	}{
		{r.Lost, "lost"}, {r.BodyChanged, "bodies changed"},
		{r.SequenceChanged, "sequences changed"}, {r.Misrouted, "at an endpoint that is not theirs"},
	} {
		if f.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", f.n, f.what))
		}
	}
	return out
}

const maxSamples = 20

// accepted is one event of the accepted set.
type accepted struct {
	hash     uint64
	sequence uint64 // of its first request, 0 = none yet
	start    int64
}

// pair is one event at one endpoint.
type pair struct {
	firstOK  int64  // Unix nanoseconds, 0 = none
	attempts uint32 // bit n-1 = attempt n was seen; attempts above 32 are not told apart
	oks      uint16
	dead     bool
}

type messageKey struct {
	endpoint int
	message  string
}

// Check collects. It is not safe for concurrent use.
type Check struct {
	endpoints map[string]int
	names     []string
	ids       map[string]int
	events    []accepted
	pairs     []pair // event*len(names) + endpoint
	extra     map[string]struct{}
	highest   map[messageKey]uint64
	report    Report
}

// New returns a check of events that are each owed to all of the endpoints.
func New(endpoints ...string) *Check {
	c := &Check{
		endpoints: map[string]int{}, names: endpoints, ids: map[string]int{},
		extra: map[string]struct{}{}, highest: map[messageKey]uint64{},
	}
	for i, name := range endpoints {
		c.endpoints[name] = i
	}
	return c
}

// Accept adds an event to the accepted set; all are added before the first Receive. An id
// that comes again (idempotency) is one event.
func (c *Check) Accept(id string, bodyHash uint64, start time.Time) {
	if _, again := c.ids[id]; again {
		return
	}
	c.ids[id] = len(c.events)
	c.events = append(c.events, accepted{hash: bodyHash, start: start.UnixNano()})
	c.pairs = append(c.pairs, make([]pair, len(c.names))...)
}

// Receive adds a request; those of one message id at one endpoint in order of arrival.
func (c *Check) Receive(r Received) {
	i, known := c.ids[r.ID]
	if !known {
		c.extra[r.ID] = struct{}{}
		return
	}
	k, owed := c.endpoints[r.Endpoint]
	if !owed {
		c.report.Misrouted++
		return
	}
	e, p := &c.events[i], &c.pairs[i*len(c.names)+k]
	if r.BodyHash != e.hash {
		c.report.BodyChanged++
	}
	if e.sequence == 0 {
		e.sequence = r.Sequence
	} else if r.Sequence != e.sequence {
		c.report.SequenceChanged++
	}
	if r.Attempt >= 1 && r.Attempt <= 32 {
		bit := uint32(1) << (r.Attempt - 1)
		if p.attempts&bit != 0 {
			c.report.RepeatedAttempts++
		}
		p.attempts |= bit
	}
	if r.OK {
		c.delivered(r, p, k)
	}
}

func (c *Check) delivered(r Received, p *pair, endpoint int) {
	p.oks++
	if p.oks > 1 {
		c.report.Duplicates++
		c.sample(&c.report.DuplicateSamples, r.ID, endpoint)
		return
	}
	p.firstOK = r.At.UnixNano()
	if r.MessageID == "" {
		return
	}
	key := messageKey{endpoint, r.MessageID}
	if r.Sequence < c.highest[key] {
		c.report.Overtaken++
	} else {
		c.highest[key] = r.Sequence
	}
}

// Dead adds a dead letter.
func (c *Check) Dead(id, endpoint string) {
	i, known := c.ids[id]
	k, owed := c.endpoints[endpoint]
	if known && owed {
		c.pairs[i*len(c.names)+k].dead = true
	}
}

func (c *Check) sample(list *[]string, id string, endpoint int) {
	if len(*list) < maxSamples {
		*list = append(*list, id+" "+c.names[endpoint])
	}
}

// Missing counts the pairs that are neither delivered nor dead so far.
func (c *Check) Missing() (n int) {
	for i := range c.pairs {
		if c.pairs[i].oks == 0 && !c.pairs[i].dead {
			n++
		}
	}
	return n
}

// Report is the verdict on what was added so far.
func (c *Check) Report() Report {
	r := c.report
	r.Accepted, r.Owed, r.Extra = len(c.events), len(c.pairs), len(c.extra)
	for i := range c.pairs {
		switch p := &c.pairs[i]; {
		case p.oks > 0:
			r.Delivered++
			if p.dead {
				r.AlsoDead++
			}
		case p.dead:
			r.Dead++
		default:
			r.Lost++
		}
	}
	if r.Lost > 0 {
		for id, i := range c.ids {
			for k := range c.names {
				if p := &c.pairs[i*len(c.names)+k]; p.oks == 0 && !p.dead {
					c.sample(&r.LostSamples, id, k)
				}
			}
			if len(r.LostSamples) >= maxSamples {
				break
			}
		}
	}
	return r
}

// EachDelivered calls fn with the start of each delivered pair and its first 2xx.
func (c *Check) EachDelivered(fn func(endpoint string, start, delivered time.Time)) {
	for i := range c.pairs {
		if p := &c.pairs[i]; p.oks > 0 {
			e := &c.events[i/len(c.names)]
			fn(c.names[i%len(c.names)], time.Unix(0, e.start), time.Unix(0, p.firstOK))
		}
	}
}
