package dispatcher

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/table"
)

// sequenceEpoch is where sequence bases count from.
var sequenceEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// sequenceShift leaves 2^20 for a topic's offsets before its base's second is over; bases of
// topics made later are above, so a sequence grows over a new topic. 2^53 lasts 272 years.
const sequenceShift = 20

// sequences keeps the base of Webhook-Sequence: sequence = base + offset in events. The base
// belongs to the topic's id and lies in control, so that every process and every later run
// computes the same number.
type sequences struct {
	admin  *kadm.Client
	writer *table.Writer
	events string

	mu    sync.Mutex
	known bool
	id    [16]byte
	value uint64
}

// sequenceRecord is the value in control under sequenceKey.
type sequenceRecord struct {
	Base uint64 `json:"base"`
}

func newSequences(base []kgo.Opt, adm *kadm.Client, t *topics, log *slog.Logger) (*sequences, error) {
	w, err := table.NewWriter(table.Config{Kafka: base, Topic: t.control, Log: log}, t.control)
	if err != nil {
		return nil, fmt.Errorf("open writer of %s: %w", t.control, err)
	}
	return &sequences{admin: adm, writer: w, events: t.events}, nil
}

func (s *sequences) close() { s.writer.Close() }

// newBase is the base of a topic first seen now: above every base in use, also when a topic
// is made twice within a second or the clock has gone back.
func newBase(now time.Time, view table.View) (uint64, error) {
	base := uint64(max(0, now.Sub(sequenceEpoch)/time.Second)) << sequenceShift
	var failed error
	view.Each(func(key string, e table.Entry) bool {
		if !strings.HasPrefix(key, sequencePrefix) {
			return true
		}
		var other sequenceRecord
		if failed = json.Unmarshal(e.Value, &other); failed != nil {
			failed = fmt.Errorf("read %s: %w", key, failed)
			return false
		}
		base = max(base, other.Base+1<<sequenceShift)
		return true
	})
	return base, failed
}

// sequencePrefix begins the keys of bases in control.
const sequencePrefix = "sequence/"

func sequenceKey(id [16]byte) string {
	return sequencePrefix + base64.RawURLEncoding.EncodeToString(id[:])
}

// base returns the id of the events topic and its base; the first process to see a topic
// makes its base, by compare-and-set.
func (s *sequences) base(ctx context.Context) ([16]byte, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known {
		return s.id, s.value, nil
	}
	topics, err := s.admin.ListTopics(ctx, s.events)
	if err == nil {
		err = topics.Error()
	}
	if err != nil {
		return s.id, 0, fmt.Errorf("look up id of %s: %w", s.events, err)
	}
	id := [16]byte(topics[s.events].ID)
	var rec sequenceRecord
	_, err = s.writer.Update(ctx, func(view table.View) ([]table.Change, error) {
		key := sequenceKey(id)
		if e, ok := view.Get(key); ok {
			return nil, json.Unmarshal(e.Value, &rec)
		}
		var err error
		if rec.Base, err = newBase(time.Now(), view); err != nil {
			return nil, err
		}
		value, err := json.Marshal(rec)
		return []table.Change{{Key: key, Value: value}}, err
	})
	if err != nil {
		return id, 0, fmt.Errorf("read sequence base of %s: %w", s.events, err)
	}
	s.id, s.value, s.known = id, rec.Base, true
	return s.id, s.value, nil
}
