package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event"
)

// The kill tests run the broker in a child: this test binary again, told by the environment.
const (
	childDir  = "HOOKLINE_LOCAL_CHILD_DIR"
	childMode = "HOOKLINE_LOCAL_CHILD_MODE"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := runChild(dir, os.Getenv(childMode)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runChild runs a broker until SIGTERM. It prints the address once it serves.
func runChild(dir, mode string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	b, err := StartBroker(ctx, BrokerConfig{DataDir: dir, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))})
	if err != nil {
		return err
	}
	fmt.Println(b.Addr())
	tick := time.NewTicker(3 * time.Millisecond) // leaves room for the requests in between
	defer tick.Stop()
	for mode == "compact" && ctx.Err() == nil {
		<-tick.C
		if err := b.compact(ctx); err != nil && !errors.Is(err, errBusy) && ctx.Err() == nil {
			return err
		}
	}
	<-ctx.Done()
	return b.Close()
}

// child is a broker process.
type child struct {
	cmd  *exec.Cmd
	addr string
	out  io.ReadCloser
}

func startChild(t *testing.T, dir, mode string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.Command(exe)}
	c.cmd.Env = append(os.Environ(), childDir+"="+dir, childMode+"="+mode)
	c.cmd.Stderr = os.Stderr
	if c.out, err = c.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.cmd.Process.Kill() }) //nolint:errcheck // it may have ended
	line, err := bufio.NewReader(c.out).ReadString('\n')
	if err != nil {
		t.Fatalf("child did not start: %v", err)
	}
	c.addr = strings.TrimSpace(line)
	return c
}

// kill ends the child as kill -9 does.
func (c *child) kill(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatalf("kill child: %v", err)
	}
	c.cmd.Wait() //nolint:errcheck // says that it was killed
}

// close ends the child in order.
func (c *child) close(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Fatalf("child did not close in order: %v", err)
	}
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// start runs a broker in this process; stopping it is the test's part.
func start(t testing.TB, dir string) *Broker {
	t.Helper()
	b, err := StartBroker(testContext(t), BrokerConfig{DataDir: dir, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() }) //nolint:errcheck // a test that cares has closed it
	return b
}

func client(t testing.TB, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(addr),
		kgo.DisableClientMetrics(), // it would wait for 5 s when it is closed after its broker
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// plain runs kfake on the directory as it is, without any of this package.
func plain(t testing.TB, dir string, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.DataDir(dir)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func createTopic(t testing.TB, addr, name string, partitions int32, configs map[string]string) {
	t.Helper()
	adm := kadm.NewClient(client(t, addr))
	topic := TopicConfigs(event.Topic{Suffix: name, Partitions: partitions, Configs: configs})
	values := make(map[string]*string)
	for k, v := range topic.Configs {
		values[k] = kadm.StringPtr(v)
	}
	if _, err := adm.CreateTopic(testContext(t), partitions, 1, values, name); err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
}

func produce(t testing.TB, cl *kgo.Client, records ...*kgo.Record) {
	t.Helper()
	if err := cl.ProduceSync(testContext(t), records...).FirstErr(); err != nil {
		t.Fatalf("produce: %v", err)
	}
}

// offsets lists start and end of a partition; committed asks for the last stable offset.
func offsets(t testing.TB, addr, topic string, partition int32, committed bool) (from, to int64) {
	t.Helper()
	ctx := testContext(t)
	adm := kadm.NewClient(client(t, addr))
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	list := adm.ListEndOffsets
	if committed {
		list = adm.ListCommittedOffsets
	}
	ends, err := list(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := starts.Lookup(topic, partition)
	end, ok := ends.Lookup(topic, partition)
	if !ok || first.Err != nil || end.Err != nil {
		t.Fatalf("offsets of %s/%d: %v %v", topic, partition, first.Err, end.Err)
	}
	return first.Offset, end.Offset
}

// readAll reads a partition from its start to its end, transaction markers left out.
func readAll(t testing.TB, addr, topic string, partition int32, committed bool) []*kgo.Record {
	t.Helper()
	from, to := offsets(t, addr, topic, partition, committed)
	if from == to {
		return nil
	}
	level := kgo.ReadUncommitted()
	if committed {
		level = kgo.ReadCommitted()
	}
	cl := client(t, addr, kgo.FetchIsolationLevel(level), kgo.KeepControlRecords(), // a marker may be the last record
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(from)}}))
	ctx := testContext(t)
	var records []*kgo.Record
	for next := from; next < to; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s/%d from %d to %d, at %d: %v", topic, partition, from, to, next, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			if !r.Attrs.IsControl() && r.Offset < to {
				records = append(records, r)
			}
		})
	}
	return records
}

// commit commits as an operator's tool does: without being a member.
func commit(ctx context.Context, cl *kgo.Client, group, topic string, partition int32, at int64, metadata string) error {
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: topic, Partition: partition, At: at, LeaderEpoch: -1, Metadata: metadata})
	return kadm.NewClient(cl).CommitAllOffsets(ctx, group, os)
}

// committed returns 0 where nothing was committed.
func committed(t testing.TB, addr, group, topic string, partition int32) (int64, string) {
	t.Helper()
	offsets, err := kadm.NewClient(client(t, addr)).FetchOffsets(testContext(t), group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		t.Fatalf("fetch commits of %s: %v", group, err)
	}
	o, ok := offsets.Lookup(topic, partition)
	if !ok {
		return 0, ""
	}
	return o.At, o.Metadata
}

// image copies a data directory. With the broker idle it is what kill -9 would leave behind.
func image(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), raw, 0o644)
	})
	if err != nil {
		t.Fatalf("copy data directory: %v", err)
	}
	return to
}
