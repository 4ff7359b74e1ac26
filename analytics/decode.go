package analytics

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/analytics/row"
	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

// Limits of words. What is longer was not written by us, and a dashboard has no use for it.
const (
	maxWord  = 64
	maxShort = 32
)

// counts is what decoding had to change, for metrics.
type counts struct {
	clamped int // times that were too far from their record's
	other   int // words outside their vocabulary or over their limit
}

// added says what became of a record.
type added uint8

const (
	inBlock added = iota
	tooMany       // the block has rows on too many days already; the record belongs to the next
	bad           // it cannot be understood
)

// source decodes the records of one topic into the blocks of one table. Rows are a pure function of
// the record and, for events, of the topic's sequence base: the same records give the same block.
type source interface {
	table() string
	newBlock() row.Block
	// add appends the row of r. strict = leave out what would be on one day too many; an announced
	// batch takes every record that it had before.
	add(b row.Block, r *kgo.Record, strict bool, c *counts) (added, error)
}

// limited keeps a word within its limit.
func (c *counts) limited(s string, limit int) string {
	w := row.Word(s, limit)
	if len(w) != len(s) {
		c.other++
	}
	return w
}

// near clamps a time that partitions are chosen by.
func (c *counts) near(ms int64, r *kgo.Record) int64 {
	out, changed := row.ClampTime(ms, r.Timestamp.UnixMilli())
	if changed {
		c.clamped++
	}
	return out
}

// attempts decodes the attempts topic.
type attempts struct{}

func (attempts) table() string       { return "attempts" }
func (attempts) newBlock() row.Block { return &row.Attempts{} }

func (attempts) add(b row.Block, r *kgo.Record, strict bool, c *counts) (added, error) {
	block, ok := b.(*row.Attempts)
	if !ok {
		return bad, fmt.Errorf("BUG: a block of %s for attempts", b.Table())
	}
	var a attempt.Record
	if err := attempt.Decode(r.Value, &a); err != nil {
		return bad, err
	}
	at := c.near(a.AttemptedMs, r)
	if strict && !block.Takes(at) {
		return tooMany, nil
	}
	class := a.ErrorClass
	if class != "" && !attempt.KnownClass(class) {
		class = attempt.Other
		c.other++
	}
	version := a.HTTPVersion
	if len(version) > 8 {
		version = ""
		c.other++
	}
	block.Append(&row.Attempt{
		AttemptedMs: at, OccurredMs: row.ClampFar(a.OccurredMs), AcceptedMs: row.ClampFar(a.AcceptedMs),
		Tenant: c.limited(a.Tenant, event.MaxTenant), Endpoint: c.limited(a.Endpoint, maxWord),
		EventType: c.limited(a.EventType, event.MaxType), Source: c.limited(a.Source, event.MaxOrigin),
		EventID: row.Text(a.EventID, event.MaxID), MessageID: row.Text(a.MessageID, event.MaxMessageID),
		Sequence: a.Sequence, Attempt: a.Attempt, MaxAttempts: a.MaxAttempts, Parks: a.Parks, Deliveries: a.Deliveries,
		Tier: c.limited(a.Tier, maxShort), Trigger: int8(a.Trigger), Outcome: int8(a.Outcome),
		StatusCode: a.StatusCode, ErrorClass: class, QueueWaitUs: a.QueueWaitUs,
		DNSUs: a.DNSUs, ConnectUs: a.ConnectUs, TLSUs: a.TLSUs, TTFBUs: a.TTFBUs, TotalUs: a.TotalUs,
		ConnReused: a.ConnReused, HTTPVersion: version, RequestBytes: a.RequestBytes, ResponseBytes: a.ResponseBytes,
		Circuit: int8(a.Circuit), NextRetryMs: row.ClampFar(a.NextRetryMs), DueErrorMs: a.DueErrorMs,
		Worker: c.limited(a.Worker, maxWord), Partition: uint16(r.Partition), Offset: uint64(r.Offset),
	})
	return inBlock, nil
}

