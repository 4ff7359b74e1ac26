package local

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestRestartKeepsEverything(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	createTopic(t, b.Addr(), "t", 3, nil)
	fill(t, b.Addr(), 50)
	end(t, begin(t, b.Addr(), "aborted"), kgo.TryAbort)
	end(t, begin(t, b.Addr(), "kept"), kgo.TryCommit)
	mustCommit(t, b.Addr(), 17, "seventeen")
	id := func(addr string) kadm.TopicID {
		details, err := kadm.NewClient(client(t, addr)).ListTopics(testContext(t), "t")
		if err != nil || len(details["t"].Partitions) != 3 {
			t.Fatalf("list topics: %v %v", details, err)
		}
		return details["t"].ID
	}
	wantID, port := id(b.Addr()), b.Addr()
	_, wantEnd := offsets(t, b.Addr(), "t", 0, false)
	wantVisible := len(readAll(t, b.Addr(), "t", 0, true))
	verify := func(how, addr string) {
		t.Helper()
		if got := id(addr); got != wantID {
			t.Errorf("%s: topic id %v, want %v", how, got, wantID)
		}
		if from, to := offsets(t, addr, "t", 0, false); from != 0 || to != wantEnd {
			t.Errorf("%s: offsets %d to %d, want 0 to %d", how, from, to, wantEnd)
		}
		if got := len(readAll(t, addr, "t", 0, true)); got != wantVisible {
			t.Errorf("%s: %d records visible, want %d", how, got, wantVisible)
		}
		if at, metadata := committed(t, addr, "g", "t", 0); at != 17 || metadata != "seventeen" {
			t.Errorf("%s: committed %d %q", how, at, metadata)
		}
	}
	verify("killed", serveBroker(t, image(t, dir)))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, cleanFile)); err != nil {
		t.Errorf("no clean marker after Close: %v", err)
	}
	again, err := StartBroker(testContext(t), BrokerConfig{DataDir: dir, Addr: port, Log: quiet()})
	if err != nil {
		t.Fatalf("start on the port of before: %v", err)
	}
	verify("stopped", again.Addr())
	verify("stopped, then killed", serveBroker(t, image(t, dir)))
	if again.Addr() != port {
		t.Errorf("address %s, want %s", again.Addr(), port)
	}
	if err := errors.Join(again.Close(), again.Close()); err != nil {
		t.Errorf("close twice: %v", err)
	}
}

func TestDataDirBelongsToOneProcess(t *testing.T) {
	dir := t.TempDir()
	c := startChild(t, dir, "")
	_, err := StartBroker(testContext(t), BrokerConfig{DataDir: dir, Log: quiet()})
	if !errors.Is(err, ErrInUse) {
		t.Fatalf("start beside another process: %v, want ErrInUse", err)
	}
	c.kill(t)
	start(t, dir) // the lock went with the process
	if _, err := StartBroker(testContext(t), BrokerConfig{DataDir: dir, Log: quiet()}); !errors.Is(err, ErrInUse) {
		t.Fatalf("start twice in one process: %v, want ErrInUse", err)
	}
}

func TestStartRefuses(t *testing.T) {
	f := func(name string, cfg BrokerConfig) {
		t.Helper()
		cfg.Log = quiet()
		if b, err := StartBroker(testContext(t), cfg); err == nil {
			t.Errorf("%s: started on %s", name, b.Addr())
			b.Close() //nolint:errcheck // already failed
		}
	}
	f("no directory", BrokerConfig{})
	f("every interface", BrokerConfig{DataDir: t.TempDir(), Addr: "0.0.0.0:0"})
	f("no port", BrokerConfig{DataDir: t.TempDir(), Addr: "127.0.0.1"})
	f("a name", BrokerConfig{DataDir: t.TempDir(), Addr: "localhost:0"})
	f("another's port", BrokerConfig{DataDir: t.TempDir(), Addr: start(t, t.TempDir()).Addr()})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, metaFile), []byte(`{"version":2}`), 0o644); err != nil {
		t.Fatal(err)
	}
	f("a newer format", BrokerConfig{DataDir: dir})
	// What failed to start must not hold the directory.
	if err := os.WriteFile(filepath.Join(dir, metaFile), []byte(`{"version":1,"cluster_id":"c"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	start(t, dir)
}

func TestSyncWritesServes(t *testing.T) {
	b, err := StartBroker(testContext(t), BrokerConfig{DataDir: t.TempDir(), SyncWrites: true, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	createTopic(t, b.Addr(), "t", 1, nil)
	fill(t, b.Addr(), 3)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}
