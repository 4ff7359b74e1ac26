package local

import (
	"encoding/binary"
	"errors"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// kfake allocates what the first four bytes of a request announce, and a request key that it
// has no type for ends the process. Whatever else may knock on a port of a laptop (a browser,
// a scanner) is turned away before.

const (
	maxRequest = 100 << 20 // Kafka's socket.request.max.bytes
	minRequest = 8         // key, version, correlation id
)

var errNotKafka = errors.New("not a request of the Kafka protocol")

type guardedListener struct{ net.Listener }

func (l guardedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &guardedConn{Conn: conn}, nil
}

// guardedConn follows the frames of the requests that are read through it:
//
//	| 4 size | 2 key | size - 2 bytes |
type guardedConn struct {
	net.Conn
	head [6]byte // of the frame that is being read; one goroutine reads
	have int     // bytes of head
	left int     // bytes that follow the head
}

func (c *guardedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.follow(p[:n]) {
		return 0, errNotKafka
	}
	return n, err
}

// follow tells whether the bytes continue a stream of requests.
func (c *guardedConn) follow(b []byte) bool {
	for len(b) > 0 {
		if c.have == len(c.head) {
			skip := min(c.left, len(b))
			c.left -= skip
			b = b[skip:]
			if c.left == 0 {
				c.have = 0
			}
			continue
		}
		c.head[c.have] = b[0]
		c.have++
		b = b[1:]
		switch c.have {
		case 4:
			size := binary.BigEndian.Uint32(c.head[:])
			if size < minRequest || size > maxRequest {
				return false
			}
			c.left = int(size) - 2
		case len(c.head):
			if kmsg.RequestForKey(int16(binary.BigEndian.Uint16(c.head[4:]))) == nil {
				return false
			}
		}
	}
	return true
}
