package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/ingest/event/scan"
)

// told is what a publisher learned about one event; n in its body says which it is.
type told struct {
	n      int64
	status int // 0 = no answer
	id     string
	at     ack // of a single event that was accepted
	single bool
}

// publishers post events one by one and in batches until they are stopped, and keep every
// answer.
type publishers struct {
	room *room
	n    atomic.Int64
	stop chan struct{}
	wait sync.WaitGroup

	mu     sync.Mutex
	told   []told
	seen   map[int]bool // statuses since forget
	odd    []string     // answers that no publisher should get
	opened chan struct{}
}

func publish(r *room, workers int) *publishers {
	p := &publishers{room: r, stop: make(chan struct{}), opened: make(chan struct{}, 1), seen: map[int]bool{}}
	for w := range workers {
		p.wait.Go(func() {
			for round := 0; ; round++ {
				select {
				case <-p.stop:
					return
				default:
				}
				if w%4 == 3 {
					p.batch(2 + round%6)
				} else {
					p.one()
				}
			}
		})
	}
	return p
}

func eventBody(n int64) string {
	return fmt.Sprintf(`{"event":"a.b","message_id":"m-%d","n":%d}`, n%50, n)
}

func (p *publishers) keep(all ...told) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, all...)
	for _, t := range all {
		p.seen[t.status] = true
		switch t.status {
		case 202:
			select {
			case p.opened <- struct{}{}:
			default:
			}
		case 0, 413, 503, 504:
		default:
			p.odd = append(p.odd, fmt.Sprint(t.status))
		}
	}
}

// has says whether anybody got this status since forget.
func (p *publishers) has(status int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[status]
}

func (p *publishers) count(status int) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.told {
		if t.status == status {
			n++
		}
	}
	return n
}

func (p *publishers) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.seen)
}

// refused waits as a polite client would.
func refused(status int) {
	if status != 202 {
		<-time.After(2 * time.Millisecond)
	}
}

func (p *publishers) one() {
	t := told{n: p.n.Add(1), single: true}
	status, body := p.send(PathEvents, eventBody(t.n), "application/json")
	var a answer
	if status == 202 && json.Unmarshal(body, &a) != nil {
		status = -1
	}
	t.status, t.id, t.at = status, a.ID, ack{a.Partition, a.Offset}
	p.keep(t)
	refused(status)
}

func (p *publishers) batch(size int) {
	var lines strings.Builder
	all := make([]told, size)
	for i := range all {
		all[i].n = p.n.Add(1)
		lines.WriteString(eventBody(all[i].n) + "\n")
	}
	status, body := p.send(PathBatch, lines.String(), "application/x-ndjson")
	var verdict struct {
		Items []struct {
			Status int
			ID     string
		}
	}
	told207 := status == 202 || status == 207
	if told207 && (json.Unmarshal(body, &verdict) != nil || len(verdict.Items) != size) {
		status, told207 = -1, false
	}
	for i := range all {
		all[i].status = status
		if told207 {
			all[i].status, all[i].id = verdict.Items[i].Status, verdict.Items[i].ID
		}
	}
	p.keep(all...)
	refused(status)
}

func (p *publishers) send(path, body, contentType string) (int, []byte) {
	req, err := http.NewRequest(http.MethodPost, "http://"+p.room.addr+path, strings.NewReader(body))
	if err != nil {
		return -1, nil
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Authorization", "Bearer secret")
	resp, err := p.room.http.Do(req)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil
	}
	return resp.StatusCode, raw
}

// end stops the publishers.
func (p *publishers) end() {
	close(p.stop)
	p.wait.Wait()
}

// audit holds every answer against the log: what was accepted is in it where the answer says,
// what was refused, or not answered at all, is not.
func (p *publishers) audit(t *testing.T, opts []kgo.Opt, topic string) {
	t.Helper()
	log := readEvents(t, opts, topic)
	counts := map[int]int{}
	for _, a := range p.told {
		counts[a.status]++
		recs := log[a.n]
		if a.status == 504 {
			continue
		}
		if a.status != 202 {
			if len(recs) != 0 {
				t.Errorf("event %d was answered %d and is in the log at %d/%d", a.n, a.status, recs[0].Partition, recs[0].Offset)
			}
			continue
		}
		found := false
		for _, r := range recs {
			e, err := event.Decode(r)
			if err != nil {
				t.Fatal(err)
			}
			found = found || e.ID == a.id && (!a.single || a.at == ack{r.Partition, r.Offset})
		}
		if !found {
			t.Errorf("event %d was accepted as %s at %+v and is not there; the log has it %d times", a.n, a.id, a.at, len(recs))
		}
	}
	twice := 0
	for _, recs := range log {
		twice += len(recs) - 1
	}
	t.Logf("%d events by answer: %v, %d in the log, %d repeats", len(p.told), counts, len(log), twice)
	if len(p.odd) > 0 {
		t.Errorf("odd answers: %v", p.odd)
	}
	if counts[202] == 0 {
		t.Error("nothing was accepted")
	}
}

