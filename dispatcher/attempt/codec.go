package attempt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"
)

// Version is the first byte of every value.
const Version = 1

// Layout of version 1 (uv = unsigned varint, zz = zigzag varint, str = uv length and bytes):
//
//	 0        1        2
//	+--------+--------+--------+----------------+-----------------------------+
//	| version| flags  | kinds  | accepted zz    | attempted-accepted zz       |
//	+--------+--------+--------+----------------+-----------------------------+
//	| occurred-accepted zz | next_retry-attempted zz, only with flag 0x02     |
//	+----------------------+--------------------------------------------------+
//	| str: tenant endpoint event_type source event_id message_id worker       |
//	|      replay_id tier error_class reason http_version                     |
//	+-------------------------------------------------------------------------+
//	| uv:  sequence attempt max_attempts parks deliveries status queue_wait   |
//	|      dns connect tls ttfb total request_bytes response_bytes            |
//	+-------------------------------------------------------------------------+
//	| due_error zz | partition, offset, attempt uv: only with a source topic  |
//	+--------------+----------------------------------------------------------+
//	| fields of later writers, ignored here                                   |
//	+-------------------------------------------------------------------------+
//
// flags: 0x01 connection reused, 0x02 has next retry, 0x0c source topic (0..2), others
// reserved. kinds: 0x07 outcome, 0x38 trigger, 0xc0 circuit.
const (
	flagReused      = 0x01
	flagNextRetry   = 0x02
	flagSourceShift = 2
	flagSourceMask  = 0x0c

	kindOutcomeMask  = 0x07
	kindTriggerShift = 3
	kindTriggerMask  = 0x38
	kindCircuitShift = 6
)

// ErrMalformed is wrapped by every error of Decode.
var ErrMalformed = errors.New("malformed attempt record")

// AppendRecord appends the value of r. A zero Trigger is written as Auto and a zero Circuit
// as Closed; a record without a valid outcome is a broken invariant and panics, because
// every reader would refuse it.
func AppendRecord(dst []byte, r *Record) []byte {
	trigger, circuit := max(r.Trigger, Auto), max(r.Circuit, Closed)
	if r.Outcome < Delivered || r.Outcome > Unrouted || trigger > Probe || circuit > HalfOpen || r.Position.Topic > SourceDue {
		panic(fmt.Sprintf("BUG: attempt: outcome %d, trigger %d, circuit %d, source %d", r.Outcome, r.Trigger, r.Circuit, r.Position.Topic))
	}
	flags := byte(r.Position.Topic) << flagSourceShift
	if r.ConnReused {
		flags |= flagReused
	}
	if r.NextRetryMs != 0 {
		flags |= flagNextRetry
	}
	dst = append(dst, Version, flags, byte(r.Outcome)|byte(trigger)<<kindTriggerShift|byte(circuit)<<kindCircuitShift)
	dst = binary.AppendVarint(dst, r.AcceptedMs)
	dst = binary.AppendVarint(dst, r.AttemptedMs-r.AcceptedMs)
	dst = binary.AppendVarint(dst, r.OccurredMs-r.AcceptedMs)
	if r.NextRetryMs != 0 {
		dst = binary.AppendVarint(dst, r.NextRetryMs-r.AttemptedMs)
	}
	for _, s := range [...]string{
		r.Tenant, r.Endpoint, r.EventType, r.Source, r.EventID, r.MessageID, r.Worker,
		r.ReplayID, r.Tier, r.ErrorClass, r.Reason, r.HTTPVersion,
	} {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
		dst = append(dst, s...)
	}
	for _, n := range [...]uint64{
		r.Sequence, uint64(r.Attempt), uint64(r.MaxAttempts), uint64(r.Parks), uint64(r.Deliveries),
		uint64(r.StatusCode), r.QueueWaitUs, uint64(r.DNSUs), uint64(r.ConnectUs), uint64(r.TLSUs),
		uint64(r.TTFBUs), uint64(r.TotalUs), uint64(r.RequestBytes), uint64(r.ResponseBytes),
	} {
		dst = binary.AppendUvarint(dst, n)
	}
	dst = binary.AppendVarint(dst, int64(r.DueErrorMs))
	if r.Position.Topic != SourceNone {
		dst = binary.AppendUvarint(dst, uint64(uint32(r.Position.Partition)))
		dst = binary.AppendUvarint(dst, uint64(r.Position.Offset))
		dst = binary.AppendUvarint(dst, uint64(r.Position.Attempt))
	}
	return dst
}

