package tier

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event"
)

// Limits of a ticket's texts.
const (
	MaxError    = 512 // bytes of hl_error; longer ones are cut
	maxEndpoint = 64
	maxReplay   = 64
)

// ErrTicket is what every error of DecodeTicket wraps: the record is poison.
var ErrTicket = errors.New("bad ticket")

// AppendHeaders appends the headers of t in a fixed order. Optional ones that are empty are
// left out, and so is an empty Endpoint, which only a dead letter may have. The values share
// one new allocation.
func (t *Ticket) AppendHeaders(dst []kgo.RecordHeader) []kgo.RecordHeader {
	text := cutText(t.Error, MaxError)
	buf := make([]byte, 0, 160+len(t.Endpoint)+len(text)+len(t.Reason)+len(t.Replay))
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
	return dst
}

// DecodeTicket reads the ticket of a delivery that waits or is due. It copies what it keeps.
// When a header occurs twice the last one counts. An error wraps ErrTicket and its text is
// fit for people.
func DecodeTicket(headers []kgo.RecordHeader) (Ticket, error) {
	var t Ticket
	seen, err := t.decode(headers)
	if err != nil {
		return t, err
	}
	for i, name := range requiredHeaders {
		if seen&(1<<i) == 0 {
			return t, fmt.Errorf("%w: header %s is missing", ErrTicket, name)
		}
	}
	return t, nil
}

// requiredHeaders are those without which a delivery cannot go on; bit i of decode's result.
var requiredHeaders = [...]string{HeaderEndpoint, HeaderAttempt, HeaderDueMs, HeaderOrig, HeaderSeq, HeaderFirstMs}

// decode stores every ticket header and returns which of the required ones occurred.
func (t *Ticket) decode(headers []kgo.RecordHeader) (seen uint, err error) {
	for i := range headers {
		h := &headers[i]
		if err := t.take(h.Key, string(h.Value)); err != nil {
			return seen, fmt.Errorf("%w: header %s: %w", ErrTicket, h.Key, err)
		}
		if at := slices.Index(requiredHeaders[:], h.Key); at >= 0 {
			seen |= 1 << at
		}
	}
	return seen, nil
}

func (t *Ticket) take(key, v string) (err error) {
	var n uint64
	switch key {
	case HeaderEndpoint:
		t.Endpoint = v
		return checkWord(v, maxEndpoint)
	case HeaderAttempt:
		n, err = parseDecimal(v, 1<<16-1)
		t.Attempt = int(n)
	case HeaderParks:
		n, err = parseDecimal(v, 1<<31-1)
		t.Parks = int(n)
	case HeaderDueMs:
		n, err = parseDecimal(v, maxMs)
		t.DueMs = int64(n)
	case HeaderOrig:
		t.Orig, err = ParseOrig(v)
	case HeaderSeq:
		t.Seq, err = parseDecimal(v, 1<<64-1)
	case HeaderFirstMs:
		n, err = parseDecimal(v, maxMs)
		t.FirstMs = int64(n)
	case HeaderStatus:
		n, err = parseDecimal(v, 999)
		t.Status = int(n)
	case HeaderError:
		t.Error = cutText(v, MaxError)
	case HeaderReason:
		t.Reason = Reason(v)
		return checkWord(v, 32)
	case HeaderReplay:
		t.Replay = v
		return checkWord(v, maxReplay)
	}
	return err
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
		HeaderFirstMs, HeaderStatus, HeaderError, HeaderReason, HeaderReplay:
		return false
	}
	return strings.HasPrefix(key, "ce_") || strings.HasPrefix(key, "hl_")
}

// parseDecimal reads digits only, without sign, blanks or leading zeros.
func parseDecimal(s string, limit uint64) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > limit || s[0] == '+' || len(s) > 1 && s[0] == '0' {
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