// readEvents returns the records of the topic by the n in their body.
func readEvents(t *testing.T, opts []kgo.Opt, topic string) map[int64][]*kgo.Record {
	t.Helper()
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	listed, err := kadm.NewClient(cl).ListTopics(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	out := map[int64][]*kgo.Record{}
	for partition := range int32(len(listed[topic].Partitions)) {
		end, err := scan.End(ctx, cl, topic, partition, false)
		if err != nil {
			t.Fatal(err)
		}
		_, err = scan.Range(ctx, cl, scan.Spec{Topic: topic, Partition: partition, Until: end}, func(r *kgo.Record) error {
			var body struct{ N int64 }
			if err := json.Unmarshal(r.Value, &body); err != nil {
				return err
			}
			out[body.N] = append(out[body.N], r)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// impatient makes a server that gives up soon, so that many faults fit into a test.
func impatient(c *Config) {
	c.AckTimeout, c.StallAfter = 400*time.Millisecond, 200*time.Millisecond
}

// randomFault is one of every class that a broker, or the way to it, can show.
func randomFault(rng *rand.Rand) fault {
	pick := func(codes ...*kerr.Error) *kerr.Error { return codes[rng.IntN(len(codes))] }
	switch rng.IntN(10) {
	case 0:
		return fault{kind: cutBare}
	case 1:
		return fault{kind: cutHalf}
	case 2, 3:
		return fault{kind: cutAfter}
	case 4:
		return fault{kind: late, wait: time.Duration(rng.IntN(600)) * time.Millisecond}
	case 5: // the client repeats it
		return fault{kind: refuse, code: pick(kerr.NotLeaderForPartition, kerr.NotEnoughReplicas, kerr.KafkaStorageError, kerr.RequestTimedOut, kerr.LeaderNotAvailable, kerr.ThrottlingQuotaExceeded)}
	case 6: // the client's own sequence is in doubt
		return fault{kind: refuse, code: pick(kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.InvalidProducerEpoch)}
	case 7, 8: // the end of the record
		return fault{kind: refuse, code: pick(kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.MessageTooLarge, kerr.InvalidRecord, kerr.UnknownTopicOrPartition, kerr.UnknownServerError, kerr.PolicyViolation, kerr.CorruptMessage)}
	}
	return fault{kind: lie, code: pick(kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut, kerr.NotLeaderForPartition, kerr.KafkaStorageError, kerr.UnknownServerError, kerr.DuplicateSequenceNumber)}
}

// TestEveryAnswerIsTrueUnderFaults spoils fifty produce requests at random while events are
// published one by one and in batches, then stops the server under load.
func TestEveryAnswerIsTrueUnderFaults(t *testing.T) {
	t.Parallel()
	b := brokertest.Start(t)
	b.CreateTopics(t, event.EventsTopic(4))
	const faults = 50
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 11))
	var done atomic.Int32
	var applied []string
	s := &saboteur{}
	s.decide = func(int) fault {
		if done.Load() >= faults || rng.IntN(3) > 0 {
			return fault{}
		}
		f := randomFault(rng)
		applied = append(applied, f.String())
		done.Add(1)
		return f
	}
	r := launch(t, append(append([]kgo.Opt{}, b.Opts...), kgo.Dialer(s.dial)), b.Prefix, impatient)
	r.ready()
	p := publish(r, 8)
	eventually(t, func() bool { return done.Load() >= faults })
	<-time.After(time.Second) // what the last faults left behind is over by then
	accepted(t, p, time.Second)
	// The stop comes under load: what was taken is answered, what was not is not in the log.
	if err := r.stop(); err != nil {
		t.Errorf("Run returned %v", err)
	}
	p.end()
	p.audit(t, b.Opts, b.Prefix+event.EventsSuffix)
	if t.Failed() {
		t.Logf("faults: %s", strings.Join(applied, "; "))
	}
}

// TestRefusalAfterAnAmbiguousTryIsUnknown: the first try is appended and its answer lost, and
// what the second one is told does not take it back.
func TestRefusalAfterAnAmbiguousTryIsUnknown(t *testing.T) {
	for _, first := range []fault{{kind: cutAfter}, {kind: lie, code: kerr.NotEnoughReplicasAfterAppend}, {kind: lie, code: kerr.NotLeaderForPartition}} {
		for _, second := range []*kerr.Error{kerr.TopicAuthorizationFailed, kerr.MessageTooLarge, kerr.InvalidRecord} {
			t.Run(first.String()+" then "+second.Message, func(t *testing.T) {
				t.Parallel()
				b := brokertest.Start(t)
				b.CreateTopics(t, event.EventsTopic(1))
				s := &saboteur{decide: func(n int) fault {
					return [...]fault{1: {}, 2: first, 3: {kind: refuse, code: second}, 4: {kind: refuse, code: second}, 5: {}}[min(n, 5)]
				}}
				r := launch(t, append(append([]kgo.Opt{}, b.Opts...), kgo.Dialer(s.dial)), b.Prefix)
				r.ready()
				for n, want := range []int{202, 504} {
					if a := r.post(eventBody(int64(n))); a.status != want {
						t.Fatalf("event %d: %s, want %d", n, a, want)
					}
				}
				// Alone and refused at once: that is a refusal.
				if a := r.post(eventBody(2)); a.status != map[bool]int{true: 413, false: 503}[second == kerr.MessageTooLarge] {
					t.Errorf("event 2: %s", a)
				}
				if a := r.post(eventBody(3)); a.status != 202 {
					t.Errorf("event 3: %s", a)
				}
				log := readEvents(t, b.Opts, b.Prefix+event.EventsSuffix)
				if len(log[1]) != 1 || len(log[2]) != 0 || len(log[3]) != 1 {
					t.Errorf("in the log: event 1 %d times, 2 %d times, 3 %d times", len(log[1]), len(log[2]), len(log[3]))
				}
			})
		}
	}
}
