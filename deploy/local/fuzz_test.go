package local

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// FuzzFrames: whatever the bytes, what frames calls valid is a prefix that reads the same
// again, and a frame appended behind it is found.
func FuzzFrames(f *testing.F) {
	var log []byte
	for _, e := range []producerEntry{{Type: "init", Producer: 7, Epoch: 1}, {Type: "timeout", Producer: 7, Epoch: 2}} {
		var err error
		if log, err = appendFrame(log, &e); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(log)
	f.Add(log[:len(log)-3])
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{255, 255, 255, 255, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		bodies, valid := frames(raw)
		if valid < 0 || valid > len(raw) {
			t.Fatalf("%d of %d bytes are valid", valid, len(raw))
		}
		more, err := appendFrame(bytes.Clone(raw[:valid]), "x")
		if err != nil {
			t.Fatal(err)
		}
		again, all := frames(more)
		if all != len(more) || len(again) != len(bodies)+1 || string(again[len(bodies)]) != `"x"` {
			t.Fatalf("%d frames in %d bytes, want %d in %d", len(again), all, len(bodies)+1, len(more))
		}
	})
}

// FuzzScanPartition: whatever a segment file holds, a scan ends with whole batches of growing
// offsets, and scanning and settling again changes nothing.
func FuzzScanPartition(f *testing.F) {
	one := abortMarker(0, 0, 7, 1, 1000)
	two := append(bytes.Clone(one), abortMarker(1, 0, 8, 1, 1000)...)
	open := bytes.Clone(two)
	open[22] &^= attrControl // data of a transaction, were its checksum right
	f.Add(one)
	f.Add(two)
	f.Add(two[:len(two)-1])
	f.Add(open)
	f.Add(make([]byte, 200))
	f.Fuzz(func(t *testing.T, raw []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(segmentPath(dir, 0, ".dat"), raw, 0o644); err != nil {
			t.Fatal(err)
		}
		scan := func() *partition {
			p, err := scanPartition(dir, "t", 0)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		p := scan()
		var kept int64
		for _, s := range p.segments {
			kept += s.size
		}
		if kept+p.torn+p.lost != int64(len(raw)) {
			t.Fatalf("%d bytes kept and %d cut of %d", kept, p.torn+p.lost, len(raw))
		}
		if err := p.settle(testTime); err != nil {
			t.Fatal(err)
		}
		settled := scan()
		if len(settled.open) != 0 || settled.torn != 0 || settled.end() != p.end() {
			t.Fatalf("after settling: %d open, %d torn, end %d, want end %d", len(settled.open), settled.torn, settled.end(), p.end())
		}
		before, _ := os.ReadFile(filepath.Join(dir, "snapshot.json"))
		if err := settled.settle(testTime); err != nil {
			t.Fatal(err)
		}
		if after, _ := os.ReadFile(filepath.Join(dir, "snapshot.json")); !bytes.Equal(before, after) {
			t.Fatalf("snapshot changed from %s to %s", before, after)
		}
	})
}

var testTime = time.UnixMilli(1_800_000_000_000)
