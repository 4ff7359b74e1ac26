package dispatcher

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event"
)

// decode reads a record of a lane. Ingest always names the tenant; a Kafka producer of a
// deployment with one tenant need not.
func (d *Dispatcher) decode(r *kgo.Record) (event.Event, error) {
	ev, err := event.Decode(r)
	if err != nil || ev.Tenant != "" {
		return ev, err
	}
	if d.cfg.OnlyTenant != nil {
		ev.Tenant = d.cfg.OnlyTenant()
	}
	if ev.Tenant == "" {
		return ev, fmt.Errorf("%w: header %s is missing and there is more than one tenant", event.ErrPoison, event.HeaderTenant)
	}
	return ev, nil
}

func (d *Dispatcher) place(number int32, topicID [16]byte) event.Place {
	return event.Place{TopicID: topicID, Partition: number, Partitions: d.topics.lanes}
}
