package tier

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event"
)

// Limits of a ticket's texts.
const (
	MaxError    = 512 // bytes of hl_error; longer ones are cut
	maxEndpoint = 64
	maxReplay   = 64
	maxReason   = 32
	maxTier     = 32
)

// ErrTicket is what every error of DecodeTicket wraps: the record is poison.
var ErrTicket = errors.New("bad ticket")

// AppendHeaders appends the headers of t in a fixed order. Optional ones that are empty are
// left out, and so is an empty Endpoint, which only a dead letter may have. The values share
// one new allocation.
func (t *Ticket) AppendHeaders(dst []kgo.RecordHeader) []kgo.RecordHeader {
	text := cutText(t.Error, MaxError)
	buf := make([]byte, 0, 160+len(t.Endpoint)+len(text)+len(t.Reason)+len(t.Replay)+len(t.Tier))
	put := func(key string, from int) {
		dst = append(dst, kgo.RecordHeader{Key: key, Value: buf[from:len(buf):len(buf)]})
	}
	number := func(key string, n int64) {
		from := len(buf)
		buf = strconv.AppendInt(buf, n, 10)
		put(key, from)
	}
	words := func(key, s string) {
		if s != "" {
			from := len(buf)
			buf = append(buf, s...)
			put(key, from)
		}
	}
	words(HeaderEndpoint, t.Endpoint)
	number(HeaderAttempt, int64(t.Attempt))
	number(HeaderParks, int64(t.Parks))
	number(HeaderDueMs, t.DueMs)
	from := len(buf)
	buf = t.Orig.append(buf)
	put(HeaderOrig, from)
	from = len(buf)
	buf = strconv.AppendUint(buf, t.Seq, 10)
	put(HeaderSeq, from)
	number(HeaderFirstMs, t.FirstMs)
	if t.Status != 0 {
		number(HeaderStatus, int64(t.Status))
	}
	words(HeaderError, text)
	words(HeaderReason, string(t.Reason))
	words(HeaderReplay, t.Replay)
	words(HeaderTier, t.Tier)
	if t.FanOut != 0 {
		number(HeaderFanOut, int64(t.FanOut))
	}
	return dst
}

// Bits of the headers without which a delivery cannot go on.
const (
	hasEndpoint = 1 << iota
	hasAttempt
	hasDueMs
	hasOrig
	hasSeq
	hasFirstMs
)

// requiredHeaders names the bits, lowest first.
var requiredHeaders = [...]string{HeaderEndpoint, HeaderAttempt, HeaderDueMs, HeaderOrig, HeaderSeq, HeaderFirstMs}

// DecodeTicket reads the ticket of a delivery that waits or is due. It copies what it keeps.
// When a header occurs twice the last one counts. An error wraps ErrTicket and its text is
// fit for people.
func DecodeTicket(headers []kgo.RecordHeader) (Ticket, error) {
	var t Ticket
	seen := 0
	for i := range headers {
		has, err := t.take(&headers[i])
		if err != nil {
			return t, fmt.Errorf("%w: header %s: %w", ErrTicket, headers[i].Key, err)
		}
		seen |= has
	}
	for i, name := range requiredHeaders {
		if seen&(1<<i) == 0 {
			return t, fmt.Errorf("%w: header %s is missing", ErrTicket, name)
		}
	}
	return t, nil
}

// take stores one header in its field and returns the bit of a required one. Headers that
// are not of a ticket are ignored.
func (t *Ticket) take(h *kgo.RecordHeader) (has int, err error) {
	v := unsafe.String(unsafe.SliceData(h.Value), len(h.Value)) // no copy: numbers need none
	var n uint64
	switch h.Key {
	case HeaderEndpoint:
		has, t.Endpoint = hasEndpoint, strings.Clone(v)
		err = checkWord(v, maxEndpoint)
	case HeaderAttempt:
		n, err = parseDecimal(v, 1<<16-1)
		has, t.Attempt = hasAttempt, int(n)
	case HeaderParks:
		n, err = parseDecimal(v, 1<<31-1)
		t.Parks = int(n)
	case HeaderDueMs:
		n, err = parseDecimal(v, maxMs)
		has, t.DueMs = hasDueMs, int64(n)
	case HeaderOrig:
		has = hasOrig
		t.Orig, err = ParseOrig(v)
	case HeaderSeq:
		has = hasSeq
		t.Seq, err = parseDecimal(v, 1<<64-1)
	case HeaderFirstMs:
		n, err = parseDecimal(v, maxMs)
		has, t.FirstMs = hasFirstMs, int64(n)
	case HeaderStatus:
		n, err = parseDecimal(v, 999)
		t.Status = int(n)
	case HeaderError:
		t.Error = strings.Clone(cutText(v, MaxError))
	case HeaderReason:
		t.Reason = Reason(strings.Clone(v))
		err = checkWord(v, maxReason)
	case HeaderReplay:
		t.Replay = strings.Clone(v)
		err = checkWord(v, maxReplay)
	case HeaderFanOut:
		n, err = parseDecimal(v, 1<<16-1)
		t.FanOut = int(n)
	case HeaderTier:
		t.Tier = strings.Clone(cutText(v, maxTier))
	}
	return has, err
}

// maxMs is the last millisecond that time.Time prints as a year of four digits.
const maxMs = 253402300799999

// StripTicket appends to dst what a copy takes over from a record: the headers of its event
// (ce_*, content-type, traceparent, hl_*) without the ticket. Foreign headers are left
// behind, so that no producer can make a retry copy larger than the broker takes. Values are
// shared with headers.
func StripTicket(dst, headers []kgo.RecordHeader) []kgo.RecordHeader {
	for i := range headers {
		if isEventHeader(headers[i].Key) {
			dst = append(dst, headers[i])
		}
	}
	return dst
}

func isEventHeader(key string) bool {
	switch key {
	case event.HeaderContentType, event.HeaderTraceparent:
		return true
	case HeaderEndpoint, HeaderAttempt, HeaderParks, HeaderDueMs, HeaderOrig, HeaderSeq,
		HeaderFirstMs, HeaderStatus, HeaderError, HeaderReason, HeaderReplay, HeaderTier, HeaderFanOut:
		return false
	}
	return strings.HasPrefix(key, "ce_") || strings.HasPrefix(key, "hl_")
}

// parseDecimal reads digits only, without sign, blanks or leading zeros.
func parseDecimal(s string, limit uint64) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > limit || s[0] == '+' || len(s) > 1 && s[0] == '0' {
		// The parse error would quote s, which may be long and belongs to the record.
		return 0, fmt.Errorf("want a decimal up to %d", limit)
	}
	return n, nil
}

func checkWord(s string, limit int) error {
	bad := strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
	if bad || s == "" || len(s) > limit {
		return fmt.Errorf("want 1 to %d of [A-Za-z0-9_-]", limit)
	}
	return nil
}

// cutText returns at most limit bytes of s, valid UTF-8 and on one line.
func cutText(s string, limit int) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(clean) <= limit {
		return clean
	}
	for limit > 0 && !utf8.RuneStart(clean[limit]) {
		limit--
	}
	return clean[:limit]
}
