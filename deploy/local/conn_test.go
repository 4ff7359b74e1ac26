package local

import (
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func request(key uint16, body int) []byte {
	b := make([]byte, 4+minRequest+body)
	binary.BigEndian.PutUint32(b, uint32(minRequest+body))
	binary.BigEndian.PutUint16(b[4:], key)
	return b
}

func TestJunkOnThePortIsTurnedAway(t *testing.T) {
	b := start(t, t.TempDir())
	f := func(name string, junk []byte) {
		t.Helper()
		conn, err := net.Dial("tcp", b.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // the other end closes it
		if _, err := conn.Write(junk); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("%s: got an answer", name)
		} else if ne, ok := err.(net.Error); ok && ne.Timeout() { //nolint:errorlint // as net.Conn returns it
			t.Errorf("%s: was not turned away", name)
		}
	}
	f("HTTP", []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	f("TLS", []byte{0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01})
	f("an unknown key", request(9999, 20)) // ends the process with plain kfake
	f("nothing", make([]byte, 64))
	createTopic(t, b.Addr(), "t", 1, nil) // it still serves
}

// FuzzFollow: how a stream is cut into reads makes no difference, and of good requests all pass.
func FuzzFollow(f *testing.F) {
	good := append(request(uint16(kmsg.Metadata), 30), request(uint16(kmsg.Produce), 0)...)
	f.Add(good, uint8(1))
	f.Add(good, uint8(7))
	f.Add(request(9999, 3), uint8(2))
	f.Add([]byte("GET / HTTP/1.1"), uint8(4))
	f.Fuzz(func(t *testing.T, stream []byte, step uint8) {
		var whole, cut guardedConn
		want := whole.follow(stream)
		got := true
		for i := 0; i < len(stream) && got; i += int(step) + 1 {
			got = cut.follow(stream[i:min(len(stream), i+int(step)+1)])
		}
		if got != want {
			t.Fatalf("cut into reads of %d: %v, whole: %v", int(step)+1, got, want)
		}
		var first guardedConn
		if !first.follow(good) || first.have != 0 || first.left != 0 {
			t.Fatal("good requests do not pass")
		}
	})
}
