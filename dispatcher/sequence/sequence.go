package sequence

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

// Epoch is where bases count from.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Shift leaves 2^20 for a topic's offsets before its base's second is over; bases of
// topics made later are above, so a sequence grows over a new topic. 2^53 lasts 272 years.
const Shift = 20

// Bases keeps the base of Webhook-Sequence: sequence = base + offset in events. The base
// belongs to the topic's id and lies in control, so that every process and every later run
// computes the same number.
type Bases struct {
	admin  *kadm.Client
	writer *table.Writer
	events string

	mu    sync.Mutex
	known bool
	id    [16]byte
	value uint64
}

// Record is the value in control under Key.
type Record struct {
	Base uint64 `json:"base"`
}

// New returns the base of the topic events, kept in the topic control; both are full names. It
// sends nothing until Base.
func New(kafka []kgo.Opt, adm *kadm.Client, control, events string, log *slog.Logger) (*Bases, error) {
	w, err := table.NewWriter(table.Config{Kafka: kafka, Topic: control, Log: log}, control)
	if err != nil {
		return nil, fmt.Errorf("open writer of %s: %w", control, err)
	}
	return &Bases{admin: adm, writer: w, events: events}, nil
}

// Close releases the clients.
func (s *Bases) Close() { s.writer.Close() }

// newBase is the base of a topic first seen now: above every base in use, also when a topic
// is made twice within a second or the clock has gone back.
func newBase(now time.Time, view table.View) (uint64, error) {
	base := uint64(max(0, now.Sub(Epoch)/time.Second)) << Shift
	var failed error
	view.Each(func(key string, e table.Entry) bool {
		if !strings.HasPrefix(key, Prefix) {
			return true
		}
		var other Record
		if failed = json.Unmarshal(e.Value, &other); failed != nil {
			failed = fmt.Errorf("read %s: %w", key, failed)
			return false
		}
		base = max(base, other.Base+1<<Shift)
		return true
	})
	return base, failed
}

// Prefix begins the keys of bases in control.
const Prefix = "sequence/"

// Key is where the base of a topic lies in control.
func Key(id [16]byte) string {
	return Prefix + base64.RawURLEncoding.EncodeToString(id[:])
}

// Base returns the id of the events topic and its base; the first process to see a topic
// makes its base, by compare-and-set.
func (s *Bases) Base(ctx context.Context) ([16]byte, uint64, error) {
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
	var rec Record
	_, err = s.writer.Update(ctx, func(view table.View) ([]table.Change, error) {
		key := Key(id)
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
