package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func compacted(t *testing.T, addr string) {
	t.Helper()
	createTopic(t, addr, "t", 1, map[string]string{"cleanup.policy": "compact"})
}

func TestCompactionKeepsTheNewestOfEachKey(t *testing.T) {
	b := start(t, t.TempDir())
	compacted(t, b.Addr())
	for i := range 10 {
		end(t, begin(t, b.Addr(), fmt.Sprint(i)), kgo.TryCommit)
	}
	end(t, begin(t, b.Addr(), "aborted"), kgo.TryAbort)
	_, before := offsets(t, b.Addr(), "t", 0, false)
	if err := b.compact(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if got := visible(t, b.Addr()); !slices.Equal(got, []string{"9"}) {
		t.Errorf("%q visible, want 9", got)
	}
	for _, addr := range []string{b.Addr(), serveBroker(t, image(t, b.cfg.DataDir))} {
		if _, after := offsets(t, addr, "t", 0, false); after != before {
			t.Errorf("end is %d, want %d", after, before)
		}
		if got := visible(t, addr); !slices.Equal(got, []string{"9"}) {
			t.Errorf("%q visible, want 9", got)
		}
	}
	for _, name := range []string{preimageDir, preimageMarker} {
		if _, err := os.Stat(filepath.Join(b.cfg.DataDir, name)); err == nil {
			t.Errorf("%s is left over", name)
		}
	}
}

// kfake lets an open transaction supersede what is committed.
func TestCompactionWaitsForOpenTransactions(t *testing.T) {
	fake := plain(t, t.TempDir())
	addr := fake.ListenAddrs()[0]
	compacted(t, addr)
	end(t, begin(t, addr, "kept"), kgo.TryCommit)
	open := begin(t, addr, "open", "open too")
	fake.Compact()
	end(t, open, kgo.TryAbort)
	if got := visible(t, addr); got != nil {
		t.Errorf("plain kfake: %q visible, want the committed record to be lost", got)
	}

	b := start(t, t.TempDir())
	compacted(t, b.Addr())
	end(t, begin(t, b.Addr(), "kept"), kgo.TryCommit)
	open = begin(t, b.Addr(), "open", "open too")
	if err := b.compact(testContext(t)); !errors.Is(err, errBusy) {
		t.Errorf("compaction beside an open transaction: %v, want errBusy", err)
	}
	end(t, open, kgo.TryAbort)
	if err := b.compact(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if got := visible(t, b.Addr()); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("%q visible, want kept", got)
	}
}

// Every state in which a kill can leave the files of a compaction, from the pre-image on.
func TestCompactionCutShortIsUndone(t *testing.T) {
	b := start(t, t.TempDir())
	compacted(t, b.Addr())
	want := make([]string, 0, 10)
	for i := range 10 {
		want = append(want, fmt.Sprint(i))
		end(t, begin(t, b.Addr(), fmt.Sprint(i)), kgo.TryCommit)
	}
	whole := image(t, b.cfg.DataDir)
	part := func(dir, name string) string { return filepath.Join(dir, partitionsDir, "t-0", name) }
	f := func(name string, marked bool, cut func(dir string) error) {
		t.Helper()
		dir := image(t, whole)
		if err := savePreimage(dir, []string{"t-0"}); err != nil {
			t.Fatal(err)
		}
		if !marked {
			if err := os.Remove(filepath.Join(dir, preimageMarker)); err != nil {
				t.Fatal(err)
			}
		}
		if err := cut(dir); err != nil {
			t.Fatal(err)
		}
		if got := visible(t, serveBroker(t, dir)); !slices.Equal(got, want) {
			t.Errorf("%s: %q visible, want %q", name, got, want)
		}
	}
	f("before it began", true, func(string) error { return nil })
	f("data removed", true, func(dir string) error { return os.Remove(part(dir, "0.dat")) })
	f("data and index removed", true, func(dir string) error {
		return errors.Join(os.Remove(part(dir, "0.dat")), os.Remove(part(dir, "0.idx")))
	})
	f("half rewritten", true, func(dir string) error {
		raw, err := os.ReadFile(part(dir, "0.dat"))
		if err != nil {
			return err
		}
		return errors.Join(os.Remove(part(dir, "0.dat")), os.Remove(part(dir, "0.idx")),
			os.WriteFile(part(dir, "18.dat"), raw[:len(raw)/2], 0o644))
	})
	f("half restored", true, func(dir string) error { return os.Remove(part(dir, "0.idx")) })
	f("pre-image not complete", false, func(dir string) error {
		return os.Remove(filepath.Join(dir, preimageDir, "t-0", "0.idx"))
	})
}

func TestCompactionRunsWhenItIsWorthwhile(t *testing.T) {
	b, err := StartBroker(testContext(t), BrokerConfig{DataDir: t.TempDir(), CompactEvery: 20 * time.Millisecond, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close() //nolint:errcheck // not the point
	compacted(t, b.Addr())
	cl := client(t, b.Addr(), kgo.DefaultProduceTopic("t"), kgo.ProducerBatchCompression(kgo.NoCompression()))
	value := strings.Repeat("v", 512<<10)
	for range compactMinBytes/len(value) + 1 {
		produce(t, cl, kgo.KeyStringRecord("k", value))
	}
	wait(t, func() bool { return b.fake.PartitionInfo("t", 0).NumBytes < 2<<20 })
}
