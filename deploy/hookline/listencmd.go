package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/hookline/hookline/dispatcher/signature"
)

type listenCmd struct {
	Addr      string        `help:"Where to listen; loopback only." default:"127.0.0.1:9000" placeholder:"HOST:PORT"`
	Secret    []string      `help:"Signing secret (whsec_..., whpk_...); may be given several times. A reference works too (file:PATH)." placeholder:"SECRET"`
	Tolerance time.Duration `help:"How far a timestamp may be off." default:"5m"`
	Fail      float64       `help:"Answer 500 to this share (0..1) of the requests." default:"0" placeholder:"RATE"`
	Delay     time.Duration `help:"Wait before each answer." default:"0"`
	JSON      bool          `help:"Print one JSON object per request."`
}

// maxWebhook bounds what is read of one request.
const maxWebhook = 16 << 20

// listener receives webhooks, verifies them and prints a line each.
type listener struct {
	keys      []signature.Key
	tolerance time.Duration
	fail      float64
	delay     time.Duration
	json      bool
	now       func() time.Time

	mu  sync.Mutex // guards out: one line at a time
	out io.Writer
}

// received is one request, as --json prints it.
type received struct {
	At        time.Time `json:"at"`
	Result    string    `json:"result"` // valid, invalid, unchecked
	Problem   string    `json:"problem,omitempty"`
	Status    int       `json:"status"`
	EventID   string    `json:"event_id"`
	Attempt   int       `json:"attempt"`
	Sequence  uint64    `json:"sequence"`
	Timestamp int64     `json:"timestamp"`
	Path      string    `json:"path"`
	Bytes     int       `json:"bytes"`
	Body      string    `json:"body,omitempty"`
}

func (c *listenCmd) Run(a *app) error {
	if !loopback(c.Addr) {
		return usagef("--addr: listen serves on loopback only; use 127.0.0.1:PORT")
	}
	if c.Fail < 0 || c.Fail > 1 {
		return usagef("--fail must be from 0 to 1")
	}
	l := &listener{tolerance: c.Tolerance, fail: c.Fail, delay: c.Delay, json: c.JSON, now: time.Now, out: a.stdout}
	for i, s := range c.Secret {
		k, err := parseVerifyKey(s)
		if err != nil {
			return usagef("--secret %d: %w", i+1, err)
		}
		l.keys = append(l.keys, k)
	}
	ln, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return fmt.Errorf("listen on %s; choose another address with --addr: %w", c.Addr, err)
	}
	if len(l.keys) == 0 {
		fmt.Fprintln(a.stderr, "note: without --secret no signature is checked")
	}
	fmt.Fprintf(a.stderr, "listening on http://%s\n", ln.Addr())
	server := &http.Server{Handler: l, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve: %w", err)
	case <-a.ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		_ = server.Close() // cut what does not end; the sender tries again
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

func parseVerifyKey(s string) (signature.Key, error) {
	text, err := resolveSecret(s)
	if err != nil {
		return signature.Key{}, err
	}
	if k, err := signature.ParsePublic(text); err == nil {
		return k, nil
	}
	return signature.ParseSecret(text)
}

func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxWebhook))
	if err != nil {
		http.Error(w, "body could not be read", http.StatusBadRequest)
		return
	}
	rec := l.judge(r, body)
	if l.delay > 0 {
		select {
		case <-time.After(l.delay):
		case <-r.Context().Done():
		}
	}
	l.print(rec)
	w.WriteHeader(rec.Status)
}

// judge verifies a request and decides the answer. 401 for a bad signature tells the sender
// that a retry will not help by itself.
func (l *listener) judge(r *http.Request, body []byte) *received {
	h := r.Header
	rec := &received{
		At: l.now().UTC(), Status: http.StatusOK, Result: "valid", EventID: h.Get(signature.HeaderID), Path: r.URL.Path,
		Bytes: len(body), Body: string(body),
	}
	rec.Attempt, _ = strconv.Atoi(h.Get("Webhook-Attempt"))                       // 0 = none
	rec.Sequence, _ = strconv.ParseUint(h.Get("Webhook-Sequence"), 10, 64)        // 0 = none
	rec.Timestamp, _ = strconv.ParseInt(h.Get(signature.HeaderTimestamp), 10, 64) // 0 = none
	signed := signature.Signed{ID: rec.EventID, Timestamp: h.Get(signature.HeaderTimestamp), Signature: h.Get(signature.HeaderSignature), Body: body}
	switch err := signature.Verify(l.keys, signed, l.now(), l.tolerance); {
	case len(l.keys) == 0:
		rec.Result = "unchecked"
	case err != nil:
		rec.Result, rec.Status = "invalid", http.StatusUnauthorized
		rec.Problem = err.Error()
		if errors.Is(err, signature.ErrTimestamp) {
			rec.Problem = "timestamp is outside the tolerance"
		}
	}
	if rec.Status == http.StatusOK && l.fail > 0 && rand.Float64() < l.fail {
		rec.Status = http.StatusInternalServerError
	}
	return rec
}

func (l *listener) print(rec *received) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.json {
		_ = json.NewEncoder(l.out).Encode(rec) // a closed pipe ends the program elsewhere
		return
	}
	line := fmt.Sprintf("%s %s %d %s attempt=%d sequence=%d bytes=%d path=%s", rec.At.Format("15:04:05.000"), rec.Result, rec.Status,
		orDefault(rec.EventID, "-"), rec.Attempt, rec.Sequence, rec.Bytes, rec.Path)
	if rec.Problem != "" {
		line += " problem=" + strconv.Quote(rec.Problem)
	}
	fmt.Fprintln(l.out, line)
}
