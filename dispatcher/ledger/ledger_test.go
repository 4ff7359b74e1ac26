package ledger

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// model is the obvious ledger: one state per offset.
type model struct {
	start, next int64
	open        map[int64]int
	done        map[int64]bool // marks at or above next
}

func (m *model) watermark() int64 {
	w := m.next
	for at := range m.open {
		w = min(w, at)
	}
	return w
}

// doneAbove lists every offset above the watermark that is done.
func (m *model) doneAbove() []int64 {
	var out []int64
	for at := m.watermark(); at < m.next; at++ {
		if _, open := m.open[at]; !open {
			out = append(out, at)
		}
	}
	for at := range m.done {
		if at >= m.next {
			out = append(out, at)
		}
	}
	slices.Sort(out)
	return out
}

func check(t *testing.T, l *Ledger, m *model) {
	t.Helper()
	if l.Watermark() != m.watermark() || l.Next() != m.next || l.OpenCount() != len(m.open) {
		t.Fatalf("watermark %d next %d open %d, want %d %d %d",
			l.Watermark(), l.Next(), l.OpenCount(), m.watermark(), m.next, len(m.open))
	}
	var bytes int64
	for _, n := range m.open {
		bytes += int64(n)
	}
	if l.OpenBytes() != bytes {
		t.Fatalf("open bytes %d, want %d", l.OpenBytes(), bytes)
	}
	oldest, ok := l.Oldest()
	if ok != (len(m.open) > 0) || ok && oldest != m.watermark() {
		t.Fatalf("oldest %d %v", oldest, ok)
	}
	var got []int64
	last := int64(-1)
	l.DoneAbove(func(from, to int64) {
		if from >= to || from <= last {
			t.Fatalf("run [%d,%d) after %d: empty, unordered or adjacent", from, to, last)
		}
		last = to
		for at := from; at < to; at++ {
			got = append(got, at)
		}
	})
	if !slices.Equal(got, m.doneAbove()) {
		t.Fatalf("done above\n got %v\nwant %v", got, m.doneAbove())
	}
}

// TestAnyOrderOfCompletions drives ledger and model with the same random operations and
// compares everything after each; the watermark must never decrease and never pass an
// offset that is open.
func TestAnyOrderOfCompletions(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		start := rng.Int64N(1000)
		l := New(start, Limits{Offsets: 200, Bytes: 5000})
		m := &model{start: start, next: start, open: map[int64]int{}, done: map[int64]bool{}}
		last := l.Watermark()
		for range 1500 {
			step(t, rng, l, m)
			check(t, l, m)
			if l.Watermark() < last {
				t.Fatalf("seed %d: watermark went from %d to %d", seed, last, l.Watermark())
			}
			last = l.Watermark()
			full := m.next-m.watermark() >= 200 || l.OpenBytes() >= 5000
			if l.Full() != full {
				t.Fatalf("seed %d: full %v, want %v", seed, l.Full(), full)
			}
		}
	}
}

func step(t *testing.T, rng *rand.Rand, l *Ledger, m *model) {
	t.Helper()
	switch op := rng.IntN(10); {
	case op < 4:
		if l.Full() {
			return
		}
		at := m.next + max(0, rng.Int64N(6)-3) // gaps now and then
		size := rng.IntN(100)
		state := l.Open(at, size)
		if (state == AlreadyDone) != m.done[at] {
			t.Fatalf("open %d: state %d, marked %v", at, state, m.done[at])
		}
		if state == Opened {
			m.open[at] = size
		}
		m.next = at + 1
	case op < 8:
		for at := range m.open { // any one
			l.Done(at)
			l.Done(at)
			delete(m.open, at)
			return
		}
	case op == 8:
		at := m.start + rng.Int64N(m.next-m.start+50)
		l.MarkDone(at)
		if at >= m.next {
			m.done[at] = true
		}
	default:
		to := m.next - 2 + rng.Int64N(5)
		l.Skip(to)
		m.next = max(m.next, to)
	}
}

