package ingest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/ingest/event"
)

// loadUntilClosed posts on one connection, depth requests at a time, until the server closes it
// and takes no other. It tells accept of each 202.
func loadUntilClosed(addr string, depth int, accept func(answer)) {
	for {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		br := bufio.NewReader(conn)
		for more := true; more; {
			if _, err := io.WriteString(conn, strings.Repeat(request(goodBody), depth)); err != nil {
				break
			}
			for range depth {
				resp, err := http.ReadResponse(br, nil)
				if err != nil {
					more = false
					break
				}
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				a := answer{status: resp.StatusCode}
				if err != nil || json.Unmarshal(body, &a) != nil {
					more = false
					break
				}
				if a.status == http.StatusAccepted {
					accept(a)
				}
			}
		}
		_ = conn.Close()
	}
}

// everything reads the events topic to its end: the place of each event by its id.
func everything(t *testing.T, b *brokertest.Broker) map[string]string {
	t.Helper()
	topic := event.EventsTopic(0).Name(b.Prefix)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cl := b.Client(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	var want int64
	ends.Each(func(o kadm.ListedOffset) { want += o.Offset })
	out := map[string]string{}
	for read := int64(0); read < want; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			read++
			e, err := event.Decode(rec)
			if err != nil {
				t.Errorf("record %d/%d: %v", rec.Partition, rec.Offset, err)
				return
			}
			if at, twice := out[e.ID]; twice {
				t.Errorf("event %s is in the log twice, at %s too", e.ID, at)
			}
			out[e.ID] = fmt.Sprintf("%d/%d", rec.Partition, rec.Offset)
		})
	}
	return out
}
