package lane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrFenced is returned by Run when another process took over this member's instance id.
// Nothing that this process still does for its partitions counts; it should end.
var ErrFenced = errors.New("another process uses the same instance id")

// ErrNotMember is returned by Commit before the group was joined.
var ErrNotMember = errors.New("not a member of the group")

// Assignment is a set of partitions by topic.
type Assignment map[string][]int32

// Config says which group to join and what to do with what it assigns.
type Config struct {
	Kafka  []kgo.Opt // base client options: seeds, security, client id, logger, hooks
	Group  string
	Topics []string // topics whose partitions the group assigns; paused, never fetched
	// InstanceID makes the member static: a restart within the session timeout gets its
	// partitions back without a rebalance. Empty = dynamic.
	InstanceID string
	// KeepMembership makes Run return without leaving the group.
	KeepMembership bool
	Log            *slog.Logger

	// Assigned, Revoked and Lost are called one at a time. Revoked may still commit what it
	// is given; after it returns, others own the partitions. Lost means that others may own
	// them already: nothing may be committed or produced on their behalf.
	Assigned, Revoked, Lost func(ctx context.Context, a Assignment)

	// Session and Heartbeat default to 10 s and 2 s (DESIGN section 12).
	Session, Heartbeat time.Duration
}

// Offset is one committed position: the next offset to read, and the metadata beside it.
type Offset struct {
	Topic     string
	Partition int32
	At        int64 // -1: nothing is committed
	Metadata  string
}

// Member is one member of a consumer group. Safe for concurrent use.
type Member struct {
	cfg    Config
	opened chan struct{} // closed once cl and adm are set
	cl     *kgo.Client
	adm    *kadm.Client
	fenced chan struct{} // closed when another process took the instance id
	once   sync.Once

	mu  sync.Mutex // guards ids
	ids map[string][16]byte
}

// NewMember prepares a client; the group is joined by Run.
func NewMember(cfg Config) (*Member, error) {
	if cfg.Session == 0 {
		cfg.Session = 10 * time.Second
	}
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = 2 * time.Second
	}
	if cfg.Group == "" || len(cfg.Topics) == 0 {
		return nil, errors.New("a member needs a group and topics")
	}
	return &Member{cfg: cfg, opened: make(chan struct{}), fenced: make(chan struct{}), ids: make(map[string][16]byte)}, nil
}

// OnGroupManageError implements kgo.HookGroupManageError. The client itself would rejoin
// after a fencing, and so fence the process that replaced it in turn.
func (m *Member) OnGroupManageError(err error) {
	if errors.Is(err, kerr.FencedInstanceID) {
		m.once.Do(func() { close(m.fenced) })
	}
}

var _ kgo.HookGroupManageError = (*Member)(nil)

func (m *Member) opts() []kgo.Opt {
	call := func(fn func(context.Context, Assignment)) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(ctx context.Context, _ *kgo.Client, a map[string][]int32) {
			<-m.opened // the group may be joined before NewClient has returned to Run
			if len(a) > 0 && fn != nil {
				fn(ctx, a)
			}
		}
	}
	opts := append([]kgo.Opt{}, m.cfg.Kafka...)
	opts = append(opts,
		kgo.ConsumerGroup(m.cfg.Group),
		kgo.ConsumeTopics(m.cfg.Topics...),
		kgo.DisableAutoCommit(),                        // our committer decides what is safe
		kgo.Balancers(kgo.CooperativeStickyBalancer()), // lanes that stay are not interrupted
		kgo.SessionTimeout(m.cfg.Session),              // a dead member is replaced within this
		kgo.HeartbeatInterval(m.cfg.Heartbeat),
		kgo.OnPartitionsAssigned(call(m.cfg.Assigned)),
		kgo.OnPartitionsRevoked(call(m.cfg.Revoked)),
		kgo.OnPartitionsLost(call(m.cfg.Lost)), // explicit: the default would run Revoked
		kgo.WithHooks(m),
	)
	if m.cfg.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(m.cfg.InstanceID))
	}
	return opts
}

// Run joins the group and blocks. When ctx is done it leaves: Revoked is called for what is
// owned, then the membership ends, and Run returns nil. It returns ErrFenced when another
// process took over the instance id, after Lost was called.
func (m *Member) Run(ctx context.Context) error {
	cl, err := kgo.NewClient(m.opts()...)
	if err != nil {
		return fmt.Errorf("open group client %s: %w", m.cfg.Group, err)
	}
	defer cl.Close()
	cl.PauseFetchTopics(m.cfg.Topics...)
	m.cl, m.adm = cl, kadm.NewClient(cl)
	close(m.opened)

	select {
	case <-m.fenced:
		return fmt.Errorf("group %s, instance %s: %w", m.cfg.Group, m.cfg.InstanceID, ErrFenced)
	case <-ctx.Done():
	}
	return m.leave()
}

// leave ends the membership; Revoked runs inside LeaveGroupContext.
func (m *Member) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*m.cfg.Session)
	defer cancel()
	if err := m.cl.LeaveGroupContext(ctx); err != nil {
		return fmt.Errorf("leave group %s: %w", m.cfg.Group, err)
	}
	if m.cfg.InstanceID == "" || m.cfg.KeepMembership {
		return nil
	}
	leave := kadm.LeaveGroup(m.cfg.Group).Reason("clean stop").InstanceIDs(m.cfg.InstanceID)
	resp, err := m.adm.LeaveGroup(ctx, leave)
	if err == nil {
		err = resp.Error()
	}
	// Unknown member: the session ran out while Revoked was draining; that is left, too.
	if err != nil && !errors.Is(err, kerr.UnknownMemberID) {
		return fmt.Errorf("leave group %s as %s: %w", m.cfg.Group, m.cfg.InstanceID, err)
	}
	return nil
}

