package local

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The tests here crash a broker at a chosen point: they copy the data directory of an idle
// one. Where plain kfake goes wrong, the same steps run on it first; when such a part fails,
// kfake has changed and the workaround may go.

// serve starts a broker on a directory and returns its address: a Broker, or plain kfake.
type serve func(t testing.TB, dir string) string

func serveBroker(t testing.TB, dir string) string { return start(t, dir).Addr() }
func servePlain(t testing.TB, dir string) string  { return plain(t, dir).ListenAddrs()[0] }

func damage(t *testing.T, path string, fn func(raw []byte) []byte) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, fn(raw), 0o644); err != nil {
		t.Fatal(err)
	}
}

func mustCommit(t *testing.T, addr string, at int64, metadata string) {
	t.Helper()
	if err := commit(testContext(t), client(t, addr), "g", "t", 0, at, metadata); err != nil {
		t.Fatalf("commit %d: %v", at, err)
	}
}

// fill produces n records to partition 0 of topic t, each in a batch of its own.
func fill(t *testing.T, addr string, n int) {
	t.Helper()
	cl := client(t, addr, kgo.DefaultProduceTopic("t"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for range n {
		produce(t, cl, kgo.StringRecord("v"))
	}
}

// begin leaves a transaction open that has produced the values.
func begin(t *testing.T, addr string, values ...string) *kgo.Client {
	t.Helper()
	cl := client(t, addr, kgo.DefaultProduceTopic("t"), kgo.TransactionalID("x"))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		produce(t, cl, kgo.KeyStringRecord("k", v))
	}
	return cl
}

func end(t *testing.T, cl *kgo.Client, try kgo.TransactionEndTry) {
	t.Helper()
	if err := cl.EndTransaction(testContext(t), try); err != nil {
		t.Fatalf("end transaction: %v", err)
	}
}

func visible(t *testing.T, addr string) []string {
	t.Helper()
	var values []string
	for _, r := range readAll(t, addr, "t", 0, true) {
		values = append(values, string(r.Value))
	}
	return values
}

func TestTornTailOfCommitsIsCut(t *testing.T) {
	f := func(name string, serve serve, want int64) {
		t.Helper()
		b := start(t, t.TempDir())
		createTopic(t, b.Addr(), "t", 1, nil)
		fill(t, b.Addr(), 20)
		mustCommit(t, b.Addr(), 10, "ten")
		one := image(t, b.cfg.DataDir)
		damage(t, filepath.Join(one, groupsLog), func(raw []byte) []byte { return append(raw, raw[:len(raw)/2]...) })
		mustCommit(t, serve(t, one), 20, "twenty")
		if at, metadata := committed(t, serve(t, image(t, one)), "g", "t", 0); at != want {
			t.Errorf("%s: committed %d %q, want %d", name, at, metadata, want)
		}
	}
	f("plain kfake", servePlain, 10)
	f("broker", serveBroker, 20)
}

func TestAbandonedTransactionStaysAborted(t *testing.T) {
	f := func(name string, serve serve, want ...string) {
		t.Helper()
		b := start(t, t.TempDir())
		createTopic(t, b.Addr(), "t", 1, nil)
		begin(t, b.Addr(), "abandoned 1", "abandoned 2")
		one := image(t, b.cfg.DataDir)
		addr := serve(t, one)
		if name == "broker" { // the other has no marker that readAll could end at
			if got := visible(t, addr); got != nil {
				t.Errorf("%s: %q visible after the first crash, want nothing", name, got)
			}
		}
		end(t, begin(t, addr, "new"), kgo.TryCommit)
		if got := visible(t, serve(t, image(t, one))); !slices.Equal(got, want) {
			t.Errorf("%s: %q visible after the second crash, want %q", name, got, want)
		}
	}
	f("plain kfake", servePlain, "abandoned 1", "abandoned 2", "new")
	f("broker", serveBroker, "new")
}

func TestTransactionWithoutIndexEntryIsAborted(t *testing.T) {
	f := func(name string, serve serve, want ...string) {
		t.Helper()
		b := start(t, t.TempDir())
		createTopic(t, b.Addr(), "t", 1, nil)
		begin(t, b.Addr(), "abandoned")
		one := image(t, b.cfg.DataDir)
		// Killed between the write of the batch and that of its index entry.
		damage(t, filepath.Join(one, partitionsDir, "t-0", "0.idx"), func([]byte) []byte { return nil })
		if got := visible(t, serve(t, one)); !slices.Equal(got, want) {
			t.Errorf("%s: %q visible, want %q", name, got, want)
		}
	}
	f("plain kfake", servePlain, "abandoned")
	f("broker", serveBroker)
}

func TestLastStableOffsetIsNotStuck(t *testing.T) {
	b := start(t, t.TempDir())
	createTopic(t, b.Addr(), "t", 1, nil)
	begin(t, b.Addr(), "abandoned")
	if err := b.Close(); err != nil { // keeps the transaction open over a clean stop
		t.Fatal(err)
	}
	one := start(t, b.cfg.DataDir)
	if _, stable := offsets(t, one.Addr(), "t", 0, true); stable != 0 {
		t.Fatalf("last stable offset is %d, but the transaction is open", stable)
	}
	crashed := image(t, b.cfg.DataDir)
	f := func(name string, serve serve, wantStable, wantHigh int64) {
		t.Helper()
		addr := serve(t, image(t, crashed))
		_, stable := offsets(t, addr, "t", 0, true)
		_, high := offsets(t, addr, "t", 0, false)
		if stable != wantStable || high != wantHigh {
			t.Errorf("%s: last stable offset %d and end %d, want %d and %d", name, stable, high, wantStable, wantHigh)
		}
	}
	f("plain kfake", servePlain, 0, 1)
	f("broker", serveBroker, 2, 2) // an abort marker follows the record
}

func TestClientThatOutlivesTheCrashIsFenced(t *testing.T) {
	const addr = "127.0.0.1:0"
	dir := t.TempDir()
	b, err := StartBroker(testContext(t), BrokerConfig{DataDir: dir, Addr: addr, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	createTopic(t, b.Addr(), "t", 1, nil)
	cl := begin(t, b.Addr(), "first half")
	one := image(t, dir)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := StartBroker(testContext(t), BrokerConfig{DataDir: one, Addr: b.Addr(), Log: quiet()}) // the same port
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close() //nolint:errcheck // not the point
	if err := cl.ProduceSync(testContext(t), kgo.StringRecord("second half")).FirstErr(); err == nil {
		t.Error("the second half of an aborted transaction was accepted")
	}
	if got := visible(t, again.Addr()); got != nil {
		t.Errorf("%q visible, want nothing", got)
	}
}

func TestCommitPastTheEndIsTakenBack(t *testing.T) {
	b := start(t, t.TempDir())
	createTopic(t, b.Addr(), "t", 1, nil)
	fill(t, b.Addr(), 10)
	mustCommit(t, b.Addr(), 10, "ten")
	one := image(t, b.cfg.DataDir)
	damage(t, filepath.Join(one, partitionsDir, "t-0", "0.dat"), func(raw []byte) []byte { return raw[:len(raw)/2-3] })
	addr := serveBroker(t, one)
	_, to := offsets(t, addr, "t", 0, false)
	at, metadata := committed(t, addr, "g", "t", 0)
	if to != 4 || at != to || metadata != "" {
		t.Errorf("end %d, committed %d with %q, want 4, 4 and nothing", to, at, metadata)
	}
}

func TestOldSequenceWindowsAreForgotten(t *testing.T) {
	b := start(t, t.TempDir())
	createTopic(t, b.Addr(), "t", 1, nil)
	fill(t, b.Addr(), 5)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	windows := filepath.Join(b.cfg.DataDir, windowsFile)
	if _, err := os.Stat(windows); err != nil {
		t.Fatalf("kfake has no windows file: %v", err)
	}
	start(t, b.cfg.DataDir)
	crashed := image(t, b.cfg.DataDir)
	start(t, crashed)
	if _, err := os.Stat(filepath.Join(crashed, windowsFile)); err == nil {
		t.Error("sequence windows of before the crash are still there")
	}
}

// A recovery that is itself cut short is repeated: any subset of its effects must do.
func TestRecoveryMayBeRepeated(t *testing.T) {
	b := start(t, t.TempDir())
	createTopic(t, b.Addr(), "t", 1, nil)
	end(t, begin(t, b.Addr(), "kept"), kgo.TryCommit)
	begin(t, b.Addr(), "abandoned")
	one := image(t, b.cfg.DataDir)
	if err := prepareDataDir(testContext(t), one, quiet()); err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(one, partitionsDir, "t-0")
	damage(t, filepath.Join(part, "0.idx"), func(raw []byte) []byte { return raw[:len(raw)-indexEntry-4] })
	if err := os.Remove(filepath.Join(part, "snapshot.json")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := prepareDataDir(testContext(t), one, quiet()); err != nil {
			t.Fatal(err)
		}
	}
	addr := serveBroker(t, one)
	if got := visible(t, addr); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("%q visible, want kept", got)
	}
	if _, to := offsets(t, addr, "t", 0, false); to != 4 { // two records, two markers
		t.Errorf("end is %d, want 4", to)
	}
}