func TestGapsCountAsDone(t *testing.T) {
	l := New(10, Limits{})
	l.Open(10, 1)
	l.Open(20, 1)
	l.Done(10)
	if got := l.Watermark(); got != 20 {
		t.Fatalf("watermark %d, want 20: 11..19 never existed", got)
	}
	l.Done(20)
	l.Skip(25)
	if got := l.Watermark(); got != 25 {
		t.Fatalf("watermark %d, want 25: the tail is markers", got)
	}
}

func TestMarksNotYetReadStayInTheMetadata(t *testing.T) {
	l := New(100, Limits{})
	l.MarkDone(99) // below start
	l.MarkDone(104)
	l.MarkDone(103)
	l.MarkDone(107)
	l.Open(100, 1)
	want := []Run{{101 + 2, 105}, {107, 108}}
	if got := l.AppendDone(nil); !slices.Equal(got, want) {
		t.Fatalf("done above %v, want %v", got, want)
	}
	if l.Open(103, 1) != AlreadyDone || l.Open(104, 1) != AlreadyDone || l.Open(105, 1) != Opened {
		t.Fatal("marks are not honoured at the first read")
	}
	if l.Watermark() != 100 {
		t.Fatal("a done record moved the watermark past an open one")
	}
}

func TestWindowLimits(t *testing.T) {
	l := New(0, Limits{Offsets: 4, Bytes: 100})
	for at := range int64(4) {
		if l.Full() {
			t.Fatalf("full before %d", at)
		}
		l.Open(at, 10)
	}
	if !l.Full() {
		t.Fatal("not full at 4 offsets")
	}
	l.Done(1)
	if !l.Full() {
		t.Fatal("a completion above the watermark frees no offsets")
	}
	l.Done(0)
	if l.Full() {
		t.Fatal("still full after the watermark moved")
	}
	l.Open(4, 1000)
	if !l.Full() {
		t.Fatal("not full at its bytes")
	}
	l.Done(4)
	if l.Full() || New(0, Limits{}).Full() {
		t.Fatal("full without reason")
	}
}

func TestBrokenInvariantsPanic(t *testing.T) {
	for name, fn := range map[string]func(l *Ledger){
		"open again":       func(l *Ledger) { l.Open(5, 1) },
		"open below":       func(l *Ledger) { l.Open(2, 1) },
		"done in a gap":    func(l *Ledger) { l.Done(7) },
		"done beyond next": func(l *Ledger) { l.Done(50) },
		"done below start": func(l *Ledger) { l.Done(1) },
	} {
		t.Run(name, func(t *testing.T) {
			l := New(2, Limits{})
			l.Open(5, 1)
			l.Open(9, 1)
			defer func() {
				if recover() == nil {
					t.Fatal("did not panic")
				}
			}()
			fn(l)
		})
	}
}

// TestPassedPartOfTheWindowIsReused keeps one record open at a time over many.
func TestPassedPartOfTheWindowIsReused(t *testing.T) {
	l := New(0, Limits{})
	l.Open(0, 1)
	for at := int64(1); at < 100_000; at++ {
		l.Open(at, 1)
		l.Done(at - 1)
	}
	if cap(l.window) > 16_384 {
		t.Fatalf("window of one open record holds %d entries", cap(l.window))
	}
}

func BenchmarkOpenDone(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	l := New(0, DefaultLimits())
	inFlight := make([]int64, 0, 4096)
	b.ReportAllocs()
	for i := range int64(b.N) {
		if len(inFlight) == 4096 || l.Full() {
			k := rng.IntN(len(inFlight))
			if l.Full() {
				k = slices.Index(inFlight, l.Watermark())
			}
			l.Done(inFlight[k])
			inFlight[k] = inFlight[len(inFlight)-1]
			inFlight = inFlight[:len(inFlight)-1]
		}
		l.Open(i, 100)
		inFlight = append(inFlight, i)
	}
}
