package ingest

import (
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hookline/hookline/ingest/event"
)

// hold makes the broker sit on every produce request until the returned function is called;
// held is closed at the first one.
func hold(t testing.TB, fake *kfake.Cluster) (held <-chan struct{}, release func()) {
	t.Helper()
	first, gate := make(chan struct{}), make(chan struct{})
	var once sync.Once
	fake.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		once.Do(func() { close(first) })
		fake.SleepControl(func() { <-gate })
		return nil, nil, false
	})
	release = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(release)
	return first, release
}

// fail makes the broker answer the next n produce requests with an error, fewer if n is set
// to less meanwhile.
func fail(fake *kfake.Cluster, code *kerr.Error, n *atomic.Int32) { failPartition(fake, -1, code, n) }

// failPartition is fail for one partition alone, -1 for all: the broker acknowledges what is for
// others and forgets it.
func failPartition(fake *kfake.Cluster, partition int32, code *kerr.Error, n *atomic.Int32) {
	fake.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		if n.Add(-1) < 0 {
			return nil, nil, false
		}
		produce := req.(*kmsg.ProduceRequest)
		resp := produce.ResponseKind().(*kmsg.ProduceResponse)
		for _, topic := range produce.Topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = topic.Topic, topic.TopicID
			for _, p := range topic.Partitions {
				rp := kmsg.NewProduceResponseTopicPartition()
				if rp.Partition = p.Partition; partition < 0 || partition == p.Partition {
					rp.ErrorCode = code.Code
				}
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
}

func TestUnknownOutcomeThenShutDoorThenOpen(t *testing.T) {
	t.Parallel()
	r, fake := startFake(t)
	if a := r.post(goodBody); a.status != 202 {
		t.Fatal(a)
	}
	_, release := hold(t, fake)
	begin := time.Now()
	a := r.post(goodBody, "Idempotency-Key", "k")
	if took := time.Since(begin); a.status != 504 || a.Code != "unknown_outcome" || took > 2*time.Second {
		t.Fatalf("after %s: %s", took, a)
	}
	documented(t, PathEvents, a)

	begin = time.Now()
	a = r.post(goodBody)
	if took := time.Since(begin); a.status != 503 || a.Code != "unavailable" || took > 500*time.Millisecond {
		t.Fatalf("after %s: %s", took, a)
	}
	documented(t, PathEvents, a)
	if n, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || n < 1 {
		t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
	}
	if age := r.metric("hookline_ingest_oldest_unacked_seconds"); age < 1 {
		t.Errorf("oldest unacknowledged event is %vs old", age)
	}

	release()
	eventually(t, func() bool { return r.post(goodBody, "Idempotency-Key", "k").status == 202 })
	eventually(t, func() bool { return r.metric("hookline_ingest_waiting_bytes") == 0 })
	if failed := r.metric("hookline_ingest_failed_events_total"); failed != 0 {
		t.Errorf("%v events failed", failed)
	}
	accepted, acked := r.metric("hookline_ingest_requests_total", "code", "accepted"), r.metric("hookline_ingest_acked_events_total")
	if acked != accepted+1 {
		t.Errorf("%v events acknowledged, %v accepted: the late one must be the only difference", acked, accepted)
	}
}

func TestDoorIsShutAbove80PercentOfTheBuffer(t *testing.T) {
	r, fake := startFake(t, func(c *Config) {
		c.APIKeys = c.APIKeys[:1] // who is alone may have all of it
		c.MaxBody, c.StallAfter, c.AckTimeout = 1000, maxStall, 10*time.Second
		c.MaxBufferedBytes = 4 * (1000 + event.HeaderRoom)
	})
	_, release := hold(t, fake)
	const each, fit = 600 + recordOverhead, 22 // 80 % of 69,536 bytes is passed by the 22nd
	answers := make(chan answer, fit)
	for n := range fit {
		go func() { answers <- r.post(padded(600)) }()
		eventually(t, func() bool { return r.metric("hookline_ingest_waiting_bytes") == float64((n+1)*each) })
	}
	if a := r.post(padded(600)); a.status != 503 || a.Code != "unavailable" || a.header.Get("Retry-After") == "" {
		t.Error(a)
	}
	release()
	for range fit {
		if a := <-answers; a.status != 202 {
			t.Error(a)
		}
	}
	if a := r.post(goodBody); a.status != 202 {
		t.Errorf("after the buffer is empty: %s", a)
	}
}

func TestBrokerErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    *kerr.Error
		n      int32
		status int
		code   string
	}{
		{kerr.MessageTooLarge, 1, 413, "too_large"},
		{kerr.TopicAuthorizationFailed, 1, 503, "unavailable"},
		{kerr.InvalidRecord, 1, 503, "unavailable"},
		{kerr.NotEnoughReplicas, 2, 202, ""}, // the client repeats it
		{kerr.NotEnoughReplicas, 1000, 504, "unknown_outcome"},
		{kerr.NotEnoughReplicasAfterAppend, 1000, 504, "unknown_outcome"},
		{kerr.KafkaStorageError, 1000, 504, "unknown_outcome"},
		{kerr.NotLeaderForPartition, 2, 202, ""},
		{kerr.UnknownServerError, 1, 504, "unknown_outcome"},
	} {
		t.Run(c.err.Message+" x"+strconv.Itoa(int(c.n)), func(t *testing.T) {
			r, fake := startFake(t)
			var n atomic.Int32
			n.Store(c.n)
			fail(fake, c.err, &n)
			if a := r.post(goodBody); a.status != c.status || a.Code != c.code {
				t.Error(a)
			}
			n.Store(0)
		})
	}
}

func TestBrokerGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	r, fake := startFake(t)
	if a := r.post(goodBody); a.status != 202 {
		t.Fatal(a)
	}
	var back atomic.Bool
	fake.Control(func(kmsg.Request) (kmsg.Response, error, bool) { // every connection breaks
		fake.KeepControl()
		return nil, net.ErrClosed, !back.Load()
	})
	if a := r.post(goodBody); a.status != 504 {
		t.Errorf("first request of the outage: %s", a)
	}
	if a := r.post(goodBody); a.status != 503 {
		t.Errorf("second request of the outage: %s", a)
	}
	if err := r.server.Ready(); err != nil {
		t.Errorf("not ready in an outage: %v", err)
	}
	back.Store(true)
	eventually(t, func() bool { return r.post(goodBody).status == 202 })
}

func TestStopAnswersWhatWasTaken(t *testing.T) {
	r, fake := startFake(t, func(c *Config) { c.AckTimeout, c.StallAfter = 20*time.Second, maxStall })
	held, release := hold(t, fake)
	answers := make(chan answer, 16)
	for range cap(answers) {
		go func() { answers <- r.post(goodBody) }()
	}
	<-held
	eventually(t, func() bool { return r.metric("hookline_ingest_waiting_bytes") >= 16*recordOverhead })
	stopped := make(chan error)
	go func() { stopped <- r.stop() }()
	eventually(t, func() bool { return r.server.Ready() != nil })
	eventually(t, func() bool { // the listener is closed while requests are open
		conn, err := net.Dial("tcp", r.addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	select {
	case err := <-stopped:
		t.Fatalf("Run returned (%v) with requests in flight", err)
	default:
	}
	release()
	for range cap(answers) {
		if a := <-answers; a.status != 202 {
			t.Errorf("request in flight at the stop: %s", a)
		}
	}
	if err := <-stopped; err != nil {
		t.Errorf("Run returned %v", err)
	}
}

func TestStopBeforeTheBrokerIsReached(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	r := launch(t, seeds(ln.Addr().String()), "x.")
	if a := r.post(goodBody); a.status != 503 || a.Code != "unavailable" {
		t.Error(a)
	}
	if a := r.do("GET", "/healthz", ""); a.status != 200 {
		t.Error(a)
	}
	if a := r.do("GET", "/readyz", ""); a.status != 503 || a.Detail == "" {
		t.Error(a)
	}
	if err := r.stop(); err != nil {
		t.Errorf("Run returned %v", err)
	}
}
