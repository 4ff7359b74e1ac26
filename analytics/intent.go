package analytics

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// intent is what a commit says beside its offset: how far the batch that begins there reaches. It is
// written before the batch is inserted, so whoever comes next inserts the same batch again under
// the same token. Readable JSON, since operators look at it with Kafka's own tools.
type intent struct {
	Version int    `json:"v"`
	Topic   string `json:"topic"`         // id of the topic that the offset is of
	End     int64  `json:"end,omitempty"` // offset behind the batch; 0 = none is announced
	AtMs    int64  `json:"at,omitempty"`  // when it was announced
	// Generation counts how often the log has lost its end: offsets were given to other records
	// then, and a token must not name two contents.
	Generation int `json:"g,omitempty"`
}

const (
	intentVersion = 1
	maxMetadata   = 4096 // the broker's default limit of commit metadata
)

// encode writes the metadata; a few dozen bytes.
func (n intent) encode() string {
	n.Version = intentVersion
	b, err := json.Marshal(n)
	if err != nil {
		panic("BUG: analytics: intent: " + err.Error()) // numbers and texts only
	}
	return string(b)
}

// decodeIntent reads metadata beside the offset at. Empty is none, and no error: somebody has set the
// offset with a tool. After an error the intent is zero.
func decodeIntent(at int64, metadata string) (intent, error) {
	if metadata == "" {
		return intent{}, nil
	}
	if len(metadata) > maxMetadata {
		return intent{}, fmt.Errorf("read commit metadata: %d bytes", len(metadata))
	}
	var n intent
	d := json.NewDecoder(bytes.NewReader([]byte(metadata)))
	if err := d.Decode(&n); err != nil {
		return intent{}, fmt.Errorf("read commit metadata: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return intent{}, errors.New("read commit metadata: something follows")
	}
	switch {
	case n.Version != intentVersion:
		return intent{}, fmt.Errorf("read commit metadata: version %d, this reader knows %d", n.Version, intentVersion)
	case n.End != 0 && n.End <= at:
		return intent{}, fmt.Errorf("read commit metadata: a batch from %d to %d", at, n.End)
	case n.Generation < 0:
		return intent{}, fmt.Errorf("read commit metadata: generation %d", n.Generation)
	}
	return n, nil
}

// topicID is how an id is written in metadata and tokens, as Kafka's own tools print it.
func topicID(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// token names the rows of [from, end) of a partition. The name of the topic tells prefixes apart, its
// id two topics of one name, the generation two records of one offset.
func token(topic, id string, partition int32, from, end int64, generation int) string {
	b := make([]byte, 0, len(topic)+96)
	b = append(b, topic...)
	b = append(b, '/')
	b = append(b, id...)
	b = append(b, '/')
	b = strconv.AppendInt(b, int64(partition), 10)
	b = append(b, '/')
	b = strconv.AppendInt(b, from, 10)
	b = append(b, '-')
	b = strconv.AppendInt(b, end, 10)
	if generation > 0 {
		b = append(b, "/g"...)
		b = strconv.AppendInt(b, int64(generation), 10)
	}
	return string(b)
}
