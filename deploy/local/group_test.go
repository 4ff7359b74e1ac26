package local

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What a member that commits by itself may rely on: it subscribes to topic t, and also
// commits topic due, which the group does not subscribe to.

func join(t *testing.T, addr, instance string) *kgo.Client {
	t.Helper()
	opts := []kgo.Opt{kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(100 * time.Millisecond), kgo.RebalanceTimeout(3 * time.Second)}
	if instance != "" {
		opts = append(opts, kgo.InstanceID(instance))
	}
	cl := client(t, addr, opts...)
	wait(t, func() bool { _, generation := cl.GroupMetadata(); return generation >= 0 })
	return cl
}

// commitAs sends one OffsetCommit request with the identity given.
func commitAs(t *testing.T, cl *kgo.Client, member string, generation int32, instance *string, topic string, at int64) error {
	t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.MemberID, req.InstanceID = "g", generation, member, instance
	rt := kmsg.NewOffsetCommitRequestTopic()
	details, err := kadm.NewClient(cl).ListTopics(testContext(t), topic)
	if err != nil {
		t.Fatal(err)
	}
	rt.Topic, rt.TopicID = topic, details[topic].ID // by name up to version 9, by id from 10 on
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Offset, rp.LeaderEpoch = at, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(testContext(t), cl)
	if err != nil {
		t.Fatalf("send commit: %v", err)
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

func groupTopics(t *testing.T, addr string) {
	t.Helper()
	createTopic(t, addr, "t", 1, nil)
	createTopic(t, addr, "due", 1, nil)
	cl := client(t, addr, kgo.DefaultProduceTopic("due"))
	for range 10 {
		produce(t, cl, kgo.StringRecord("v"))
	}
}

func TestOnlyCurrentMembersCommit(t *testing.T) {
	b := start(t, t.TempDir())
	groupTopics(t, b.Addr())
	admin := client(t, b.Addr())
	cl := join(t, b.Addr(), "")
	member, generation := cl.GroupMetadata()
	f := func(name string, member string, generation int32, want error) {
		t.Helper()
		if err := commitAs(t, admin, member, generation, nil, "due", 5); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	f("the member, a topic that it does not subscribe to", member, generation, nil)
	f("an older generation", member, generation-1, kerr.IllegalGeneration)
	f("another member", "nobody", generation, kerr.UnknownMemberID)
	f("no member at all", "", -1, kerr.UnknownMemberID)
	cl.Close()
	f("the member that has left", member, generation, kerr.IllegalGeneration)
	f("no member at all, in an empty group", "", -1, nil)
}

func TestStaticMemberIsReplacedAtOnce(t *testing.T) {
	b := start(t, t.TempDir())
	groupTopics(t, b.Addr())
	admin := client(t, b.Addr())
	instance := "node-1"
	old := join(t, b.Addr(), instance)
	oldMember, oldGeneration := old.GroupMetadata()
	next := join(t, b.Addr(), instance)
	member, generation := next.GroupMetadata()
	if member == oldMember {
		t.Fatal("both have one member id")
	}
	if err := commitAs(t, admin, oldMember, oldGeneration, &instance, "due", 1); !errors.Is(err, kerr.FencedInstanceID) {
		t.Errorf("commit of the replaced member: %v, want FENCED_INSTANCE_ID", err)
	}
	if err := commitAs(t, admin, member, generation, &instance, "due", 2); err != nil {
		t.Errorf("commit of the replacement: %v", err)
	}
	// The one that was replaced hears of it.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		err := old.PollFetches(ctx).Err()
		if errors.Is(err, kerr.FencedInstanceID) {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("the replaced member was not told: %v", err)
		}
	}
}

// The members of a group do not survive a kill of the broker, its generation and commits do.
func TestStaticMemberJoinsAfterKill(t *testing.T) {
	b := start(t, t.TempDir())
	groupTopics(t, b.Addr())
	instance := "node-1"
	cl := join(t, b.Addr(), instance)
	oldMember, oldGeneration := cl.GroupMetadata()
	if err := commitAs(t, client(t, b.Addr()), oldMember, oldGeneration, &instance, "due", 7); err != nil {
		t.Fatal(err)
	}
	killed := serveBroker(t, image(t, b.cfg.DataDir))
	began := time.Now()
	again := join(t, killed, instance)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("joined after %v: waited for the member of before", took)
	}
	member, generation := again.GroupMetadata()
	if generation <= oldGeneration {
		t.Errorf("generation %d after %d: a commit of before could pass", generation, oldGeneration)
	}
	admin := client(t, killed)
	if err := commitAs(t, admin, oldMember, oldGeneration, &instance, "due", 1); err == nil {
		t.Error("a commit of before the kill was taken")
	}
	if at, _ := committed(t, killed, "g", "due", 0); at != 7 {
		t.Errorf("committed %d, want 7", at)
	}
	if err := commitAs(t, admin, member, generation, &instance, "due", 8); err != nil {
		t.Errorf("commit of the new member: %v", err)
	}
}

// A clean stop of the broker keeps members that did not leave. A static one takes its place
// back at once; a dynamic one is waited for until its session ends.
func TestStaticMemberJoinsAfterCleanStop(t *testing.T) {
	b := start(t, t.TempDir())
	groupTopics(t, b.Addr())
	cl := join(t, b.Addr(), "node-1")
	_, oldGeneration := cl.GroupMetadata()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	again := start(t, b.cfg.DataDir)
	began := time.Now()
	next := join(t, again.Addr(), "node-1")
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("joined after %v", took)
	}
	if _, generation := next.GroupMetadata(); generation <= oldGeneration {
		t.Errorf("generation %d after %d", generation, oldGeneration)
	}
}