// events decodes the events topic. base is what offsets are added to for the sequence, only
// names the owner of records without a tenant, "" when there are several.
type events struct {
	base atomic.Uint64
	only func() string
}

func (*events) table() string       { return "events" }
func (*events) newBlock() row.Block { return &row.Events{} }

func (e *events) add(b row.Block, r *kgo.Record, strict bool, c *counts) (added, error) {
	block, ok := b.(*row.Events)
	if !ok {
		return bad, fmt.Errorf("BUG: a block of %s for events", b.Table())
	}
	ev, err := event.Decode(r)
	if err != nil {
		return bad, err
	}
	if ev.Tenant == "" && e.only != nil {
		ev.Tenant = e.only()
	}
	if ev.Tenant == "" { // poison to the dispatcher, too
		return bad, fmt.Errorf("header %s is missing and there is more than one tenant", event.HeaderTenant)
	}
	at := c.near(ev.AcceptedMs, r)
	if strict && !block.Takes(at) {
		return tooMany, nil
	}
	occurred := at // as in the attempts of an event whose producer gave no time
	if !ev.OccurredAt.IsZero() {
		occurred = row.ClampFar(ev.OccurredAt.UnixMilli())
	}
	block.Append(&row.Event{
		AcceptedMs: at, OccurredMs: occurred,
		Tenant: ev.Tenant, Source: ev.Origin, EventType: ev.Type, EventID: ev.ID, MessageID: ev.MessageID, Schema: ev.Schema,
		Sequence: e.base.Load() + uint64(r.Offset), BodyBytes: uint32(min(len(ev.Body), math.MaxUint32)),
		Partition: uint16(r.Partition), Offset: uint64(r.Offset),
	})
	return inBlock, nil
}

// dead decodes the dead topic. A row says that a letter came; that it was resolved is another row
// with a higher version, written by whoever resolves it.
type dead struct{}

// Version of a row that says open; every later state has a higher one.
const openVersion = 1

const stateOpen = 1

func (dead) table() string       { return "dead_letters" }
func (dead) newBlock() row.Block { return &row.DeadLetters{} }

func (dead) add(b row.Block, r *kgo.Record, strict bool, c *counts) (added, error) {
	block, ok := b.(*row.DeadLetters)
	if !ok {
		return bad, fmt.Errorf("BUG: a block of %s for dead letters", b.Table())
	}
	d := tier.DecodeDead(r)
	at := c.near(r.Timestamp.UnixMilli(), r)
	if strict && !block.Takes(at) {
		return tooMany, nil
	}
	first := at
	if d.FirstAt != nil {
		first = row.ClampFar(d.FirstAt.UnixMilli())
	}
	reason := string(d.Reason)
	if !knownReason(d.Reason) {
		reason = row.Other
		c.other++
	}
	block.Append(&row.DeadLetter{
		DeadMs: at, FirstMs: first, Tenant: d.Tenant, Endpoint: c.limited(d.EndpointID, maxWord), EventType: c.limited(d.EventType, event.MaxType),
		EventID: d.EventID, MessageID: d.MessageID, Reason: reason,
		Attempts: uint16(min(d.Attempts, math.MaxUint16)), LastStatus: uint16(d.LastStatus), ErrorClass: classOf(d.LastError),
		Partition: uint16(r.Partition), Offset: uint64(r.Offset), State: stateOpen, Version: openVersion,
	})
	return inBlock, nil
}

func knownReason(r tier.Reason) bool {
	switch r {
	case tier.Exhausted, tier.Expired, tier.Permanent, tier.Unclear, tier.EndpointGone, tier.EndpointDeleted,
		tier.CircuitOpen, tier.IDConflict, tier.Poison, tier.TooLarge, tier.Operator:
		return true
	}
	return false
}

// classOf is the class that the text of a last error begins with. The text itself stays in Kafka.
func classOf(text string) string {
	class, _, ok := strings.Cut(text, ": ")
	if !ok || !attempt.KnownClass(class) {
		return ""
	}
	return class
}
