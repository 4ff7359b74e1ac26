package event

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Place is the partition of the events topic in which records are read.
type Place struct {
	TopicID    [16]byte
	Partition  int32
	Partitions int32 // of the topic
}

// Move says from where to where a record was forwarded, within one topic. It is the value of
// HeaderForwarded.
type Move struct {
	TopicID [16]byte
	From    int32
	Offset  int64 // in From
	To      int32
}

// String is the text form, TOPIC-ID:FROM:OFFSET:TO.
func (m Move) String() string {
	b := base64.RawURLEncoding.AppendEncode(make([]byte, 0, 64), m.TopicID[:])
	b = strconv.AppendInt(append(b, ':'), int64(m.From), 10)
	b = strconv.AppendInt(append(b, ':'), m.Offset, 10)
	return string(strconv.AppendInt(append(b, ':'), int64(m.To), 10))
}

// ParseMove reads the text form, and nothing else: there is one text for each move.
func ParseMove(s string) (Move, bool) {
	var m Move
	parts := strings.Split(s, ":")
	if len(parts) != 4 || len(parts[0]) != base64.RawURLEncoding.EncodedLen(len(m.TopicID)) {
		return Move{}, false
	}
	if _, err := base64.RawURLEncoding.Strict().Decode(m.TopicID[:], []byte(parts[0])); err != nil {
		return Move{}, false
	}
	from, ok1 := decimal(parts[1], 1<<31-1)
	offset, ok2 := decimal(parts[2], MaxSequence)
	to, ok3 := decimal(parts[3], 1<<31-1)
	m.From, m.Offset, m.To = int32(from), offset, int32(to)
	return m, ok1 && ok2 && ok3
}

// Misplaced says whether a record of e that was read here belongs into another partition. One
// that was forwarded to here stays, whatever its key says: two processes that count the
// partitions differently must not throw it to and fro.
func (p Place) Misplaced(e *Event) bool {
	if Partition(e.MessageID, p.Partitions) == p.Partition {
		return false
	}
	m, ok := ParseMove(e.Forwarded)
	return !ok || m.TopicID != p.TopicID || m.To != p.Partition
}

// Keyed says whether an event that was read here counts in the idempotency window of this
// partition. Ids that ingest drew come once; but a forwarded one comes again when its
// forwarder dies between the copy and the commit. A misplaced record counts where it is
// forwarded to, and only there.
func (p Place) Keyed(e *Event) bool {
	return (!IsRandomID(e.ID) || e.Forwarded != "") && !p.Misplaced(e)
}

// Forward is the record that takes the place of r, which was read here as e and is misplaced.
// Equal arguments make an equal record, so that what a crash repeats is a repeat by its id and
// body. Headers that are not ours are kept for other readers of the topic, but for hl_ names
// that no producer may set.
func (p Place) Forward(r *kgo.Record, e *Event) *kgo.Record {
	to := Partition(e.MessageID, p.Partitions)
	headers := e.Headers(make([]kgo.RecordHeader, 0, MaxHeaders+1+len(r.Headers)))
	for _, h := range r.Headers {
		if !ours(h.Key) {
			headers = append(headers, h)
		}
	}
	move := Move{TopicID: p.TopicID, From: p.Partition, Offset: r.Offset, To: to}
	headers = append(headers, kgo.RecordHeader{Key: HeaderForwarded, Value: []byte(move.String())})
	return &kgo.Record{Topic: r.Topic, Partition: to, Key: r.Key, Value: r.Value, Headers: headers}
}

// ours says whether a header's name is of the table in doc.go or reserved for hookline.
func ours(name string) bool {
	switch name {
	case HeaderSpecVersion, HeaderID, HeaderType, HeaderSource, HeaderSubject, HeaderTime, HeaderContentType, HeaderTraceparent:
		return true
	}
	return strings.HasPrefix(name, "hl_")
}
