package dispatcher

import "sync"

// permits deals the attempts that a process may have under way over its partitions: round
// robin, and inside a partition half to due and half to fresh deliveries while both wait. A
// permit is held from before the POST until the attempt record is acked, so when the
// attempts topic cannot be written no new POST starts.
//
// Safe for concurrent use. run is called on a goroutine of its own for each dealt permit.
type permits struct {
	run func(*delivery)

	mu   sync.Mutex // guards all below and every partition's queues
	free int
	size int
	ring []*queues // partitions with deliveries waiting, in the order of their turn
}

// queues are the deliveries of one partition that wait for a permit.
type queues struct {
	due, fresh fifo[*delivery]
	dueNext    bool // whose turn it is while both wait
	inRing     bool
	closed     bool
}

func newPermits(size int, run func(*delivery)) *permits {
	return &permits{run: run, free: size, size: size}
}

// offer queues a delivery for its partition's next permit. It reports false when the
// partition was closed: the delivery is not taken.
func (p *permits) offer(q *queues, d *delivery) bool {
	p.mu.Lock()
	if q.closed {
		p.mu.Unlock()
		return false
	}
	if d.slot.stream.isDue() {
		q.due.push(d)
	} else {
		q.fresh.push(d)
	}
	if !q.inRing {
		q.inRing = true
		p.ring = append(p.ring, q)
	}
	d = p.dealLocked()
	p.mu.Unlock()
	if d != nil {
		go p.run(d)
	}
	return true
}

// release returns one permit and deals it on.
func (p *permits) release() {
	p.mu.Lock()
	p.free++
	d := p.dealLocked()
	p.mu.Unlock()
	if d != nil {
		go p.run(d)
	}
}

// dealLocked takes the next delivery in turn, or nil when no permit is free or nobody waits.
// One call deals at most one: each offer and each release adds at most one dealable pair.
func (p *permits) dealLocked() *delivery {
	if p.free == 0 || len(p.ring) == 0 {
		return nil
	}
	q := p.ring[0]
	d := q.next()
	copy(p.ring, p.ring[1:])
	p.ring = p.ring[:len(p.ring)-1]
	if q.due.len()+q.fresh.len() > 0 {
		p.ring = append(p.ring, q)
	} else {
		q.inRing = false
	}
	p.free--
	return d
}

func (q *queues) next() *delivery {
	fromDue := q.due.len() > 0 && (q.dueNext || q.fresh.len() == 0)
	q.dueNext = !fromDue
	if fromDue {
		return q.due.pop()
	}
	return q.fresh.pop()
}

// close refuses further deliveries of a partition and returns those that wait.
func (p *permits) close(q *queues) []*delivery {
	p.mu.Lock()
	defer p.mu.Unlock()
	q.closed = true
	var waiting []*delivery
	for q.due.len()+q.fresh.len() > 0 {
		waiting = append(waiting, q.next())
	}
	for i, other := range p.ring {
		if other == q {
			p.ring = append(p.ring[:i], p.ring[i+1:]...)
			break
		}
	}
	q.inRing = false
	return waiting
}

// inUse returns how many permits are out.
func (p *permits) inUse() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size - p.free
}

// fifo is a queue on a ring of its own: no allocation per element once it has grown.
type fifo[T any] struct {
	items []T
	head  int
	n     int
}

func (f *fifo[T]) len() int { return f.n }

func (f *fifo[T]) push(v T) {
	if f.n == len(f.items) {
		grown := make([]T, max(16, 2*len(f.items)))
		for i := range f.n {
			grown[i] = f.items[(f.head+i)%len(f.items)]
		}
		f.items, f.head = grown, 0
	}
	f.items[(f.head+f.n)%len(f.items)] = v
	f.n++
}

// pop removes the oldest element; the queue must not be empty.
func (f *fifo[T]) pop() T {
	var zero T
	v := f.items[f.head]
	f.items[f.head] = zero
	f.head = (f.head + 1) % len(f.items)
	f.n--
	return v
}

// peek returns the oldest element; the queue must not be empty.
func (f *fifo[T]) peek() T { return f.items[f.head] }
