package loadgen

import (
	"strconv"
	"time"
)

// MinSize is about the size of a body without padding.
const MinSize = 160

// Bodies writes the bodies of one run. Safe for concurrent use.
type Bodies struct {
	head, middle string
	messages     uint64
	prefix       string
	size         int
	pad          []byte
}

// NewBodies writes bodies of cfg's event type, size and message ids.
func NewBodies(cfg Config) *Bodies {
	b := &Bodies{
		head:     `{"event":"` + cfg.EventType + `","message_id":"`,
		middle:   `","status":"delivered","occurred_at":"`,
		messages: uint64(cfg.Messages),
		prefix:   cfg.MessagePrefix,
		size:     cfg.Size,
		pad:      make([]byte, max(0, cfg.Size)),
	}
	for i := range b.pad {
		b.pad[i] = "abcdefghijklmnopqrstuvwxyz"[i%26]
	}
	return b
}

// appendMessageID appends the message id of event n.
func (b *Bodies) appendMessageID(dst []byte, n uint64) []byte {
	if b.messages > 0 {
		n %= b.messages
	}
	dst = append(dst, b.prefix...)
	return strconv.AppendUint(dst, n, 36)
}

// Append appends the body of event n.
func (b *Bodies) Append(dst []byte, n uint64, now time.Time) []byte {
	from := len(dst)
	dst = append(dst, b.head...)
	dst = b.appendMessageID(dst, n)
	dst = append(dst, b.middle...)
	dst = now.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	dst = append(dst, `","n":`...)
	dst = strconv.AppendUint(dst, n, 10)
	const padding = `,"pad":"`
	if room := b.size - (len(dst) - from) - len(padding) - len(`"}`); room > 0 {
		dst = append(dst, padding...)
		dst = append(dst, b.pad[:room]...)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}
