package event

import (
	"errors"
	"fmt"
	"strconv"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
)

// SpecVersion is the CloudEvents version of every record that hookline writes.
const SpecVersion = "1.0"

// DefaultContentType is the content type of a body whose producer named none.
const DefaultContentType = "application/json"

// DefaultSchema is the contract version of a body whose producer named none.
const DefaultSchema = "1"

// MaxHeaders is the most that Headers appends.
const MaxHeaders = 13

// ErrPoison is what every error of Decode wraps: the record cannot be understood, and it
// will not be understood later either.
var ErrPoison = errors.New("poison record")

// Headers appends the record headers of e in a fixed order and returns the longer slice.
// Absent optional fields are left out; a zero Sequence is a sequence, -1 is none. The values
// alias the strings of e, so they must not be written to.
func (e *Event) Headers(dst []kgo.RecordHeader) []kgo.RecordHeader {
	dst, _ = e.HeadersIn(dst, make([]byte, 0, HeaderText))
	return dst
}

// HeaderText is the most that HeadersIn appends to its scratch.
const HeaderText = len(time.RFC3339Nano) + 2*len("9223372036854775807")

// HeadersIn is Headers for many events: the values that are written out, and alias no string
// of e, are appended to scratch, whose memory they share from then on.
func (e *Event) HeadersIn(dst []kgo.RecordHeader, scratch []byte) ([]kgo.RecordHeader, []byte) {
	dst = append(dst,
		kgo.RecordHeader{Key: HeaderSpecVersion, Value: raw(SpecVersion)},
		kgo.RecordHeader{Key: HeaderID, Value: raw(e.ID)},
		kgo.RecordHeader{Key: HeaderType, Value: raw(e.Type)},
		kgo.RecordHeader{Key: HeaderSource, Value: raw(e.Source)},
		kgo.RecordHeader{Key: HeaderSubject, Value: raw(e.MessageID)},
	)
	at := len(scratch)
	if !e.OccurredAt.IsZero() {
		scratch = e.OccurredAt.UTC().AppendFormat(scratch, time.RFC3339Nano)
		dst = append(dst, kgo.RecordHeader{Key: HeaderTime, Value: scratch[at:len(scratch):len(scratch)]})
	}
	dst = appendText(dst, HeaderContentType, e.ContentType)
	dst = appendText(dst, HeaderTraceparent, e.Traceparent)
	dst = appendText(dst, HeaderTenant, e.Tenant)
	dst = appendText(dst, HeaderOrigin, e.Origin)
	dst = appendText(dst, HeaderSchema, e.Schema)
	at = len(scratch)
	scratch = strconv.AppendInt(scratch, e.AcceptedMs, 10)
	dst = append(dst, kgo.RecordHeader{Key: HeaderAcceptedMs, Value: scratch[at:len(scratch):len(scratch)]})
	if e.Sequence >= 0 {
		at = len(scratch)
		scratch = strconv.AppendInt(scratch, e.Sequence, 10)
		dst = append(dst, kgo.RecordHeader{Key: HeaderSequence, Value: scratch[at:len(scratch):len(scratch)]})
	}
	return dst, scratch
}

// Key is the record key of e. It aliases e's message id and must not be written to.
func (e *Event) Key() []byte { return raw(e.MessageID) }

func appendText(dst []kgo.RecordHeader, key, value string) []kgo.RecordHeader {
	if value == "" {
		return dst
	}
	return append(dst, kgo.RecordHeader{Key: key, Value: raw(value)})
}

