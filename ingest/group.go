package ingest

import (
	"context"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event"
)

// grouped is one record of a group.
type grouped struct {
	outgoing // first, see finish
	// err is written before done is set and read after.
	err  error
	done atomic.Bool
}

// chunk is the memory of some records of a group, in one allocation.
type chunk struct {
	records [chunkRecords]grouped
	text    [chunkRecords * eventText]byte
}

const chunkRecords = 32

// group is the events of one batch on their way to the broker. All of them are handed over
// together and waited for once, with one deadline; each has an outcome of its own. A group is
// never used again: the client may still hold a record of one that was given up.
//
// add and records belong to the goroutine of the request.
type group struct {
	p       *producer
	who     *share // of what waits
	records []*grouped
	bytes   int64
	now     time.Time

	chunk *chunk
	used  int    // of chunk.records
	text  []byte // of chunk.text, what is taken

	slot int64
	mark int64
	left atomic.Int32
	all  chan struct{} // closed by the last promise
}

func newGroup(p *producer, who *share, now time.Time) *group {
	return &group{p: p, who: who, now: now, used: chunkRecords, all: make(chan struct{})}
}

// newID makes the id of the next event, derived from key if there is one.
func (g *group) newID(e *event.Event, key []byte) {
	g.room()
	at := len(g.text)
	if key == nil {
		g.text = event.AppendNewID(g.text)
	} else {
		g.text = event.AppendDerivedID(g.text, e.Tenant, e.Type, e.MessageID, aliased(key))
	}
	e.ID = aliased(g.text[at:])
}

// add makes the record of e, which it does not keep: the record aliases e's body and strings.
func (g *group) add(e *event.Event) *grouped {
	g.room()
	r := &g.chunk.records[g.used]
	g.used++
	var headers []kgo.RecordHeader
	headers, g.text = e.HeadersIn(r.headers[:0], g.text)
	r.record = kgo.Record{Topic: g.p.topic, Key: e.Key(), Value: e.Body, Headers: headers}
	g.records = append(g.records, r)
	g.bytes += recordBytes(&r.record)
	return r
}

// room makes sure of the memory for one more event.
func (g *group) room() {
	if g.used < chunkRecords {
		return
	}
	g.chunk, g.used = new(chunk), 0
	g.text = g.chunk.text[:0]
}

// recordBytes is what a record counts for in the admission.
func recordBytes(r *kgo.Record) int64 { return int64(len(r.Value)) + recordOverhead }

// reserve takes the room that the group needs, or says why it may not be handed over. The client
// would refuse some records of a group that is too much for its buffer, and take later ones when
// there is room again: events of one message id would be in the log in another order than in
// the batch.
func (g *group) reserve() *problem {
	if g.bytes > g.p.maxBytes {
		return errBatchBuffer
	}
	if g.p.waiting.Add(g.bytes) > g.p.maxBytes {
		g.p.waiting.Add(-g.bytes)
		return errFull
	}
	g.who.wait(g.bytes)
	return nil
}

// publish hands all records over, in order, and returns when each is finished or the deadline
// has come. Then outcome tells of each. The room for them was reserved.
func (g *group) publish() {
	p := g.p
	g.left.Store(int32(len(g.records)))
	g.slot, g.mark = p.stall.add(g.now), p.wire.mark()
	promise := g.finish
	for _, r := range g.records {
		p.client.TryProduce(context.Background(), &r.record, promise)
	}
	timer := time.NewTimer(p.timeout)
	defer timer.Stop()
	select {
	case <-g.all:
		p.metrics.ackSeconds.Observe(time.Since(g.now).Seconds())
	case <-timer.C:
		p.trouble(errNoAck)
	}
}

// finish is the promise of each record. The client calls it with the record that it was given,
// which is the first field of the grouped one.
func (g *group) finish(record *kgo.Record, err error) {
	r := (*grouped)(unsafe.Pointer(record))
	bytes := recordBytes(record)
	g.p.waiting.Add(-bytes)
	g.who.wait(-bytes)
	r.err = g.p.outcome(record, err, g.mark)
	g.p.metrics.finished(r.err)
	r.done.Store(true)
	if g.left.Add(-1) == 0 {
		g.p.stall.done(g.slot)
		close(g.all)
	}
}

// outcome is why r is not known to be in the log, nil if it is.
func (g *group) outcome(r *grouped) *problem {
	if !r.done.Load() {
		return errUnknown
	}
	if r.err == nil {
		return nil
	}
	g.p.trouble(r.err)
	return problemOf(r.err)
}

// aliased is b as a string without a copy; nobody may write to b any more.
func aliased(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
