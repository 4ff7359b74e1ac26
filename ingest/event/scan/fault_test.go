package scan_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event/scan"
)

// steered returns a bench over a cluster of three nodes that the test may break.
func steered(t *testing.T) (*bench, *kfake.Cluster) {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(1, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	b := &brokertest.Broker{Opts: []kgo.Opt{kgo.SeedBrokers(fake.ListenAddrs()...)}, Prefix: "t."}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return &bench{b: b, cl: b.Client(t), topic: "log", ctx: ctx}, fake
}

func TestRetriableErrorsAreRetried(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets, kmsg.Metadata} {
		for _, e := range []*kerr.Error{
			kerr.NotLeaderForPartition, kerr.ReplicaNotAvailable, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch,
			kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.KafkaStorageError, kerr.LeaderNotAvailable,
			kerr.OffsetNotAvailable, kerr.RequestTimedOut, kerr.UnknownServerError, kerr.InconsistentTopicID,
		} {
			t.Run(key.Name()+"/"+e.Message, func(t *testing.T) {
				s, fake := steered(t)
				s.produce(t, s.cl, 5, unique)
				s.cl = s.b.Client(t) // nothing cached
				fault := fake.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: s.topic, Err: e, Count: 2})
				if end := s.end(t, true); end != 5 {
					t.Errorf("end = %d", end)
				}
				got, next, err := s.read(0, 5, true)
				if err != nil || next != 5 || !slices.Equal(got, seq(0, 5)) {
					t.Errorf("got %v, next %d, %v", got, next, err)
				}
				if fault.Hits() != 2 {
					t.Errorf("%d faults hit", fault.Hits())
				}
			})
		}
	}
}

func TestOtherErrorsComeBackAtOnce(t *testing.T) {
	s, fake := steered(t)
	s.produce(t, s.cl, 1, unique)
	for _, key := range []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets} {
		fault := fake.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: s.topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
		_, next, err := s.read(0, 1, false)
		if !errors.Is(err, kerr.TopicAuthorizationFailed) || next != 0 || fault.Hits() != 1 {
			t.Errorf("%s: next %d, %v, %d requests", key.Name(), next, err, fault.Hits())
		}
		fault.Remove()
	}
}

func TestLeaderChangeLosesNothing(t *testing.T) {
	s, fake := steered(t)
	tail := scan.NewTail(s.cl, s.topic, 0, 0, true)
	writer := s.b.Client(t)
	var got []int64
	for i := range 12 {
		s.produce(t, writer, 1, unique)
		if err := fake.MoveTopicPartition(s.topic, 0, int32(i%3)); err != nil {
			t.Fatal(err)
		}
		for len(got) <= i {
			recs, _, _, err := tail.Next(s.ctx, 50*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range recs {
				got = append(got, r.Offset)
			}
		}
	}
	if !slices.Equal(got, seq(0, 12)) {
		t.Errorf("got %v", got)
	}
}

func TestDeadLeaderIsLeftForTheNewOne(t *testing.T) {
	s, fake := steered(t)
	s.produce(t, s.cl, 3, unique)
	tail := scan.NewTail(s.cl, s.topic, 0, 0, false)
	if _, next, _, err := tail.Next(s.ctx, time.Millisecond); err != nil || next != 3 {
		t.Fatalf("next %d, %v", next, err)
	}
	old := fake.LeaderFor(s.topic, 0)
	if err := fake.MoveTopicPartition(s.topic, 0, (old+1)%3); err != nil {
		t.Fatal(err)
	}
	if err := fake.RemoveNode(old); err != nil {
		t.Fatal(err)
	}
	s.produce(t, s.b.Client(t), 1, unique)
	began := time.Now()
	recs, next, _, err := tail.Next(s.ctx, time.Second)
	if err != nil || next != 4 || len(recs) != 1 {
		t.Fatalf("%d records, next %d, %v", len(recs), next, err)
	}
	if d := time.Since(began); d > 4*time.Second {
		t.Errorf("took %v", d)
	}
}

func TestBrokenConnectionsAreRetried(t *testing.T) {
	s, fake := steered(t)
	s.produce(t, s.cl, 3, unique)
	for range 3 {
		fake.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
			return nil, errors.New("cut"), true
		})
	}
	if got, next, err := s.read(0, 3, false); err != nil || next != 3 || len(got) != 3 {
		t.Errorf("got %v, next %d, %v", got, next, err)
	}
}

// TestEndWaitsForANewLeaderThatIsBehind: right after a failover a fetch shows a high
// watermark that may be below acknowledged records; only ListOffsets knows that it is.
func TestEndWaitsForANewLeaderThatIsBehind(t *testing.T) {
	s, fake := steered(t)
	s.produce(t, s.cl, 4, unique)
	tail := scan.NewTail(s.cl, s.topic, 0, 2, false)
	if err := fake.MoveTopicPartition(s.topic, 0, (fake.LeaderFor(s.topic, 0)+1)%3); err != nil {
		t.Fatal(err)
	}
	behind := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: s.topic, Err: kerr.OffsetNotAvailable, Count: 3})
	fake.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		return fetchAnswer(kreq, 2), nil, true
	})
	recs, next, end, err := tail.Next(s.ctx, time.Millisecond)
	if err != nil || behind.Hits() != 3 {
		t.Fatalf("%d faults, %v", behind.Hits(), err)
	}
	// The fetch claims that the log ends at 2, ListOffsets said 4: not at the end, no record
	// stepped over.
	if len(recs) != 0 || next != 2 || end != 4 {
		t.Errorf("%d records, next %d, end %d", len(recs), next, end)
	}
	if recs, next, end, err = tail.Next(s.ctx, time.Millisecond); err != nil || len(recs) != 2 || next != 4 || end != 4 {
		t.Errorf("then %d records, next %d, end %d, %v", len(recs), next, end, err)
	}
}

