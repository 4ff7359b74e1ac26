package ledger

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func offsets(runs []Run) []int64 {
	var out []int64
	for _, r := range runs {
		for at := r.From; at < r.To; at++ {
			out = append(out, at)
		}
	}
	return out
}

func randomRuns(rng *rand.Rand, at int64, n int, gap, length int64) []Run {
	var runs []Run
	for range n {
		at += 1 + rng.Int64N(gap)
		r := Run{From: at, To: at + 1 + rng.Int64N(length)}
		runs = append(runs, r)
		at = r.To
	}
	return runs
}

func TestMetadataRoundTrip(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		watermark := rng.Int64N(1 << 50)
		m := Metadata{
			Attempts: rng.Int64N(1<<40) - 1,
			// dense ones choose the bitmap, sparse ones the runs
			Runs: randomRuns(rng, watermark, rng.IntN(200), 1+rng.Int64N(1000), 1+rng.Int64N(20)),
		}
		s := Encode(watermark, m, MaxMetadata)
		got, err := Decode(watermark, s)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got.Attempts != m.Attempts || !slices.Equal(offsets(got.Runs), offsets(m.Runs)) {
			t.Fatalf("seed %d: got %v\nwant %v", seed, got, m)
		}
	}
}

func TestMetadataChoosesTheSmallerForm(t *testing.T) {
	oneLong := Encode(0, Metadata{Runs: []Run{{1, 8192}}}, MaxMetadata)
	if len(oneLong) > 20 {
		t.Fatalf("one run of 8191 takes %d bytes", len(oneLong))
	}
	var alternating []Run
	for at := int64(1); at < 8192; at += 2 {
		alternating = append(alternating, Run{at, at + 1})
	}
	s := Encode(0, Metadata{Runs: alternating}, MaxMetadata)
	if len(s) > 1400 { // 1 KiB of bits in base64
		t.Fatalf("a full window of single bits takes %d bytes", len(s))
	}
	if far := Encode(0, Metadata{Runs: []Run{{1, 2}, {1 << 60, 1<<60 + 1}}}, MaxMetadata); len(far) > 40 {
		t.Fatalf("two runs far apart take %d bytes", len(far))
	}
}

func TestMetadataOverTheLimitIsAPrefix(t *testing.T) {
	for name, c := range map[string]struct{ gap, length int64 }{
		"sparse": {100_000, 3},
		"dense":  {2, 2},
		"medium": {64, 64},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, 7))
			m := Metadata{Attempts: 12, Runs: randomRuns(rng, 500, 40_000, c.gap, c.length)}
			for _, limit := range []int{MaxMetadata, 100, 32} {
				s := Encode(500, m, limit)
				if len(s) > limit {
					t.Fatalf("%d bytes, limit %d", len(s), limit)
				}
				got, err := Decode(500, s)
				if err != nil || got.Attempts != 12 {
					t.Fatalf("limit %d: %v %v", limit, got, err)
				}
				kept, all := offsets(got.Runs), offsets(m.Runs)
				if len(kept) == 0 || len(kept) >= len(all) || !slices.Equal(kept, all[:len(kept)]) {
					t.Fatalf("limit %d: %d of %d offsets kept, not a proper prefix", limit, len(kept), len(all))
				}
				if limit-len(s) > 24 {
					t.Fatalf("limit %d: only %d bytes used", limit, len(s))
				}
			}
		})
	}
}

func TestMetadataOfAnotherOffsetIsRefused(t *testing.T) {
	s := Encode(100, Metadata{Attempts: 5, Runs: []Run{{101, 103}}}, MaxMetadata)
	if _, err := Decode(101, s); err == nil {
		t.Fatal("accepted beside an offset that was reset")
	}
	for i := range s {
		c := byte('A')
		if s[i] == c {
			c = 'B'
		}
		m, err := Decode(100, s[:i]+string(c)+s[i+1:])
		if err == nil || m.Attempts != -1 || m.Runs != nil {
			t.Fatalf("flipped character %d: %v %v", i, m, err)
		}
	}
	for i := 1; i < len(s); i++ {
		if _, err := Decode(100, s[:i]); err == nil {
			t.Fatalf("accepted cut to %d", i)
		}
	}
}

func TestMetadataEdges(t *testing.T) {
	if m, err := Decode(3, ""); err != nil || m.Attempts != -1 || m.Runs != nil {
		t.Fatalf("no metadata: %v %v", m, err)
	}
	if s := Encode(3, Metadata{Attempts: 1}, 31); s != "" {
		t.Fatalf("%d bytes although nothing fits", len(s))
	}
	if _, err := Decode(3, "metadata of somebody else"); err == nil || !strings.Contains(err.Error(), "version") {
		t.Fatalf("foreign metadata: %v", err)
	}
	// The largest offsets neither overflow nor allocate by their distance.
	m := Metadata{Attempts: math.MaxInt64 - 1, Runs: []Run{{5, 6}, {math.MaxInt64 - 1, math.MaxInt64}}}
	got, err := Decode(0, Encode(0, m, MaxMetadata))
	if err != nil || got.Attempts != m.Attempts || !slices.Equal(got.Runs, m.Runs) {
		t.Fatalf("largest offsets: %v %v", got, err)
	}
}

// sealed wraps body as Encode would.
func sealed(watermark int64, body []byte) string {
	head := binary.BigEndian.AppendUint32(nil, checksum(watermark, body))
	return string(metadataVersion) + encoding.EncodeToString(append(head, body...))
}

// FuzzDecodeMetadata: never panics; what decodes is ascending, at or above the watermark,
// and encodes to something that decodes to the same set.
func FuzzDecodeMetadata(f *testing.F) {
	rng := rand.New(rand.NewPCG(9, 9))
	f.Add(int64(0), "")
	f.Add(int64(7), Encode(7, Metadata{Attempts: -1}, MaxMetadata))
	f.Add(int64(100), Encode(100, Metadata{Attempts: 9, Runs: []Run{{101, 104}}}, MaxMetadata))
	f.Add(int64(100), Encode(100, Metadata{Attempts: 9, Runs: randomRuns(rng, 100, 50, 3, 3)}, MaxMetadata))
	f.Add(int64(5), string([]byte{1, kindRuns, 1, 2, 0, 1}))
	f.Add(int64(5), string([]byte{1, kindBitmap, 0xa5, 0xff}))
	f.Fuzz(func(t *testing.T, watermark int64, s string) {
		if watermark < 0 || watermark > 1<<61 || len(s) > MaxMetadata {
			return
		}
		m, err := Decode(watermark, s)
		if err != nil { // what lies behind the checksum must be as safe as the checksum
			m, err = Decode(watermark, sealed(watermark, []byte(s)))
		}
		if err != nil {
			if m.Attempts != -1 || m.Runs != nil {
				t.Fatalf("error with a result: %v", m)
			}
			return
		}
		at := watermark
		for _, r := range m.Runs {
			if r.From < at || r.To <= r.From {
				t.Fatalf("runs not ascending: %v", m.Runs)
			}
			at = r.To
		}
		again, err := Decode(watermark, Encode(watermark, m, 2*MaxMetadata))
		if err != nil || again.Attempts != m.Attempts {
			t.Fatalf("again: %v %v", again, err)
		}
	})
}
