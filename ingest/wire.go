package ingest

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// wire counts what the producing client sends, so that a refusal can be told from an unknown
// outcome. The client repeats a produce on its own, and its promise tells of the last try
// only: a first try may have been appended before its connection broke, and the second one be
// refused. A record that is handed over at a mark was in flight once at most if no more than
// one produce request has been written since, and the error that it ended with is the answer
// to that request if no metadata response came behind it: such a response can fail records,
// too, whatever became of them.
//
// Under load other records' requests count as well. Then the outcome is called unknown
// although it was a refusal: that costs the client a repeat, the other way round an event.
type wire struct {
	produces   atomic.Int64 // produce requests written
	atMetadata atomic.Int64 // produces when the last metadata response came
}

var (
	_ kgo.HookBrokerWrite = (*wire)(nil)
	_ kgo.HookBrokerE2E   = (*wire)(nil)
)

// mark is what once wants to know of the moment before a record is handed over.
func (w *wire) mark() int64 { return w.produces.Load() }

// once says whether an error that a record handed over at the mark ended with is all that ever
// became of it.
func (w *wire) once(mark int64) bool {
	metadata := w.atMetadata.Load() // first: a request and a response in between are not missed
	n := w.produces.Load() - mark
	return n == 0 || n == 1 && metadata <= mark
}

// OnBrokerWrite implements kgo.HookBrokerWrite. A request that broke off counts.
func (w *wire) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key == int16(kmsg.Produce) {
		w.produces.Add(1)
	}
}

// OnBrokerE2E implements kgo.HookBrokerE2E: it comes with a response, before the client acts on it.
func (w *wire) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, _ kgo.BrokerE2E) {
	if key == int16(kmsg.Metadata) {
		w.atMetadata.Store(w.produces.Load())
	}
}