// Decode reads the event that r carries, from ingest or from any other Kafka producer, and
// also from a copy of it in another topic. It copies nothing: strings and Body alias r. An
// error wraps ErrPoison and its text is the reason, fit for people.
//
// The key is the message id, whatever ce_subject says. When a header occurs twice the last
// one counts. Headers that the table in doc.go does not list are ignored.
func Decode(r *kgo.Record) (Event, error) {
	e := Event{
		MessageID:   text(r.Key),
		Body:        r.Value,
		ContentType: DefaultContentType,
		Schema:      DefaultSchema,
		AcceptedMs:  r.Timestamp.UnixMilli(),
		Sequence:    -1,
	}
	if !ValidMessageID(e.MessageID) {
		return e, poison("record key is not a message id: %d bytes, want 1 to %d of visible ASCII", len(r.Key), MaxMessageID)
	}
	if len(r.Value) == 0 {
		return e, poison("record has no value")
	}
	for i := range r.Headers {
		if err := e.take(&r.Headers[i]); err != nil {
			return e, err
		}
	}
	if e.Type == "" {
		return e, poison("header %s is missing", HeaderType)
	}
	if e.ID == "" {
		e.ID = positionID(r.Topic, r.Partition, r.Offset, r.Timestamp.UnixMilli())
	}
	if e.Origin == "" && !madeByIngest(e.ID) {
		e.Origin = OriginKafka
	}
	// A producer's clock cannot make an event younger than the log says it is. Only a
	// record that was never produced has no timestamp; one of a producer without a clock
	// has -1, and a broken clock anything.
	if !r.Timestamp.IsZero() {
		e.AcceptedMs = min(e.AcceptedMs, r.Timestamp.UnixMilli())
	}
	e.AcceptedMs = min(max(e.AcceptedMs, 0), maxAcceptedMs)
	return e, nil
}

// maxAcceptedMs is the end of the last year that an event may have.
var maxAcceptedMs = time.Date(maxYear+1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli() - 1

// take stores one header in its field.
func (e *Event) take(h *kgo.RecordHeader) error {
	v := text(h.Value)
	switch h.Key {
	case HeaderSpecVersion:
		return check(v == "1.0" || v == "1", h)
	case HeaderID:
		e.ID = v
		return check(ValidID(v), h)
	case HeaderType:
		e.Type = v
		return check(ValidType(v), h)
	case HeaderSource:
		e.Source = v
		return check(v == "" || printable(v, MaxSource), h)
	case HeaderTime:
		t, err := ParseTime(v)
		e.OccurredAt = t
		return check(err == nil, h)
	case HeaderContentType:
		e.ContentType = v
		return check(printable(v, MaxContentType), h)
	case HeaderTraceparent:
		if ValidTraceparent(v) {
			e.Traceparent = v
		}
	case HeaderTenant:
		e.Tenant = v
		return check(ValidTenant(v), h)
	case HeaderOrigin:
		e.Origin = v
		return check(visible(v, MaxOrigin), h)
	case HeaderSchema:
		e.Schema = v
		return check(ValidSchema(v), h)
	case HeaderAcceptedMs:
		n, ok := decimal(v, 1<<53)
		e.AcceptedMs = n
		return check(ok, h)
	case HeaderSequence:
		n, ok := decimal(v, MaxSequence)
		e.Sequence = n
		return check(ok, h)
	case HeaderForwarded:
		if _, ok := ParseMove(v); ok { // any other was not written by a dispatcher
			e.Forwarded = v
		}
	}
	return nil
}

func check(ok bool, h *kgo.RecordHeader) error {
	if ok {
		return nil
	}
	v := h.Value
	if len(v) > 64 {
		v = v[:64]
	}
	return poison("header %s has a value that is not allowed: %+q", h.Key, v)
}

func poison(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrPoison}, args...)...)
}

// decimal reads an unsigned decimal without sign, blanks or leading zeros beyond "0".
func decimal(s string, limit int64) (int64, bool) {
	if len(s) == 0 || len(s) > 16 || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	var n int64
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, n <= limit
}

// raw is the bytes of s without a copy; nobody may write to them.
func raw(s string) []byte {
	if s == "" {
		return []byte{}
	}
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// text is b as a string without a copy, valid while nobody writes to b.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
