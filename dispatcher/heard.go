package dispatcher

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
)

// heardConn knows whether anything was read from it since a request was written to it. An
// endpoint that sends more than its answer leaves bytes behind, and net/http takes them for
// the answer to the next request when that one comes before it has noticed: a delivery would
// count that nobody has answered.
type heardConn struct {
	net.Conn
	reads atomic.Int64 // that brought bytes
	armed atomic.Bool  // the next write begins a request
	since atomic.Int64 // reads before that write
}

func (c *heardConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.reads.Add(1)
	}
	return n, err
}

func (c *heardConn) Write(p []byte) (int, error) {
	if c.armed.CompareAndSwap(true, false) {
		c.since.Store(c.reads.Load())
	}
	return c.Conn.Write(p)
}

// begin is called when the connection is taken for a request, before it is written.
func (c *heardConn) begin() { c.armed.Store(true) }

// answered reports whether what is taken for the answer can be one: it came after the request.
func (c *heardConn) answered() bool { return !c.armed.Load() && c.reads.Load() > c.since.Load() }

// heardOf is the connection below c, nil if it is none of ours.
func heardOf(c net.Conn) *heardConn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	h, _ := c.(*heardConn)
	return h
}

// listening makes the connections of a dialer tell what was heard.
func listening(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &heardConn{Conn: c}, nil
	}
}