// Decode reads a value into r. It allocates nothing: the strings of r alias b, which must
// not be written to while r is in use. After an error r is undefined.
func Decode(b []byte, r *Record) error {
	*r = Record{}
	if len(b) < 3 {
		return fmt.Errorf("%w: %d bytes", ErrMalformed, len(b))
	}
	if b[0] != Version {
		return fmt.Errorf("%w: version %d, this reader knows %d", ErrMalformed, b[0], Version)
	}
	flags, kinds := b[1], b[2]
	r.ConnReused = flags&flagReused != 0
	r.Position.Topic = SourceTopic(flags & flagSourceMask >> flagSourceShift)
	r.Outcome = Outcome(kinds & kindOutcomeMask)
	r.Trigger = Trigger(kinds & kindTriggerMask >> kindTriggerShift)
	r.Circuit = Circuit(kinds >> kindCircuitShift)
	if r.Outcome < Delivered || r.Outcome > Unrouted || r.Trigger < Auto || r.Trigger > Probe ||
		r.Circuit < Closed || r.Position.Topic > SourceDue {
		return fmt.Errorf("%w: flags %#02x, kinds %#02x", ErrMalformed, flags, kinds)
	}
	c := cursor{b: b, at: 3}
	r.AcceptedMs = c.signed()
	r.AttemptedMs = r.AcceptedMs + c.signed()
	r.OccurredMs = r.AcceptedMs + c.signed()
	if flags&flagNextRetry != 0 {
		r.NextRetryMs = r.AttemptedMs + c.signed()
	}
	for _, s := range [...]*string{
		&r.Tenant, &r.Endpoint, &r.EventType, &r.Source, &r.EventID, &r.MessageID, &r.Worker,
		&r.ReplayID, &r.Tier, &r.ErrorClass, &r.Reason, &r.HTTPVersion,
	} {
		*s = c.text()
	}
	r.Sequence = c.unsigned(math.MaxUint64)
	for _, n := range [...]*uint16{&r.Attempt, &r.MaxAttempts, &r.Parks, &r.Deliveries, &r.StatusCode} {
		*n = uint16(c.unsigned(math.MaxUint16))
	}
	r.QueueWaitUs = c.unsigned(math.MaxUint64)
	for _, n := range [...]*uint32{
		&r.DNSUs, &r.ConnectUs, &r.TLSUs, &r.TTFBUs, &r.TotalUs, &r.RequestBytes, &r.ResponseBytes,
	} {
		*n = uint32(c.unsigned(math.MaxUint32))
	}
	dueError := c.signed()
	r.DueErrorMs = int32(dueError)
	if int64(r.DueErrorMs) != dueError {
		c.failed = true
	}
	if r.Position.Topic != SourceNone {
		r.Position.Partition = int32(c.unsigned(math.MaxInt32))
		r.Position.Offset = int64(c.unsigned(math.MaxInt64))
		r.Position.Attempt = uint16(c.unsigned(math.MaxUint16))
	}
	if c.failed {
		return fmt.Errorf("%w: cut or out of range in %d bytes", ErrMalformed, len(b))
	}
	return nil
}

// cursor reads fields until one fails; from then on everything is zero.
type cursor struct {
	b      []byte
	at     int
	failed bool
}

func (c *cursor) unsigned(limit uint64) uint64 {
	if c.failed {
		return 0
	}
	n, size := binary.Uvarint(c.b[c.at:])
	if size <= 0 || n > limit {
		c.failed = true
		return 0
	}
	c.at += size
	return n
}

func (c *cursor) signed() int64 {
	if c.failed {
		return 0
	}
	n, size := binary.Varint(c.b[c.at:])
	if size <= 0 {
		c.failed = true
		return 0
	}
	c.at += size
	return n
}

func (c *cursor) text() string {
	n := c.unsigned(math.MaxInt32)
	if c.failed || n > uint64(len(c.b)-c.at) {
		c.failed = true
		return ""
	}
	s := c.b[c.at : c.at+int(n)]
	c.at += int(n)
	return unsafe.String(unsafe.SliceData(s), len(s))
}
