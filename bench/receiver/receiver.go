package receiver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/hookline/hookline/dispatcher/signature"
)

// Config of a receiver. The zero value listens on a free loopback port and knows no path.
type Config struct {
	Addr       string // "" = 127.0.0.1:0; loopback only
	Paths      map[string]Path
	KeepBodies bool           // tests compare bytes; benches compare hashes
	OnRequest  func(*Request) // called before the answer, from many goroutines; nil = none
}

// Path is one endpoint, "/name".
type Path struct {
	Behaviour Behaviour
	Secrets   []string // whsec_, whsk_ or whpk_; all valid; none = signatures are not checked
}

// path is a Path at work; script and keys change at run time.
type path struct {
	name   string
	script atomic.Pointer[script]
	keys   atomic.Pointer[[]signature.Key]

	requests, ok, badSignature, badHeaders atomic.Int64
}

// Receiver is a running endpoint. All methods are safe for concurrent use.
type Receiver struct {
	cfg    Config
	ln     net.Listener
	server *fasthttp.Server
	served chan error
	store  store
	strays atomic.Int64 // unknown path or method

	paths   atomic.Pointer[map[string]*path] // replaced as a whole, so that a request reads it without a lock
	closing chan struct{}

	mu    sync.Mutex // guards the sets and the replacing of paths
	hung  map[net.Conn]struct{}
	conns map[net.Conn]struct{} // served by the server
}

// Start listens and serves until Close.
func Start(cfg Config) (*Receiver, error) {
	if cfg.Addr == "" {
		cfg.Addr = "127.0.0.1:0"
	}
	if host, _, err := net.SplitHostPort(cfg.Addr); err != nil || !loopback(host) {
		return nil, fmt.Errorf("listen on %q: a receiver listens on loopback only", cfg.Addr)
	}
	r := &Receiver{
		cfg: cfg, served: make(chan error, 1), closing: make(chan struct{}),
		hung: map[net.Conn]struct{}{}, conns: map[net.Conn]struct{}{},
	}
	r.paths.Store(&map[string]*path{})
	for name, p := range cfg.Paths {
		if err := r.Set(name, p); err != nil {
			return nil, err
		}
	}
	ln, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", cfg.Addr, err)
	}
	r.ln = ln
	r.server = &fasthttp.Server{
		Handler:                      r.serve,
		ConnState:                    r.connState,
		Logger:                       quiet{}, // resets make it complain, on purpose
		NoDefaultServerHeader:        true,
		NoDefaultDate:                true,
		NoDefaultContentType:         true,
		DisablePreParseMultipartForm: true,
		CloseOnShutdown:              true,
		ReadBufferSize:               16 << 10,
		MaxRequestBodySize:           8 << 20,
		IdleTimeout:                  2 * time.Minute,
	}
	go func() { r.served <- r.server.Serve(ln) }()
	return r, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// Set adds a path or changes it; requests that are being answered keep what they had. The
// counts of a known path go on.
func (r *Receiver) Set(name string, p Path) error {
	if !strings.HasPrefix(name, "/") {
		return fmt.Errorf("path %q: want a leading slash", name)
	}
	if w := r.lookup([]byte(name)); w != nil {
		w.script.Store(newScript(p.Behaviour))
		return w.setSecrets(p.Secrets)
	}
	w := &path{name: name}
	w.script.Store(newScript(p.Behaviour))
	if err := w.setSecrets(p.Secrets); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	paths := maps.Clone(*r.paths.Load())
	paths[name] = w
	r.paths.Store(&paths)
	return nil
}

// SetBehaviour changes what a known path does.
func (r *Receiver) SetBehaviour(name string, b Behaviour) error {
	p, err := r.known(name)
	if err != nil {
		return err
	}
	p.script.Store(newScript(b))
	return nil
}

// SetSecrets changes the secrets of a known path; none turns checking off.
func (r *Receiver) SetSecrets(name string, secrets ...string) error {
	p, err := r.known(name)
	if err != nil {
		return err
	}
	return p.setSecrets(secrets)
}

func (p *path) setSecrets(secrets []string) error {
	if len(secrets) == 0 {
		p.keys.Store(nil)
		return nil
	}
	keys := make([]signature.Key, 0, len(secrets))
	for _, s := range secrets {
		parse := signature.ParseSecret
		if strings.HasPrefix(s, signature.PrefixPublic) {
			parse = signature.ParsePublic
		}
		k, err := parse(s)
		if err != nil {
			return fmt.Errorf("path %s: %w", p.name, err)
		}
		keys = append(keys, k)
	}
	p.keys.Store(&keys)
	return nil
}

func (r *Receiver) known(name string) (*path, error) {
	if p := r.lookup([]byte(name)); p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("path %q is not known", name)
}

func (r *Receiver) lookup(name []byte) *path {
	return (*r.paths.Load())[string(name)]
}

// URL is the base URL, without a trailing slash.
func (r *Receiver) URL() string { return "http://" + r.ln.Addr().String() }

// Each calls fn with every request until it returns false; those of one message id come in
// arrival order. The Request is valid during the call, its strings stay valid.
func (r *Receiver) Each(fn func(*Request) bool) { r.store.each(fn) }

// Forget drops all requests and the counts per event; Stats go on.
func (r *Receiver) Forget() { r.store.reset() }

// closeGrace is what requests that are being answered get at Close. It is also what a
// connection costs that its client opened and never used: the server does not count that
// as idle.
const closeGrace = 300 * time.Millisecond

// Close stops serving: hung and delayed requests are cut, others are answered.
func (r *Receiver) Close() error {
	r.mu.Lock()
	select {
	case <-r.closing:
		r.mu.Unlock()
		return nil
	default:
	}
	close(r.closing)
	for c := range r.hung {
		_ = c.Close()
	}
	r.mu.Unlock()
	_ = r.ln.Close() // Shutdown closes it only once Serve has got hold of it
	err := r.shutdown(closeGrace)
	if errors.Is(err, context.DeadlineExceeded) {
		r.mu.Lock()
		for c := range r.conns {
			_ = c.Close()
		}
		r.mu.Unlock()
		err = r.shutdown(5 * time.Second)
	}
	if serveErr := <-r.served; serveErr != nil && !errors.Is(serveErr, net.ErrClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

func (r *Receiver) shutdown(d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	if err := r.server.ShutdownWithContext(ctx); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// connState keeps the set of served connections; the states in between, twice per request,
// do not matter.
func (r *Receiver) connState(c net.Conn, state fasthttp.ConnState) {
	switch state {
	case fasthttp.StateNew:
		r.mu.Lock()
		r.conns[c] = struct{}{}
		r.mu.Unlock()
	case fasthttp.StateClosed, fasthttp.StateHijacked:
		r.mu.Lock()
		delete(r.conns, c)
		r.mu.Unlock()
	}
}

// track remembers a hung connection; false when the receiver is closing.
func (r *Receiver) track(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.closing:
		return false
	default:
		r.hung[c] = struct{}{}
		return true
	}
}

func (r *Receiver) untrack(c net.Conn) {
	r.mu.Lock()
	delete(r.hung, c)
	r.mu.Unlock()
}
