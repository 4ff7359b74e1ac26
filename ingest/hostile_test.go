package ingest

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// hostile is one way to misuse a connection. It returns when the connection is of no more use.
type hostile func(ctx context.Context, conn *net.TCPConn)

// drip sends text a byte at a time and never ends it.
func drip(text string) hostile {
	return func(ctx context.Context, conn *net.TCPConn) {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			if _, err := conn.Write([]byte{text[min(i, len(text)-1)]}); err != nil {
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}
}

// say sends text and then reads until the server has enough.
func say(text string) hostile {
	return func(_ context.Context, conn *net.TCPConn) {
		go func() { _, _ = io.WriteString(conn, text) }()
		_, _ = io.Copy(io.Discard, conn)
	}
}

var hostiles = map[string]hostile{
	"silent":            say(""),
	"slow headers":      drip("POST /v1/events HTTP/1.1\r\nHost: h\r\nX: xxxxxxxx"),
	"slow body":         drip(request(padded(200_000))),
	"slow chunks":       drip("POST /v1/events HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer other\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n"),
	"stranger's body":   say(strings.Replace(request(padded(250_000)), "secret", "nobody", 1)),
	"large body is cut": say(strings.Replace(request(padded(250_000)), "secret", "other", 1)[:200_000]),
	"headers, no end":   say("GET / HTTP/1.1\r\n" + strings.Repeat("a: b\r\n", 10_000)),
	"garbage": func(_ context.Context, conn *net.TCPConn) {
		junk := make([]byte, 4096)
		for i := range junk {
			junk[i] = byte(rand.IntN(256))
		}
		say(string(junk))(nil, conn)
	},
	"half close": func(_ context.Context, conn *net.TCPConn) {
		_, _ = io.WriteString(conn, request(goodBody)[:120])
		_ = conn.CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
	},
	"reset in the body": func(_ context.Context, conn *net.TCPConn) {
		_, _ = io.WriteString(conn, strings.Replace(request(padded(250_000)), "secret", "other", 1)[:100_000])
		_ = conn.SetLinger(0)
	},
	"reset before the answer": func(_ context.Context, conn *net.TCPConn) {
		_, _ = io.WriteString(conn, strings.Replace(request(goodBody), "secret", "other", 1))
		_ = conn.SetLinger(0)
	},
	"never reads": func(_ context.Context, conn *net.TCPConn) {
		_ = conn.SetReadBuffer(4096)
		ask := strings.Repeat("GET /openapi.json HTTP/1.1\r\nHost: h\r\n\r\n", 20)
		for range 50 {
			_ = conn.SetWriteDeadline(time.Now().Add(3 * time.Second))
			if _, err := io.WriteString(conn, ask); err != nil {
				return
			}
		}
	},
}

// Many clients misbehave in every way at once, each again and again. A good client's events are
// all accepted within a bound, and afterwards nothing is left of the others.
func TestHostileClients(t *testing.T) {
	const each, attack = 5, 3 * time.Second
	r, _ := start(t, func(c *Config) {
		c.ReadTimeout, c.WriteTimeout, c.IdleTimeout = time.Second, time.Second, time.Second
		c.StallAfter, c.AckTimeout = 5*time.Second, 10*time.Second // the broker shares the machine with all of them
	})
	for range 20 {
		if a := r.post(goodBody); a.status != 202 {
			t.Fatal(a)
		}
	}
	r.http.CloseIdleConnections()
	eventually(t, func() bool { return r.metric("hookline_ingest_open_connections") == 0 })
	goroutines, heap := runtime.NumGoroutine(), heapNow()

	ctx, cancel := context.WithTimeout(context.Background(), attack)
	defer cancel()
	var attackers sync.WaitGroup
	var tries atomic.Int64
	for _, attack := range hostiles {
		for range each {
			attackers.Go(func() {
				pace := time.NewTicker(150 * time.Millisecond) // they have no machine of their own
				defer pace.Stop()
				for ctx.Err() == nil {
					tries.Add(1)
					misuse(ctx, r.addr, attack)
					<-pace.C
				}
			})
		}
	}
	var took []time.Duration
	for ctx.Err() == nil {
		began := time.Now()
		if a := r.post(goodBody); a.status != 202 {
			t.Fatalf("a good client: %s", a)
		}
		took = append(took, time.Since(began))
	}
	cancel()
	attackers.Wait()
	slices.Sort(took)
	p99, worst := took[len(took)*99/100], took[len(took)-1]
	t.Logf("%d events of the good client, p50 %s, p99 %s, worst %s; %d connections of %d hostile clients", len(took), took[len(took)/2], p99, worst, tries.Load(), each*len(hostiles))
	if p99 > 2*time.Second {
		t.Errorf("%d events, p99 %s, worst %s", len(took), p99, worst)
	}
	r.http.CloseIdleConnections()
	eventually(t, func() bool { return r.metric("hookline_ingest_open_connections") == 0 && r.reading() == 0 })
	eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+10 })
	eventually(t, func() bool { return heapNow() <= heap+16<<20 })
	if n := r.metric("hookline_ingest_panics_total"); n != 0 {
		t.Errorf("%v panics", n)
	}
}

func misuse(ctx context.Context, addr string, attack hostile) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer conn.Close() //nolint:errcheck // misused enough
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	attack(ctx, conn.(*net.TCPConn))
}

func heapNow() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A stop under load answers every request that it takes: the log holds an event for each 202,
// and none that nobody was told about. Half of the clients pipeline.
func TestStopUnderLoad(t *testing.T) {
	r, b := start(t)
	type told struct {
		mu  sync.Mutex // guards ids
		ids map[string]string
	}
	all := told{ids: map[string]string{}}
	accept := func(a answer) {
		all.mu.Lock()
		defer all.mu.Unlock()
		all.ids[a.ID] = fmt.Sprintf("%d/%d", a.Partition, a.Offset)
	}
	var clients sync.WaitGroup
	for n := range 16 {
		clients.Go(func() { loadUntilClosed(r.addr, 1+n%2*7, accept) })
	}
	eventually(t, func() bool { return r.metric("hookline_ingest_acked_events_total") > 2000 })
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	clients.Wait()
	log := everything(t, b)
	if len(log) != len(all.ids) {
		t.Errorf("%d events in the log, %d were answered with 202", len(log), len(all.ids))
	}
	for id, at := range all.ids {
		if log[id] != at {
			t.Fatalf("event %s was told to be at %s and is at %q", id, at, log[id])
		}
	}
}
