package receiver

import (
	"sync"
	"time"
	"unsafe"

	"github.com/cespare/xxhash/v2"
)

// Check is the verdict about a signature.
type Check uint8

// Verdicts.
const (
	Unchecked Check = iota // the path has no secrets
	Valid
	Invalid
)

// Request is what is kept of one request.
type Request struct {
	ID        string // Webhook-Id
	MessageID string // of the body, "" when it has none
	Path      string
	Attempt   int    // Webhook-Attempt, 0 = missing
	Timestamp int64  // Webhook-Timestamp, 0 = missing
	Sequence  uint64 // Webhook-Sequence, 0 = missing
	BodyHash  uint64 // xxhash64
	At        time.Time
	Status    int // what was answered; 0 = hang or reset
	Signature Check
	Body      []byte // only with Config.KeepBodies
}

// OK reports whether the sender was told that the delivery is done.
func (r *Request) OK() bool { return r.Status >= 200 && r.Status <= 299 }

const (
	shardCount = 64
	arenaSize  = 64 << 10
	chunkSize  = 512
)

// stored is a Request with what repeats taken out.
type stored struct {
	id, message string
	sequence    uint64
	bodyHash    uint64
	at          int64 // Unix nanoseconds
	timestamp   int64
	body        []byte
	path        *path
	attempt     uint16
	status      uint16
	check       Check
}

// shard holds the requests of some message ids in arrival order. The pad keeps two locks
// out of one cache line.
type shard struct {
	mu     sync.Mutex
	chunks [][]stored
	arena  []byte
	seen   map[seenKey]int // requests per event, only for paths whose answer depends on it
	_      [64]byte
}

type seenKey struct {
	path *path
	id   string
}

type store struct {
	shards [shardCount]shard
}

func (s *store) shardOf(messageID, id []byte) *shard {
	if len(messageID) == 0 {
		messageID = id
	}
	return &s.shards[xxhash.Sum64(messageID)%shardCount]
}

// keepLocked copies b into the arena. Chunks of the arena are never moved, so the string
// stays valid.
func (sh *shard) keepLocked(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(sh.arena)+len(b) > cap(sh.arena) {
		sh.arena = make([]byte, 0, max(arenaSize, len(b)))
	}
	at := len(sh.arena)
	sh.arena = append(sh.arena, b...)
	return unsafe.String(&sh.arena[at], len(b))
}

// nthLocked counts the requests of an event on a path, from 1.
func (sh *shard) nthLocked(p *path, id string) int {
	if sh.seen == nil {
		sh.seen = map[seenKey]int{}
	}
	k := seenKey{p, id}
	sh.seen[k]++
	return sh.seen[k]
}

func (sh *shard) appendLocked(r stored) {
	n := len(sh.chunks)
	if n == 0 || len(sh.chunks[n-1]) == chunkSize {
		sh.chunks = append(sh.chunks, make([]stored, 0, chunkSize))
		n++
	}
	sh.chunks[n-1] = append(sh.chunks[n-1], r)
}

// each calls fn with every record; those of one message id in arrival order. Records that
// arrive meanwhile may or may not be among them.
func (s *store) each(fn func(*Request) bool) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		chunks := append([][]stored(nil), sh.chunks...) // filled records are never written again
		sh.mu.Unlock()
		for _, c := range chunks {
			for k := range c {
				r := c[k].request()
				if !fn(&r) {
					return
				}
			}
		}
	}
}

func (s *store) reset() {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.chunks, sh.arena, sh.seen = nil, nil, nil
		sh.mu.Unlock()
	}
}

func (r *stored) request() Request {
	return Request{
		ID: r.id, MessageID: r.message, Path: r.path.name,
		Attempt: int(r.attempt), Timestamp: r.timestamp, Sequence: r.sequence,
		BodyHash: r.bodyHash, At: time.Unix(0, r.at), Status: int(r.status),
		Signature: r.check, Body: r.body,
	}
}
