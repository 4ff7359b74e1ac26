package table

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrUnknownOutcome means that an Update's transaction may or may not have been committed:
// the answer to the commit was lost and the topic could not be read to find out in time. The
// next Update starts from what is really there.
var ErrUnknownOutcome = errors.New("outcome of the commit is unknown")

// ErrNotVisible means that an Update was committed for certain but could not be read back in
// time, so readers may not see it yet. The returned offset is right.
var ErrNotVisible = errors.New("committed, not yet readable")

// ErrStopped ends the waits on a Table whose Run has returned.
var ErrStopped = errors.New("table has stopped")

// errNotCommitted is an attempt that left nothing behind: fn runs again on a fresh view.
var errNotCommitted = errors.New("transaction was not committed")

// errBehindOpen is a view that cannot be completed because a transaction stays open.
var errBehindOpen = errors.New("a transaction of another writer is in the way")

// again reports whether an attempt that changed nothing is worth another one. A fenced writer
// is: it initialises its producer id anew and reads what the other one wrote.
func again(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, kgo.ErrMaxBuffered) || errors.Is(err, kgo.ErrClientClosed) {
		return false
	}
	var ke *kerr.Error
	if !errors.As(err, &ke) {
		return true // network, time limits of an attempt, errNotCommitted
	}
	switch ke {
	case kerr.ProducerFenced, // another writer was initialised
		kerr.InvalidProducerEpoch,      // the same, as brokers say it
		kerr.InvalidProducerIDMapping,  // the id expired after a week without use
		kerr.InvalidTxnState,           // the coordinator ended it (timeout, takeover)
		kerr.TransactionAbortable,      // asks for exactly this
		kerr.UnknownProducerID,         // the partition forgot the id
		kerr.OutOfOrderSequenceNumber,  // follows the above
		kerr.OperationNotAttempted,     // kgo did not try to commit
		kerr.UnknownServerError,        // a broker's own fault
		kerr.CoordinatorNotAvailable,   // listed although retriable: these two outlive kgo's
		kerr.CoordinatorLoadInProgress: // own retries while a broker restarts
		return true
	}
	return ke.Retriable
}
