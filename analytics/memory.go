package analytics

import (
	"sync"

	"github.com/hookline/hookline/analytics/row"
)

// memory bounds the rows that wait over all partitions.
type memory struct {
	limit int64

	mu   sync.Mutex // guards the following
	used int64
	wait map[*feed]struct{} // that stopped fetching for want of room
}

func newMemory(limit int64) *memory {
	return &memory{limit: limit, wait: make(map[*feed]struct{})}
}

// grow takes note of n more bytes.
func (m *memory) grow(n int64) {
	m.mu.Lock()
	m.used += n
	m.mu.Unlock()
}

// room says whether more may be fetched. A feed without room is told when there is.
func (m *memory) room(f *feed) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used < m.limit {
		return true
	}
	m.wait[f] = struct{}{}
	return false
}

// shrink gives n bytes back and wakes who waits once a good part is free: each restart of a
// partition costs a fetch.
func (m *memory) shrink(n int64) {
	m.mu.Lock()
	m.used -= n
	var woken []*feed
	if m.used < m.limit/4*3 {
		for f := range m.wait {
			woken = append(woken, f)
		}
		clear(m.wait)
	}
	m.mu.Unlock()
	for _, f := range woken {
		f.wake()
	}
}

func (m *memory) forget(f *feed) {
	m.mu.Lock()
	delete(m.wait, f)
	m.mu.Unlock()
}

func (m *memory) inUse() (used int64, waiting int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used, len(m.wait)
}

// pool keeps a few empty blocks of one table: their slices have the size of a batch.
type pool struct {
	src  source
	free chan row.Block
}

func newPool(src source, n int) *pool { return &pool{src: src, free: make(chan row.Block, n)} }

func (p *pool) get() row.Block {
	select {
	case b := <-p.free:
		return b
	default:
		return p.src.newBlock()
	}
}

// put takes a block back that nobody reads any more.
func (p *pool) put(b row.Block) {
	b.Reset()
	select {
	case p.free <- b:
	default:
	}
}
