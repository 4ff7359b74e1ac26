package loadgen

import (
	"errors"
	"io"
	"net/http"
	"syscall"
	"time"
	"unsafe"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/valyala/fasthttp"
)

// Accepted is one event that was answered 202.
type Accepted struct {
	ID       string
	N        uint64    // number of the event in its run
	BodyHash uint64    // xxhash64
	Start    time.Time // intended start (open loop) or start (closed loop)
	Done     time.Time // arrival of the 202
}

// Result is what a run did.
type Result struct {
	Started, Ended time.Time
	Sent           int
	Accepted       int
	ByStatus       map[int]int    // answers
	Errors         map[string]int // posts without a usable answer, by class; their outcome is unknown
	// Latency counts in microseconds from the intended start to the answer, of 202s only.
	Latency *hdrhistogram.Histogram

	logs []*log
}

// NewHistogram has the geometry of every latency histogram of the harness: microseconds,
// three digits, up to ten minutes.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(10*time.Minute/time.Microsecond), 3)
}

// Record adds d to h, at most its largest value.
func Record(h *hdrhistogram.Histogram, d time.Duration) {
	// In range by construction, so the error cannot happen.
	_ = h.RecordValue(min(max(d.Microseconds(), 1), h.HighestTrackableValue()))
}

// Each calls fn with every accepted event. The strings stay valid.
func (r *Result) Each(fn func(Accepted) bool) {
	for _, l := range r.logs {
		for _, c := range l.chunks {
			for _, s := range c {
				a := Accepted{ID: s.id, N: s.n, BodyHash: s.hash, Start: time.Unix(0, s.start), Done: time.Unix(0, s.done)}
				if !fn(a) {
					return
				}
			}
		}
	}
}

// entry is an Accepted in compact form.
type entry struct {
	id          string
	n, hash     uint64
	start, done int64
}

const (
	arenaSize = 64 << 10
	chunkSize = 1024
)

// log is what one worker keeps; only that worker writes it.
type log struct {
	chunks   [][]entry
	arena    []byte
	sent     int
	byStatus map[int]int
	errors   map[string]int
	latency  *hdrhistogram.Histogram
}

func newLog() *log {
	return &log{byStatus: map[int]int{}, errors: map[string]int{}, latency: NewHistogram()}
}

func (l *log) accept(id []byte, e entry) {
	if len(l.arena)+len(id) > cap(l.arena) {
		l.arena = make([]byte, 0, max(arenaSize, len(id)))
	}
	at := len(l.arena)
	l.arena = append(l.arena, id...)
	e.id = unsafe.String(&l.arena[at], len(id))
	n := len(l.chunks)
	if n == 0 || len(l.chunks[n-1]) == chunkSize {
		l.chunks = append(l.chunks, make([]entry, 0, chunkSize))
		n++
	}
	l.chunks[n-1] = append(l.chunks[n-1], e)
	Record(l.latency, time.Duration(e.done-e.start))
}

func merge(logs []*log, started, ended time.Time) *Result {
	r := &Result{
		Started: started, Ended: ended, ByStatus: map[int]int{}, Errors: map[string]int{},
		Latency: NewHistogram(), logs: logs,
	}
	for _, l := range logs {
		r.Sent += l.sent
		for status, n := range l.byStatus {
			r.ByStatus[status] += n
		}
		for class, n := range l.errors {
			r.Errors[class] += n
		}
		for _, c := range l.chunks {
			r.Accepted += len(c)
		}
		r.Latency.Merge(l.latency)
	}
	return r
}

// errorClass names why a post has no answer, from a short list.
func errorClass(err error) string {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "reset"
	case errors.Is(err, io.EOF), errors.Is(err, fasthttp.ErrConnectionClosed), errors.Is(err, io.ErrUnexpectedEOF):
		return "closed"
	}
	return "other"
}

// Refused sums the answers that say "nothing was accepted": 4xx and 503.
func (r *Result) Refused() (n int) {
	for status, k := range r.ByStatus {
		if status >= 400 && status <= 499 || status == http.StatusServiceUnavailable {
			n += k
		}
	}
	return n
}

// Unknown sums the posts that may or may not have been accepted.
func (r *Result) Unknown() (n int) {
	for _, k := range r.Errors {
		n += k
	}
	return n + r.ByStatus[http.StatusGatewayTimeout] + r.ByStatus[http.StatusInternalServerError]
}
