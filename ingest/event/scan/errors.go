package scan

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrTopicReplaced means that the topic was deleted and made again under the same name while
// it was read: offsets of before mean nothing in it.
var ErrTopicReplaced = errors.New("topic was deleted and created again")

// errNoAnswer is an attempt that ended without an answer for the partition: the broker was
// silent for too long, throttled the request, or left the partition out.
var errNoAnswer = errors.New("broker gave no answer for the partition")

// errRefused is a position inside the log that the leader does not serve.
var errRefused = errors.New("leader refuses an offset that is inside the log")

// OutOfRangeError says that a position lies outside the log. Range returns it after it has
// read all that still exists; a Tail stays where it was.
type OutOfRangeError struct {
	Topic     string
	Partition int32
	Offset    int64 // the position that was asked for
	Start     int64 // the log's first offset
	End       int64 // the log's end
}

// Below reports whether records at the position are gone (trimmed, expired). Otherwise the
// position is past the end, which means that the log lost its tail or is another one.
func (e *OutOfRangeError) Below() bool { return e.Offset < e.Start }

func (e *OutOfRangeError) Error() string {
	return fmt.Sprintf("offset %d of %s[%d] is outside the log [%d,%d)", e.Offset, e.Topic, e.Partition, e.Start, e.End)
}

// Retriable reports whether the same call may succeed later without anyone's help. All
// functions of this package have then already retried for their budget of 30 s.
func Retriable(err error) bool {
	var oor *OutOfRangeError
	switch {
	case err == nil,
		errors.Is(err, context.Canceled),
		errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, kgo.ErrClientClosed),
		errors.Is(err, ErrTopicReplaced),
		errors.As(err, &oor):
		return false
	}
	var ke *kerr.Error
	if errors.As(err, &ke) {
		// A broker answers UNKNOWN_SERVER_ERROR for faults of its own, such as a disk error,
		// that often pass with the next leader.
		return ke.Retriable || ke == kerr.UnknownServerError
	}
	// What is left comes from the network: refused, reset, timed out, cut short.
	return true
}
