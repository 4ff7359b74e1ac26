package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/valyala/fasthttp"

	"github.com/hookline/hookline/bench/receiver"
	"github.com/hookline/hookline/ingest"
	"github.com/hookline/hookline/ingest/event"
)

const (
	bareSingle = "fasthttp -> produce"
	bareBatch  = "produce, no HTTP"
	bareTenant = "bench"
	bareGroups = "/groups"
)

// bare is the least that could be called ingest: a handler that copies the body, finds the
// message id by its quotes, produces the record that hookline would and answers the same
// when the broker has it. No key, no check of the body, no admission, no bound on the
// wait, no metrics. Its client has the settings of ingest, so that the difference is what
// hookline does for an event.
type bare struct {
	client *kgo.Client
	topic  string
	run    string // part of every id, so that the runs of one topic are told apart
	next   atomic.Uint64
}

// ServeBare runs the baseline of scenario ingest until ctx is done. It creates its topic, of
// the shape of the events topic, and then writes a line with its address to ready.
func ServeBare(ctx context.Context, kafka []kgo.Opt, prefix string, ready io.Writer) (err error) {
	b := &bare{topic: prefix + "bench-bare", run: strconv.FormatInt(time.Now().UnixNano(), 36)}
	opts := append(append([]kgo.Opt{}, kafka...), ingest.ProducerOptions(ingest.DefaultConfig(), bareMaxBatch)...)
	if b.client, err = kgo.NewClient(opts...); err != nil {
		return fmt.Errorf("bare ingest: %w", err)
	}
	defer b.client.Close()
	adm := kadm.NewClient(b.client)
	if err := createLike(ctx, adm, prefix+event.EventsSuffix, b.topic); err != nil {
		return fmt.Errorf("bare ingest: %w", err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("bare ingest: %w", err)
	}
	server := &fasthttp.Server{Handler: b.serve, NoDefaultServerHeader: true, CloseOnShutdown: true, MaxRequestBodySize: 8 << 20}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	fmt.Fprintf(ready, "ready bare=http://%s topic=%s\n", ln.Addr(), b.topic)
	select {
	case err = <-served:
	case <-ctx.Done():
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_, delErr := adm.DeleteTopic(end, b.topic)
		err = errors.Join(server.ShutdownWithContext(end), delErr)
	}
	if err != nil {
		return fmt.Errorf("bare ingest: %w", err)
	}
	return nil
}

// bareMaxBatch is what ingest derives for the default of a topic.
const bareMaxBatch = 1_000_012

func (b *bare) serve(ctx *fasthttp.RequestCtx) {
	switch string(ctx.Path()) {
	case ingest.PathEvents:
		b.accept(ctx)
	case bareGroups:
		b.groups(ctx)
	default:
		ctx.SetStatusCode(fasthttp.StatusNotFound)
	}
}

// accept produces one body and answers 202 when the broker has it.
func (b *bare) accept(ctx *fasthttp.RequestCtx) {
	r := b.record(bytes.Clone(ctx.PostBody()), time.Now(), b.next.Add(1))
	acked := make(chan error, 1)
	b.client.Produce(context.Background(), r, func(_ *kgo.Record, err error) { acked <- err })
	if err := <-acked; err != nil {
		ctx.Error(err.Error(), fasthttp.StatusServiceUnavailable)
		return
	}
	var stack [256]byte
	out := append(append(stack[:0], `{"id":"`...), headerID(r)...)
	out = append(append(out, `","message_id":"`...), r.Key...)
	out = strconv.AppendInt(append(out, `","partition":`...), int64(r.Partition), 10)
	out = strconv.AppendInt(append(out, `,"offset":`...), r.Offset, 10)
	ctx.SetStatusCode(fasthttp.StatusAccepted)
	ctx.SetContentType("application/json")
	ctx.SetBody(append(out, '}'))
}

// bareEventType is the type of every bare record; a type that is as long as the run's.
const bareEventType = "message.delivered.bench"

// record is the record of a body, with the headers that hookline writes.
func (b *bare) record(body []byte, now time.Time, n uint64) *kgo.Record {
	key := receiver.MessageID(body)
	e := event.Event{
		ID: b.id(n), Type: bareEventType, Source: event.PublishSource(bareTenant), MessageID: string(key), Tenant: bareTenant,
		Schema: event.DefaultSchema, ContentType: event.DefaultContentType, OccurredAt: now, AcceptedMs: now.UnixMilli(), Sequence: -1,
	}
	return &kgo.Record{Topic: b.topic, Key: key, Value: body, Headers: e.Headers(make([]kgo.RecordHeader, 0, event.MaxHeaders))}
}

func (b *bare) id(n uint64) string { return bareID(b.run, n) }

func bareID(run string, n uint64) string { return "evt_bare_" + run + "_" + strconv.FormatUint(n, 36) }

func headerID(r *kgo.Record) []byte {
	for i := range r.Headers {
		if r.Headers[i].Key == event.HeaderID {
			return r.Headers[i].Value
		}
	}
	return nil
}

// groups runs the bare batch produce and answers with what it did.
func (b *bare) groups(ctx *fasthttp.RequestCtx) {
	var load groupLoad
	if err := json.Unmarshal(ctx.PostBody(), &load); err != nil {
		ctx.Error(err.Error(), fasthttp.StatusBadRequest)
		return
	}
	out, err := json.Marshal(b.produceGroups(load))
	if err != nil {
		ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(out)
}
