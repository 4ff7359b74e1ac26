package ingest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fault is what happens to one produce request and its answer.
type fault struct {
	kind faultKind
	code *kerr.Error   // of refuse and lie
	wait time.Duration // of late
}

type faultKind uint8

const (
	none     faultKind = iota
	cutBare            // the connection ends before the request is written
	cutHalf            // ... when half of it is written
	cutAfter           // ... when the broker has answered
	refuse             // the request is answered with the code and never reaches the broker
	lie                // the broker appends, and the answer says the code
	late               // the answer comes late
)

func (f fault) String() string {
	name := [...]string{"none", "cut before the write", "cut in the write", "cut after the append", "refused with ", "appended, answered ", "late by "}[f.kind]
	switch f.kind {
	case refuse, lie:
		return name + f.code.Message
	case late:
		return name + f.wait.String()
	}
	return name
}

// saboteur sits between a client and any broker, real or not, and spoils produce requests.
type saboteur struct {
	decide func(nth int) fault // called for each produce request in turn

	mu sync.Mutex
	n  int
}

func (s *saboteur) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &spoiled{Conn: conn, s: s}, nil
}

func (s *saboteur) next() fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	return s.decide(s.n)
}

// spoiled is a connection to a broker. The client writes whole requests and reads the answers
// in their order.
type spoiled struct {
	net.Conn
	s *saboteur

	mu      sync.Mutex
	answers []expected // of the requests written so far
	out     []byte     // of the answer that is being read; the reader's
}

// expected is how the answer to one request is to be made.
type expected struct {
	fault   fault
	version int16
	made    []byte // an answer that no broker gave
}

var errSabotage = errors.New("sabotage")

func (c *spoiled) Write(b []byte) (int, error) {
	e := expected{}
	if len(b) > 12 && int16(binary.BigEndian.Uint16(b[4:])) == int16(kmsg.Produce) {
		e.fault, e.version = c.s.next(), int16(binary.BigEndian.Uint16(b[6:]))
	}
	switch e.fault.kind {
	case cutBare:
		_ = c.Close()
		return 0, errSabotage
	case cutHalf:
		n, _ := c.Conn.Write(b[:len(b)/2])
		_ = c.Close()
		return n, errSabotage
	case refuse:
		e.made = refusal(b, e.fault.code)
	}
	c.mu.Lock()
	c.answers = append(c.answers, e)
	c.mu.Unlock()
	if e.made != nil {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *spoiled) Read(b []byte) (int, error) {
	for len(c.out) == 0 {
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(b, c.out)
	c.out = c.out[n:]
	return n, nil
}

// fill reads the next answer. The client reads only when it has written.
func (c *spoiled) fill() error {
	c.mu.Lock()
	if len(c.answers) == 0 {
		c.mu.Unlock()
		var one [1]byte // nothing is due: whatever comes is the end
		_, err := c.Conn.Read(one[:])
		return errors.Join(err, errSabotage)
	}
	e := c.answers[0]
	c.answers = c.answers[1:]
	c.mu.Unlock()
	if e.made != nil {
		c.out = e.made
		return nil
	}
	var size [4]byte
	if _, err := io.ReadFull(c.Conn, size[:]); err != nil {
		return err
	}
	frame := make([]byte, 4+binary.BigEndian.Uint32(size[:]))
	copy(frame, size[:])
	if _, err := io.ReadFull(c.Conn, frame[4:]); err != nil {
		return err
	}
	switch e.fault.kind {
	case cutAfter:
		_ = c.Close()
		return errSabotage
	case late:
		<-time.After(e.fault.wait)
	case lie:
		frame = relabelled(frame, e.version, e.fault.code)
	}
	c.out = frame
	return nil
}

// refusal answers a produce request with a code for each partition in it.
func refusal(frame []byte, code *kerr.Error) []byte {
	version := int16(binary.BigEndian.Uint16(frame[6:]))
	correlation := frame[8:12]
	req := kmsg.NewPtrProduceRequest()
	req.Version = version
	rest := frame[12:]
	if n := int16(binary.BigEndian.Uint16(rest)); n > 0 { // client id
		rest = rest[n:]
	}
	rest = rest[2:]
	if req.IsFlexible() {
		rest = rest[1:] // no tags
	}
	if err := req.ReadFrom(rest); err != nil {
		panic(fmt.Sprintf("BUG: produce request v%d: %v", version, err))
	}
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, topic := range req.Topics {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic, rt.TopicID = topic.Topic, topic.TopicID
		for _, p := range topic.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition, rp.ErrorCode, rp.BaseOffset = p.Partition, code.Code, -1
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return framed(correlation, resp)
}

// relabelled is an answer with the code in place of what the broker said.
func relabelled(frame []byte, version int16, code *kerr.Error) []byte {
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = version
	rest := frame[8:]
	if resp.IsFlexible() {
		rest = rest[1:]
	}
	if err := resp.ReadFrom(rest); err != nil {
		panic(fmt.Sprintf("BUG: produce response v%d: %v", version, err))
	}
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			p.ErrorCode, p.BaseOffset = code.Code, -1
		}
	}
	return framed(frame[4:8], resp)
}

func framed(correlation []byte, resp *kmsg.ProduceResponse) []byte {
	out := append(make([]byte, 4, 256), correlation...)
	if resp.IsFlexible() {
		out = append(out, 0)
	}
	out = resp.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}
