package ingest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// smallBody is the size up to which a body is read from anybody and without a look at what
// others send. A connection has a buffer of that size anyway.
const smallBody = headerLimit

// intake bounds the memory of the bodies that are being read or were inflated. fasthttp makes
// room for a whole body once its length is known, before a byte of it has come, and reads it
// before our handler runs: without a bound, whoever opens connections and sends slowly has all
// memory.
//
// It knows requests by the place of their headers, which is all that fasthttp shows before the
// body. Safe for concurrent use.
type intake struct {
	most int64
	life time.Duration // of a request, at the most

	count atomic.Int32 // of open, to pass by without the lock

	mu    sync.Mutex // guards the fields below
	open  map[*fasthttp.RequestHeader]reading
	bytes int64
	swept time.Time
}

// reading is one large body that is being read, or why it is not.
type reading struct {
	who   *share
	bytes int64
	since time.Time
	limit int      // of its body, as the answer tells it
	p     *problem // why it is not read; nil = it is
}

func newIntake(cfg Config) *intake {
	return &intake{most: int64(cfg.MaxBufferedBytes), life: cfg.ReadTimeout + cfg.AckTimeout + time.Second, open: map[*fasthttp.RequestHeader]reading{}}
}

// enter counts a body of up to n bytes, or remembers that it is not read and why.
func (i *intake) enter(h *fasthttp.RequestHeader, n int64, r reading) (ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.drop(h) // of a connection that ended without a word
	if r.p == nil && !i.room(r.who, n) {
		i.sweep(r.since)
		if !i.room(r.who, n) {
			r.p = errIntake
		}
	}
	if r.p == nil {
		r.bytes = n
		i.bytes += n
		r.who.read(n)
	}
	i.open[h] = r
	i.count.Store(int32(len(i.open)))
	return r.p == nil
}

// grow counts n more bytes of a request: its body was small as it came and is large inflated.
func (i *intake) grow(h *fasthttp.RequestHeader, who *share, n int64, now time.Time) (ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	r, known := i.open[h]
	if !known {
		r.who = who
	}
	r.since = now // it is no leftover for sweep
	i.open[h] = r
	i.count.Store(int32(len(i.open)))
	if !i.room(r.who, n) {
		i.sweep(now)
		if !i.room(r.who, n) {
			return false
		}
	}
	r.bytes += n
	i.open[h] = r
	i.bytes += n
	r.who.read(n)
	return true
}

// inflates says of the inflated body of a request whether there is room for it.
func (s *Server) inflates(ctx *fasthttp.RequestCtx, who *share) func(n int) bool {
	return func(n int) bool {
		return n <= smallBody || s.intake.grow(&ctx.Request.Header, who, int64(n), time.Now())
	}
}

func (i *intake) room(who *share, n int64) bool {
	total := i.bytes + n
	if total > i.most {
		return false
	}
	if who == nil {
		return true
	}
	held := who.reading.Load() + n
	return held <= i.most/smallShare || !over(held, total, float64(total)/float64(i.most))
}

// leave ends the count of a request and returns it, the zero reading if its body was small.
func (i *intake) leave(h *fasthttp.RequestHeader) reading {
	if i.count.Load() == 0 {
		return reading{}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.drop(h)
}

// refused is why the body of a request is not read, nil if it is.
func (i *intake) refused(h *fasthttp.RequestHeader) *problem {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.open[h].p
}

func (i *intake) drop(h *fasthttp.RequestHeader) reading {
	r, ok := i.open[h]
	if !ok {
		return r
	}
	delete(i.open, h)
	i.count.Store(int32(len(i.open)))
	i.bytes -= r.bytes
	r.who.read(-r.bytes)
	return r
}

// sweep forgets what is older than any request can be: fasthttp says nothing of a request
// whose connection was closed by a stop.
func (i *intake) sweep(now time.Time) {
	if now.Sub(i.swept) < time.Second {
		return
	}
	i.swept = now
	for h, r := range i.open {
		if now.Sub(r.since) > i.life {
			i.drop(h)
		}
	}
}

// received is told the headers of each request before its body is read, and says how much of
// it may be. A refused body is read as far as a small one, then unreadable answers.
func (s *Server) received(h *fasthttp.RequestHeader) (conf fasthttp.RequestConfig) {
	defer func() {
		if cause := recover(); cause != nil {
			s.metrics.panics.Inc()
			s.log.Error("look at headers panicked", "cause", cause)
			conf.MaxRequestBodySize = smallBody
		}
	}()
	n := h.ContentLength()
	if n <= smallBody && n != -1 {
		return fasthttp.RequestConfig{} // small, or none; s.http has the limit
	}
	now := time.Now()
	who, limit, p := s.sender(h, now)
	most := limit + encodingSlack
	if n > most {
		return fasthttp.RequestConfig{MaxRequestBodySize: most} // too large: it is not read
	}
	if n < 0 {
		n = most
	}
	if !s.intake.enter(h, int64(n), reading{who: who, limit: limit, since: now, p: p}) {
		most = smallBody
	}
	return fasthttp.RequestConfig{MaxRequestBodySize: most}
}

// sender says, by the headers alone, whose body it is and how large it may be, or why it need
// not be read: all of it would be read before its handler runs.
func (s *Server) sender(h *fasthttp.RequestHeader, now time.Time) (who *share, limit int, p *problem) {
	path := pathOf(h.RequestURI())
	switch string(path) {
	case PathEvents, PathBatch:
	default:
		src := s.sources[string(path[lastSlash(path):])]
		if src != nil && string(path[:lastSlash(path)]) == sourcesHead {
			return src.share, s.cfg.MaxBody, nil
		}
		return nil, s.cfg.MaxBody, errNotFound
	}
	limit = s.cfg.MaxBody
	value, ok := single(h, fasthttp.HeaderAuthorization)
	c := s.keys.Load().find(value)
	if !ok || c == nil {
		return nil, limit, errUnauthorized
	}
	if string(path) == PathBatch {
		limit = maxBatchBody
	}
	return c.share, limit, c.bucket.look(now)
}

func (i *intake) held() int64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.bytes
}
