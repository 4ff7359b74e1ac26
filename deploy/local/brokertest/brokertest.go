package brokertest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hookline/hookline/deploy/local"
	"github.com/hookline/hookline/ingest/event"
)

// Env names the environment variable that points the suites at a real cluster.
const Env = "HOOKLINE_TEST_BROKERS"

// setupTimeout bounds each admin step. A real broker that was just started needs seconds for
// its first topic; nothing healthy needs more than this.
const setupTimeout = 60 * time.Second

// Broker is a Kafka cluster as one test sees it.
type Broker struct {
	// Opts are the base client options: pass them as Deps.Kafka, or to Client.
	Opts []kgo.Opt
	// Prefix is unique per Start and ends in a dot, as a deployment's topic prefix does.
	Prefix string
	// Seeds are the addresses behind Opts.
	Seeds []string

	fake *kfake.Cluster
}

// Start returns a ready broker and removes everything under its prefix when the test ends.
func Start(t testing.TB) *Broker {
	t.Helper()
	b := &Broker{Prefix: newPrefix(t.Name())}
	if env := os.Getenv(Env); env != "" {
		b.Seeds = strings.Split(env, ",")
	} else {
		fake, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			t.Fatalf("start kfake: %v", err)
		}
		t.Cleanup(fake.Close)
		local.GuardCommits(fake) // a real broker refuses overlong commit metadata, so must this one
		b.fake, b.Seeds = fake, fake.ListenAddrs()
	}
	b.Opts = []kgo.Opt{
		kgo.SeedBrokers(b.Seeds...),
		kgo.DisableClientMetrics(), // a client that is closed after its broker would wait 5 s to push them
	}
	if b.fake == nil {
		t.Cleanup(func() { b.removeAll(t) })
	}
	return b
}

// Fake is the cluster behind the broker, for injecting errors; nil on a real cluster.
func (b *Broker) Fake() *kfake.Cluster { return b.fake }

// Client returns a client over Opts and opts that is closed when the test ends.
func (b *Broker) Client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(append([]kgo.Opt{}, b.Opts...), opts...)...)
	if err != nil {
		t.Fatalf("make client: %v", err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// CreateTopics creates the topics under Prefix, one replica each, and returns when every
// partition has a leader.
func (b *Broker) CreateTopics(t testing.TB, topics ...event.Topic) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	cl, err := kgo.NewClient(b.Opts...)
	if err != nil {
		t.Fatalf("make client: %v", err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	// One request for all: a real broker takes 0.4 s for each.
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(setupTimeout.Milliseconds())
	names := make([]string, 0, len(topics))
	for _, topic := range topics {
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic.Name(b.Prefix), topic.Partitions, 1
		for k, v := range topic.Configs {
			rc := kmsg.NewCreateTopicsRequestTopicConfig()
			rc.Name, rc.Value = k, kadm.StringPtr(v)
			rt.Configs = append(rt.Configs, rc)
		}
		req.Topics = append(req.Topics, rt)
		names = append(names, rt.Topic)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		t.Fatalf("create topics %v: %v", names, err)
	}
	for _, rt := range resp.Topics {
		if err := kerr.ErrorForCode(rt.ErrorCode); err != nil {
			message := ""
			if rt.ErrorMessage != nil {
				message = *rt.ErrorMessage
			}
			t.Fatalf("create topic %s: %v %s", rt.Topic, err, message)
		}
	}
	if err := waitLeaders(ctx, adm, topics, names); err != nil {
		t.Fatalf("wait for leaders of %v: %v", names, err)
	}
}

// waitLeaders returns once metadata shows a leader for every partition: a real cluster
// acknowledges a creation before its brokers have applied it.
func waitLeaders(ctx context.Context, adm *kadm.Client, topics []event.Topic, names []string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		details, err := adm.ListTopics(ctx, names...)
		if err != nil {
			return err
		}
		if allLed(details, topics, names) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func allLed(details kadm.TopicDetails, topics []event.Topic, names []string) bool {
	for i, name := range names {
		detail, ok := details[name]
		if !ok || detail.Err != nil || len(detail.Partitions) != int(topics[i].Partitions) {
			return false
		}
		for _, p := range detail.Partitions {
			if p.Err != nil || p.Leader < 0 {
				return false
			}
		}
	}
	return true
}

// removeAll deletes the topics and groups under Prefix. Its failures fail the test: leftovers
// on a shared cluster slow every later run.
func (b *Broker) removeAll(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	cl, err := kgo.NewClient(b.Opts...)
	if err != nil {
		t.Errorf("make client: %v", err)
		return
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	details, err := adm.ListTopics(ctx)
	if err != nil {
		t.Errorf("list topics: %v", err)
		return
	}
	var names []string
	for name := range details {
		if strings.HasPrefix(name, b.Prefix) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		if _, err := adm.DeleteTopics(ctx, names...); err != nil {
			t.Errorf("delete topics %v: %v", names, err)
		}
	}
	b.removeGroups(ctx, t, adm)
}

func (b *Broker) removeGroups(ctx context.Context, t testing.TB, adm *kadm.Client) {
	listed, err := adm.ListGroups(ctx)
	if err != nil {
		t.Errorf("list groups: %v", err)
		return
	}
	var groups []string
	for _, group := range listed.Groups() {
		if strings.HasPrefix(group, b.Prefix) {
			groups = append(groups, group)
		}
	}
	if len(groups) == 0 {
		return
	}
	// A group whose last member was killed by the test on purpose is not empty until its
	// session times out; it expires by itself, so one that stays is only logged.
	deleted, err := adm.DeleteGroups(ctx, groups...)
	if err != nil {
		t.Errorf("delete groups %v: %v", groups, err)
		return
	}
	for group, d := range deleted {
		if d.Err != nil {
			t.Logf("group %s is left over: %v", group, d.Err)
		}
	}
}

// newPrefix is a legal topic prefix that names the test, for whoever looks at the cluster.
func newPrefix(test string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-':
			return r
		default:
			return '-'
		}
	}, test)
	if len(clean) > 60 { // a topic name has 249 characters, and the suffix and the rest need room
		clean = clean[:60]
	}
	var b [6]byte
	rand.Read(b[:]) // never fails: crypto/rand documents it
	return clean + "-" + hex.EncodeToString(b[:]) + "."
}
