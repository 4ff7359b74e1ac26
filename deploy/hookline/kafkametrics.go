package main

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kprom"
)

// kafkaMetrics is one metrics hook for all Kafka clients of a role. The plugin's own hook
// belongs to one client: it registers at the first one, would panic at the second, and
// would disappear with the one that closes first. Its counters are summed over the clients
// here; its gauges, which ask one client, are replaced by sums.
type kafkaMetrics struct {
	*kprom.Metrics
	once sync.Once

	mu      sync.Mutex // guards clients
	clients map[*kgo.Client]struct{}
}

var (
	_ kgo.HookNewClient    = (*kafkaMetrics)(nil)
	_ kgo.HookClientClosed = (*kafkaMetrics)(nil)
)

func newKafkaMetrics(role string, reg prometheus.Registerer) *kafkaMetrics {
	m := &kafkaMetrics{clients: map[*kgo.Client]struct{}{}}
	m.Metrics = kprom.NewMetrics("hookline",
		kprom.Subsystem("kafka"),
		kprom.Registerer(countersOnly{reg}),
		kprom.WithStaticLabel(prometheus.Labels{"role": role}),
		kprom.FetchAndProduceDetail(kprom.ByTopic, kprom.Records, kprom.Batches, kprom.CompressedBytes),
	)
	labels := prometheus.Labels{"role": role}
	for _, g := range []struct {
		name, help string
		of         func(*kgo.Client) int64
	}{
		{"hookline_kafka_buffered_produce_records", "Records waiting to be produced.", (*kgo.Client).BufferedProduceRecords},
		{"hookline_kafka_buffered_produce_bytes", "Bytes waiting to be produced.", (*kgo.Client).BufferedProduceBytes},
		{"hookline_kafka_buffered_fetch_records", "Records fetched and not yet polled.", (*kgo.Client).BufferedFetchRecords},
		{"hookline_kafka_buffered_fetch_bytes", "Bytes fetched and not yet polled.", (*kgo.Client).BufferedFetchBytes},
	} {
		reg.MustRegister(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: g.name, Help: g.help, ConstLabels: labels},
			func() float64 { return m.sum(g.of) },
		))
	}
	return m
}

func (m *kafkaMetrics) sum(of func(*kgo.Client) int64) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	var total int64
	for cl := range m.clients {
		total += of(cl)
	}
	return float64(total)
}

// OnNewClient registers the plugin's metrics once.
func (m *kafkaMetrics) OnNewClient(cl *kgo.Client) {
	m.once.Do(func() { m.Metrics.OnNewClient(cl) })
	m.mu.Lock()
	m.clients[cl] = struct{}{}
	m.mu.Unlock()
}

// OnClientClosed keeps the counters: other clients of the role go on.
func (m *kafkaMetrics) OnClientClosed(cl *kgo.Client) {
	m.mu.Lock()
	delete(m.clients, cl)
	m.mu.Unlock()
}

// countersOnly leaves out the plugin's gauge functions, which close over its first client.
type countersOnly struct{ prometheus.Registerer }

func (r countersOnly) Register(c prometheus.Collector) error {
	if _, single := c.(prometheus.Metric); single {
		return nil
	}
	return r.Registerer.Register(c)
}

func (r countersOnly) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}
