package dispatcher

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/circuit"
)

// advice is a record of endpoint-state: what one dispatcher tells the others about a breaker.
// Its key is the endpoint's id; a closed breaker is a record without a value. It only ever
// delays: a reader that misses one finds out by itself.
type advice struct {
	Version int    `json:"v"`
	UntilMs int64  `json:"until_ms"` // end of the opening
	Trips   int    `json:"trips"`    // openings in a row
	Worker  string `json:"worker"`
}

const adviceVersion = 1

var errAdvice = errors.New("not an endpoint state that this version knows")

// encode returns nil for a breaker that is not open.
func (b breaker) encode(worker string) []byte {
	if b.State != circuit.Open {
		return nil
	}
	value, err := json.Marshal(advice{Version: adviceVersion, UntilMs: b.Until.UnixMilli(), Trips: b.Trips, Worker: worker})
	if err != nil {
		panic("BUG: dispatcher: endpoint state: " + err.Error()) // numbers and a text
	}
	return value
}

// decodeAdvice reads a value; nil is a closed breaker.
func decodeAdvice(value []byte) (b breaker, worker string, err error) {
	if value == nil {
		return breaker{State: circuit.Closed}, "", nil
	}
	var a advice
	if err := json.Unmarshal(value, &a); err != nil || a.Version != adviceVersion || a.Trips < 0 {
		return breaker{}, "", errAdvice
	}
	return breaker{State: circuit.Open, Until: time.UnixMilli(a.UntilMs), Trips: a.Trips}, a.Worker, nil
}

// advise tells the fleet of a breaker of ours that opened or closed. It is called with the
// gates' lock held and does not wait.
func (d *Dispatcher) advise(endpointID string, b breaker) {
	d.metrics.breakers.WithLabelValues(b.State.String()).Inc()
	r := &kgo.Record{Topic: d.topics.states, Key: []byte(endpointID), Value: b.encode(d.cfg.Worker)}
	d.copies.TryProduce(d.background, r, func(_ *kgo.Record, err error) {
		if err != nil && d.workCtx.Err() == nil {
			d.throttled.warn("endpoint state not published; other dispatchers find out by themselves", "endpoint_id", endpointID, "error", err)
		}
	})
}

// advised takes what another dispatcher told. It is the OnChange of the states' table.
func (d *Dispatcher) advised(endpointID string, value []byte, _ int64) {
	b, worker, err := decodeAdvice(value)
	if err != nil {
		d.throttled.warn("endpoint state is not understood and not followed", "endpoint_id", endpointID, "error", err)
		return
	}
	if worker != "" && worker == d.cfg.Worker {
		return
	}
	d.gates.learn(endpointID, b, time.Now())
}