// topicIDs returns the ids of topics, asking the broker for those not yet known.
func (m *Member) topicIDs(ctx context.Context, offsets []Offset) (map[string][16]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var missing []string
	for _, o := range offsets {
		if _, ok := m.ids[o.Topic]; !ok {
			missing = append(missing, o.Topic)
		}
	}
	if len(missing) > 0 {
		details, err := m.adm.ListTopics(ctx, missing...)
		if err == nil {
			err = details.Error()
		}
		if err != nil {
			return nil, fmt.Errorf("look up topic ids: %w", err)
		}
		for _, d := range details {
			m.ids[d.Topic] = d.ID
		}
	}
	ids := make(map[string][16]byte, 2)
	for _, o := range offsets {
		ids[o.Topic] = m.ids[o.Topic]
	}
	return ids, nil
}

// Commit commits offsets as this member of the group. All of them are tried; the returned
// error joins what the broker refused. It is the caller's duty to hold the lock that its
// Revoked takes: the broker refuses members that were replaced, but not a member that
// still lives and lost only the partition.
func (m *Member) Commit(ctx context.Context, offsets []Offset) error {
	select {
	case <-m.opened:
	default:
		return ErrNotMember
	}
	if len(offsets) == 0 {
		return nil
	}
	ids, err := m.topicIDs(ctx, offsets)
	if err != nil {
		return err
	}
	member, generation := m.cl.GroupMetadata()
	if member == "" || generation < 0 {
		return ErrNotMember
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = m.cfg.Group, member, generation
	if m.cfg.InstanceID != "" {
		req.InstanceID = &m.cfg.InstanceID
	}
	at := make(map[string]int, len(ids))
	for _, o := range offsets {
		i, ok := at[o.Topic]
		if !ok {
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic, t.TopicID = o.Topic, ids[o.Topic]
			i = len(req.Topics)
			at[o.Topic] = i
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = o.Partition, o.At
		p.Metadata = kmsg.StringPtr(o.Metadata)
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	resp, err := req.RequestWith(ctx, m.cl)
	if err != nil {
		return fmt.Errorf("commit to group %s: %w", m.cfg.Group, err)
	}
	return m.commitErrors(resp, ids)
}

// commitErrors joins what was refused. From version 10 on the answer has ids, not names.
func (m *Member) commitErrors(resp *kmsg.OffsetCommitResponse, ids map[string][16]byte) error {
	names := make(map[[16]byte]string, len(ids))
	for name, id := range ids {
		names[id] = name
	}
	var errs []error
	for _, t := range resp.Topics {
		name := t.Topic
		if name == "" {
			name = names[t.TopicID]
		}
		for _, p := range t.Partitions {
			err := kerr.ErrorForCode(p.ErrorCode)
			if err == nil {
				continue
			}
			m.OnGroupManageError(err) // a fenced commit is as final as a fenced heartbeat
			errs = append(errs, fmt.Errorf("commit %s/%d to group %s: %w", name, p.Partition, m.cfg.Group, err))
		}
	}
	return errors.Join(errs...)
}

// Committed returns what the group has committed for the given partitions of a topic,
// which need not be one that the group subscribes to.
func (m *Member) Committed(ctx context.Context, topic string, partitions []int32) (map[int32]Offset, error) {
	select {
	case <-m.opened:
	default:
		return nil, ErrNotMember
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = m.cfg.Group
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = m.cfg.Group
	ids, err := m.topicIDs(ctx, []Offset{{Topic: topic}})
	if err != nil {
		return nil, err
	}
	gt := kmsg.NewOffsetFetchRequestGroupTopic()
	gt.Topic, gt.TopicID, gt.Partitions = topic, ids[topic], partitions
	group.Topics = append(group.Topics, gt)
	rt := kmsg.NewOffsetFetchRequestTopic()
	rt.Topic, rt.Partitions = topic, partitions
	req.Topics = append(req.Topics, rt)
	req.Groups = append(req.Groups, group)
	resp, err := req.RequestWith(ctx, m.cl)
	if err != nil {
		return nil, fmt.Errorf("fetch offsets of group %s: %w", m.cfg.Group, err)
	}
	out := make(map[int32]Offset, len(partitions))
	for _, p := range partitions {
		out[p] = Offset{Topic: topic, Partition: p, At: -1}
	}
	return out, m.collect(resp, topic, out)
}

// collect reads both shapes of the answer: by groups (version 8 on) and the old one.
func (m *Member) collect(resp *kmsg.OffsetFetchResponse, topic string, out map[int32]Offset) error {
	put := func(partition int32, offset int64, metadata *string, code int16) error {
		if err := kerr.ErrorForCode(code); err != nil {
			return fmt.Errorf("fetch offset of %s/%d in group %s: %w", topic, partition, m.cfg.Group, err)
		}
		o := Offset{Topic: topic, Partition: partition, At: offset}
		if metadata != nil {
			o.Metadata = *metadata
		}
		out[partition] = o
		return nil
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return fmt.Errorf("fetch offsets of group %s: %w", m.cfg.Group, err)
	}
	for _, g := range resp.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
			return fmt.Errorf("fetch offsets of group %s: %w", m.cfg.Group, err)
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if err := put(p.Partition, p.Offset, p.Metadata, p.ErrorCode); err != nil {
					return err
				}
			}
		}
	}
	if len(resp.Groups) > 0 {
		return nil
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := put(p.Partition, p.Offset, p.Metadata, p.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}