func TestOneEmptyAnswerBelowTheEndSkipsNothing(t *testing.T) {
	s, fake := steered(t)
	s.produce(t, s.cl, 4, unique)
	for empty := range 4 {
		showEmpty(fake, empty, 4)
		got, next, err := s.read(0, 4, true)
		if err != nil || next != 4 {
			t.Fatalf("%d empty answers: next %d, %v", empty, next, err)
		}
		// Three times empty means empty: the tail of the log was compacted away.
		if want := 4; empty < 3 && len(got) != want || empty >= 3 && len(got) != 0 {
			t.Errorf("%d empty answers: got %v", empty, got)
		}
	}
}

func TestHoleInFrontOfLaterRecords(t *testing.T) {
	s, fake := steered(t)
	s.produce(t, s.cl, 2, unique)
	showEmpty(fake, 3, 2)
	tail := scan.NewTail(s.cl, s.topic, 0, 0, false)
	if recs, next, end, err := tail.Next(s.ctx, time.Millisecond); err != nil || len(recs) != 0 || next != 2 || end != 2 {
		t.Fatalf("%d records, next %d, end %d, %v", len(recs), next, end, err)
	}
	s.produce(t, s.cl, 1, unique)
	if recs, next, _, err := tail.Next(s.ctx, time.Second); err != nil || len(recs) != 1 || next != 3 {
		t.Errorf("%d records, next %d, %v", len(recs), next, err)
	}
}

func TestAnswerWithoutThePartitionIsRetried(t *testing.T) {
	s, fake := steered(t)
	s.produce(t, s.cl, 2, unique)
	fake.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		return kreq.ResponseKind(), nil, true // as a broker answers a client over its quota
	})
	if got, next, err := s.read(0, 2, false); err != nil || next != 2 || len(got) != 2 {
		t.Errorf("got %v, next %d, %v", got, next, err)
	}
}

func TestRefusedOffsetInsideTheLog(t *testing.T) {
	s, fake := steered(t)
	s.produce(t, s.cl, 4, unique)
	fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: s.topic, Err: kerr.OffsetOutOfRange, Count: 1})
	if got, next, err := s.read(2, 4, false); err != nil || next != 4 || len(got) != 2 {
		t.Errorf("got %v, next %d, %v", got, next, err)
	}
}

func TestTopicMadeAgainIsAnError(t *testing.T) {
	s, fake := steered(t)
	s.produce(t, s.cl, 2, unique)
	tail := scan.NewTail(s.cl, s.topic, 0, 0, false)
	if _, next, _, err := tail.Next(s.ctx, time.Millisecond); err != nil || next != 2 {
		t.Fatalf("next %d, %v", next, err)
	}
	if err := fake.DeleteTopic(s.topic); err != nil {
		t.Fatal(err)
	}
	if err := fake.CreateTopic(s.topic, 1, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := tail.Next(s.ctx, time.Millisecond); !errors.Is(err, scan.ErrTopicReplaced) {
		t.Errorf("err = %v", err)
	}
}

func TestCompactedLogIsReadToItsEnd(t *testing.T) {
	s := setup(t, map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
	s.produce(t, s.cl, 6, same)
	s.txn(t, 3, kgo.TryAbort)
	s.txn(t, 1, kgo.TryCommit)
	s.settled(t, 12)
	if fake := s.b.Fake(); fake != nil {
		fake.Compact()
	}
	// kfake moves the log's start to the first record that survives, Kafka leaves it.
	start, err := scan.Start(s.ctx, s.cl, s.topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	for from := start; from <= 12; from++ {
		_, next, err := s.read(from, s.end(t, true), true)
		if err != nil || next != max(from, 12) {
			t.Errorf("from %d: next %d, %v", from, next, err)
		}
	}
	got, _, _ := s.read(start, 12, true)
	if len(got) == 0 || got[len(got)-1] != 10 || (s.b.Fake() != nil && !slices.Equal(got, []int64{5, 10})) {
		t.Errorf("records at %v", got)
	}
}

// showEmpty makes the next n fetches come back empty although the log ends at end.
func showEmpty(fake *kfake.Cluster, n int, end int64) {
	for range n {
		fake.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			return fetchAnswer(kreq, end), nil, true
		})
	}
}

// fetchAnswer is an answer without records that shows the given end.
func fetchAnswer(kreq kmsg.Request, end int64) kmsg.Response {
	req := kreq.(*kmsg.FetchRequest)
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	rt := kmsg.NewFetchResponseTopic()
	rt.Topic, rt.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
	rp := kmsg.NewFetchResponseTopicPartition()
	rp.Partition = req.Topics[0].Partitions[0].Partition
	rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset = end, end, 0
	rt.Partitions = append(rt.Partitions, rp)
	resp.Topics = append(resp.Topics, rt)
	return resp
}
