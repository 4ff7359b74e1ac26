package tier

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// topicIDText is the encoding of a topic id: 22 characters, as Kafka's own tools print it.
var topicIDText = base64.RawURLEncoding.Strict()

const topicIDLen = 22

// AppendText appends the text form: TOPIC-ID:PARTITION:OFFSET.
func (o Orig) AppendText(dst []byte) ([]byte, error) { return o.append(dst), nil }

func (o Orig) append(dst []byte) []byte {
	dst = topicIDText.AppendEncode(dst, o.TopicID[:])
	dst = append(dst, ':')
	dst = strconv.AppendInt(dst, int64(o.Partition), 10)
	dst = append(dst, ':')
	return strconv.AppendInt(dst, o.Offset, 10)
}

// String returns the text form.
func (o Orig) String() string { return string(o.append(nil)) }

// ParseOrig reads the text form.
func ParseOrig(s string) (Orig, error) {
	var o Orig
	if len(s) < topicIDLen+4 || s[topicIDLen] != ':' {
		return Orig{}, fmt.Errorf("parse orig: want TOPIC-ID:PARTITION:OFFSET")
	}
	if _, err := topicIDText.Decode(o.TopicID[:], []byte(s[:topicIDLen])); err != nil {
		return Orig{}, fmt.Errorf("parse topic id of orig: %w", err)
	}
	partition, offset, ok := strings.Cut(s[topicIDLen+1:], ":")
	if !ok {
		return Orig{}, fmt.Errorf("parse orig: want TOPIC-ID:PARTITION:OFFSET")
	}
	p, err := parseDecimal(partition, 1<<31-1)
	if err != nil {
		return Orig{}, fmt.Errorf("parse partition of orig: %w", err)
	}
	at, err := parseDecimal(offset, 1<<63-1)
	if err != nil {
		return Orig{}, fmt.Errorf("parse offset of orig: %w", err)
	}
	o.Partition, o.Offset = int32(p), int64(at)
	return o, nil
}
