package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// BrokerConfig configures the embedded broker.
type BrokerConfig struct {
	// DataDir keeps the broker's data; it is created if needed and belongs to one process.
	DataDir string
	// Addr is a loopback address with a port; port 0 takes a free one. Defaults to 127.0.0.1:0.
	Addr string
	// SyncWrites makes an acknowledged write survive a power loss too, at one fsync for each
	// batch and commit. Without it, it survives the end of the process, however that comes.
	SyncWrites bool
	// CompactEvery is the time between two looks at whether the compacted topics are worth a
	// compaction. Defaults to 30 s.
	CompactEvery time.Duration
	// Log defaults to slog.Default().
	Log *slog.Logger
}

// Broker is a running embedded broker.
type Broker struct {
	cfg   BrokerConfig
	log   *brokerLog
	addr  string
	lock  *os.File
	fake  *kfake.Cluster
	admin *kgo.Client // our own connection: asks for compactions

	stop      context.CancelFunc
	done      sync.WaitGroup
	closeOnce sync.Once
	closeErr  error
}

// brokerConfigs are the broker-level settings of kfake, with the reason for each.
func brokerConfigs() map[string]string {
	return map[string]string{
		"log.retention.ms":               "-1",           // its retention deletes a partition's last record: see TopicConfigs
		"log.retention.bytes":            "-1",           // the same
		"log.cleaner.backoff.ms":         "315360000000", // never: its own cleaner runs without a pre-image, see compactor.go
		"log.segment.bytes":              "8388608",      // trimmed records give back disk and heap (about 80 B a batch) by whole segments only
		"offsets.retention.minutes":      "5256000",      // a laptop may be off for longer than a week
		"transactional.id.expiration.ms": "2147483647",   // its longest: an expired id starts again at epoch 0, under the same producer id
		"state.log.compact.bytes":        "2097152",      // groups.log is rewritten between two requests: short and often beats 10 MiB at once
	}
}

// StartBroker recovers the data directory if it was not closed, and starts the broker on it.
// ctx bounds the start, not the broker's life.
func StartBroker(ctx context.Context, cfg BrokerConfig) (*Broker, error) {
	if cfg.DataDir == "" {
		return nil, errors.New("start embedded broker: no data directory")
	}
	if cfg.Addr == "" {
		cfg.Addr = "127.0.0.1:0"
	}
	if cfg.CompactEvery <= 0 {
		cfg.CompactEvery = 30 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	addr, err := netip.ParseAddrPort(cfg.Addr)
	if err != nil || !addr.Addr().IsLoopback() {
		return nil, fmt.Errorf("start embedded broker on %q: want a loopback IP address and a port, it has no access control", cfg.Addr)
	}
	if err := os.MkdirAll(cfg.DataDir, 0o755); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	lock, err := lockDir(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	b := &Broker{cfg: cfg, log: &brokerLog{log: cfg.Log}, lock: lock}
	if err := b.start(ctx); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return b, nil
}

func (b *Broker) start(ctx context.Context) error {
	if err := prepareDataDir(ctx, b.cfg.DataDir, b.cfg.Log); err != nil {
		return err
	}
	opts := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.DataDir(b.cfg.DataDir),
		kfake.BrokerConfigs(brokerConfigs()),
		kfake.WithLogger(b.log),
		kfake.ListenFn(func(network, _ string) (net.Listener, error) { // kfake itself can only listen on 127.0.0.1
			ln, err := net.Listen(network, b.cfg.Addr)
			if err != nil {
				return nil, err
			}
			return guardedListener{ln}, nil
		}),
	}
	if b.cfg.SyncWrites {
		opts = append(opts, kfake.SyncWrites())
	}
	fake, err := kfake.NewCluster(opts...)
	if err != nil {
		return fmt.Errorf("start embedded broker on %s: %w", b.cfg.Addr, err)
	}
	GuardCommits(fake)
	guardTrims(fake)
	b.fake, b.addr = fake, fake.ListenAddrs()[0]
	if b.admin, err = kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.ClientID("hookline-embedded-broker"), kgo.DisableClientMetrics()); err != nil {
		fake.Close()
		return fmt.Errorf("make admin client: %w", err)
	}
	run, stop := context.WithCancel(context.Background())
	b.stop = stop
	b.done.Go(func() { b.compactLoop(run) })
	return nil
}

// Addr is the address to give to Kafka clients.
func (b *Broker) Addr() string { return b.addr }

// Close stops the broker and writes its state, so that the next start need not recover.
// Clients should be closed before.
func (b *Broker) Close() error {
	b.closeOnce.Do(func() {
		b.stop()
		b.done.Wait()
		b.admin.Close()
		b.fake.Close()
		if b.log.failed.Load() {
			b.closeErr = errors.New("embedded broker did not save its state, the next start recovers it: see the log")
		} else if err := os.WriteFile(filepath.Join(b.cfg.DataDir, cleanFile), nil, 0o644); err != nil {
			b.closeErr = fmt.Errorf("write clean marker: %w", err)
		}
		b.closeErr = errors.Join(b.closeErr, b.lock.Close())
	})
	return b.closeErr
}
