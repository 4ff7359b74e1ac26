package table

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// cutter breaks connections at chosen requests, on any broker: before the request is sent or
// after it was carried out, so that the answer is lost.
type cutter struct {
	mu    sync.Mutex
	key   kmsg.Key
	left  int
	after bool
	then  func() // runs once the fate of the request is settled, before the client notices
}

// arm cuts the next n requests of one kind.
func (c *cutter) arm(key kmsg.Key, n int, after bool, then func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.key, c.left, c.after, c.then = key, n, after, then
}

func (c *cutter) dial(ctx context.Context, network, host string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, host)
	if err != nil {
		return nil, err
	}
	return &cutConn{Conn: conn, c: c}, nil
}

func (c *cutter) opts(base []kgo.Opt) []kgo.Opt {
	return append(append([]kgo.Opt{}, base...), kgo.Dialer(c.dial))
}

type cutConn struct {
	net.Conn
	c     *cutter
	mu    sync.Mutex
	doom  func()
	drops bool
}

var errCut = errors.New("connection was cut")

// Write is called by kgo with one whole request: size, then the key of the request.
func (n *cutConn) Write(b []byte) (int, error) {
	n.c.mu.Lock()
	hit := n.c.left > 0 && len(b) >= 6 && int16(binary.BigEndian.Uint16(b[4:])) == n.c.key.Int16()
	after, then := n.c.after, n.c.then
	if hit {
		n.c.left--
	}
	n.c.mu.Unlock()
	if !hit {
		return n.Conn.Write(b)
	}
	if after {
		n.mu.Lock()
		n.drops, n.doom = true, then
		n.mu.Unlock()
		return n.Conn.Write(b)
	}
	if then != nil {
		then()
	}
	_ = n.Close()
	return 0, &net.OpError{Op: "write", Net: "tcp", Err: errCut}
}

func (n *cutConn) Read(b []byte) (int, error) {
	got, err := n.Conn.Read(b)
	n.mu.Lock()
	drops, doom := n.drops, n.doom
	n.mu.Unlock()
	if !drops {
		return got, err
	}
	if doom != nil {
		doom()
	}
	_ = n.Close()
	return 0, net.ErrClosed
}
