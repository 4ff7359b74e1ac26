package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/valyala/fasthttp"

	"github.com/hookline/hookline/bench/receiver"
	"github.com/hookline/hookline/ingest/event"
)

const (
	baselineName = "ingest -> broker -> net/http worker -> receiver"
	// baselineWorkers post at once: what one endpoint of hookline may have in flight.
	baselineWorkers = 64
	// baselinePartitions when the events topic cannot be asked for its count.
	baselinePartitions = 12
)

// baseline is the least that could be called the same job: an HTTP handler that answers
// 202 after acks=all, a topic of the shape of events, a consumer group, and workers that
// POST the body. No signature, no record of attempts, no retries, no ledger: its offsets
// are committed whether or not a POST went well.
type baseline struct {
	topic    string
	id       string
	producer *kgo.Client
	consumer *kgo.Client
	adm      *kadm.Client
	server   *fasthttp.Server
	ln       net.Listener
	urls     []string
	paths    []string
	client   *http.Client
	next     atomic.Int64
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	mu  sync.Mutex // guards err
	err error      // first failure of a worker
}

func startBaseline(ctx context.Context, s Stack, id string, rcv *receiver.Receiver, endpoints int) (b *baseline, err error) {
	b = &baseline{id: id, topic: s.Prefix() + id}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.stop())
		}
	}()
	for i := range endpoints {
		path := "/" + id + "-baseline-" + strconv.Itoa(i)
		if err := rcv.Set(path, receiver.Path{}); err != nil {
			return b, err
		}
		b.paths = append(b.paths, path)
		b.urls = append(b.urls, rcv.URL()+path)
	}
	if err := b.connect(ctx, s); err != nil {
		return b, err
	}
	b.client = &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{
		MaxIdleConns: 2 * baselineWorkers, MaxIdleConnsPerHost: baselineWorkers, DisableCompression: true,
	}}
	if b.ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return b, err
	}
	b.server = &fasthttp.Server{
		Handler: b.accept, NoDefaultServerHeader: true, CloseOnShutdown: true,
		ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute,
	}
	run, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	b.wg.Go(func() { _ = b.server.Serve(b.ln) }) // ends when stop closes the listener
	jobs := make(chan *kgo.Record, baselineWorkers)
	b.wg.Go(func() { b.consume(run, jobs) })
	for range baselineWorkers {
		b.wg.Go(func() { b.work(jobs) })
	}
	return b, nil
}

// connect creates the topic and both clients.
func (b *baseline) connect(ctx context.Context, s Stack) (err error) {
	b.producer, err = kgo.NewClient(append(append([]kgo.Opt{}, s.Kafka()...),
		kgo.DefaultProduceTopic(b.topic),
		kgo.RequiredAcks(kgo.AllISRAcks()),                   // the same promise as a 202 of hookline
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), // the same partition for a message id
		kgo.ProducerLinger(time.Millisecond),                 // as ingest
		kgo.UnknownTopicRetries(-1),                          // the topic is new: its leaders are not everywhere yet
		kgo.MetadataMinAge(100*time.Millisecond),
	)...)
	if err != nil {
		return err
	}
	b.adm = kadm.NewClient(b.producer)
	if err := createLike(ctx, b.adm, s.Prefix()+event.EventsSuffix, b.topic); err != nil {
		return err
	}
	b.consumer, err = kgo.NewClient(append(append([]kgo.Opt{}, s.Kafka()...),
		kgo.ConsumeTopics(b.topic),
		kgo.ConsumerGroup(b.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100*time.Millisecond),
	)...)
	return err
}

// createLike creates a topic of the shape of the events topic.
func createLike(ctx context.Context, adm *kadm.Client, events, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	partitions, replicas := int32(baselinePartitions), int16(1)
	details, err := adm.ListTopics(ctx, events)
	if err != nil {
		return fmt.Errorf("read metadata of %s: %w", events, err)
	}
	if d, ok := details[events]; ok && d.Err == nil && len(d.Partitions) > 0 {
		partitions, replicas = int32(len(d.Partitions)), int16(d.Partitions.NumReplicas())
	}
	configs := map[string]*string{}
	for k, v := range event.EventsTopic(partitions).Configs {
		configs[k] = &v
	}
	if _, err := adm.CreateTopic(ctx, partitions, replicas, configs, topic); err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	return nil
}

func (b *baseline) target(eventType string) target {
	return target{url: "http://" + b.ln.Addr().String() + "/v1/events", key: "-", eventType: eventType, paths: b.paths}
}

// accept produces one body and answers 202 when the broker has it.
func (b *baseline) accept(ctx *fasthttp.RequestCtx) {
	body := bytes.Clone(ctx.PostBody())
	id := "evt_b" + strconv.FormatInt(b.next.Add(1), 36)
	acked := make(chan error, 1)
	b.producer.Produce(context.Background(), &kgo.Record{
		Key: receiver.MessageID(body), Value: body,
		Headers: []kgo.RecordHeader{{Key: event.HeaderID, Value: []byte(id)}},
	}, func(_ *kgo.Record, err error) { acked <- err })
	if err := <-acked; err != nil {
		ctx.Error(err.Error(), fasthttp.StatusServiceUnavailable)
		return
	}
	ctx.SetStatusCode(fasthttp.StatusAccepted)
	ctx.SetContentType("application/json")
	ctx.SetBodyString(`{"id":"` + id + `"}`)
}

// consume hands records to the workers until run ends.
func (b *baseline) consume(run context.Context, jobs chan<- *kgo.Record) {
	defer close(jobs)
	for {
		fetches := b.consumer.PollFetches(run)
		if run.Err() != nil || fetches.IsClientClosed() {
			return
		}
		fetches.EachError(func(_ string, _ int32, err error) { b.fail(err) })
		for it := fetches.RecordIter(); !it.Done(); {
			select {
			case jobs <- it.Next():
			case <-run.Done():
				return
			}
		}
	}
}

func (b *baseline) work(jobs <-chan *kgo.Record) {
	for r := range jobs {
		for _, url := range b.urls {
			if err := b.post(url, r); err != nil {
				b.fail(err)
			}
		}
	}
}

func (b *baseline) post(url string, r *kgo.Record) error {
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(r.Value))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Webhook-Id", string(r.Headers[0].Value))
	res, err := b.client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return errors.Join(err, res.Body.Close())
}

func (b *baseline) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
}

// failure is the first failure of a fetch or a POST, for the case that something was lost.
func (b *baseline) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// stop ends everything and removes topic and group.
func (b *baseline) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanTimeout)
	defer cancel()
	if b.server != nil {
		// An answer that is cut here is of nobody: the load has ended.
		_ = b.ln.Close()
		_ = b.server.ShutdownWithContext(ctx)
	}
	if b.cancel != nil {
		b.cancel()
	}
	b.wg.Wait()
	if b.client != nil {
		b.client.CloseIdleConnections()
	}
	if b.consumer != nil {
		b.consumer.Close()
	}
	var errs []error
	if b.adm != nil {
		if _, err := b.adm.DeleteTopic(ctx, b.topic); err != nil && !strings.Contains(err.Error(), "UNKNOWN_TOPIC") {
			errs = append(errs, fmt.Errorf("delete topic %s: %w", b.topic, err))
		}
		// The group is empty and would expire by itself.
		_, _ = b.adm.DeleteGroup(ctx, b.topic)
	}
	if b.producer != nil {
		b.producer.Close()
	}
	return errors.Join(errs...)
}
