package clickhouse

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// Class says who heals an error.
type Class uint8

// Classes of errors.
const (
	Retry Class = iota // time
	Stop               // an operator
)

// String is the value of the label class.
func (c Class) String() string {
	if c == Stop {
		return "stop"
	}
	return "retry"
}

// Codes of the server that no repetition heals.
var stopCodes = map[int32]bool{
	6:   true, // CANNOT_PARSE_TEXT
	10:  true, // NOT_FOUND_COLUMN_IN_BLOCK
	16:  true, // NO_SUCH_COLUMN_IN_TABLE
	36:  true, // BAD_ARGUMENTS
	44:  true, // ILLEGAL_COLUMN
	47:  true, // UNKNOWN_IDENTIFIER
	50:  true, // UNKNOWN_TYPE
	53:  true, // TYPE_MISMATCH
	60:  true, // UNKNOWN_TABLE
	62:  true, // SYNTAX_ERROR
	70:  true, // CANNOT_CONVERT_TYPE
	81:  true, // UNKNOWN_DATABASE
	115: true, // UNKNOWN_SETTING
	117: true, // INCORRECT_DATA
	164: true, // READONLY: a user that may only read
	192: true, // UNKNOWN_USER
	193: true, // WRONG_PASSWORD
	194: true, // REQUIRED_PASSWORD
	195: true, // IP_ADDRESS_NOT_ALLOWED
	291: true, // DATABASE_ACCESS_DENIED
	497: true, // ACCESS_DENIED
	516: true, // AUTHENTICATION_FAILED
}

// ErrUnsupported is wrapped by errors about a server that cannot keep our promises.
var ErrUnsupported = errors.New("ClickHouse server is not supported")

// ErrCountsTwice is what Probe returns when a repeated insert was counted twice.
var ErrCountsTwice = errors.New("ClickHouse counts a repeated insert twice: exactly-once is not possible")

// ClassOf says who heals err.
func ClassOf(err error) Class {
	if errors.Is(err, ErrUnsupported) || errors.Is(err, ErrCountsTwice) || errors.Is(err, clickhouse.ErrUnsupportedServerRevision) {
		return Stop
	}
	if code := Code(err); code != 0 {
		if stopCodes[code] {
			return Stop
		}
		return Retry
	}
	if e, ok := errors.AsType[*clickhouse.HTTPError](err); ok { // not from the server itself: a proxy, or a gate before it
		switch e.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
			return Stop
		}
	}
	return Retry
}

// Code is the server's code of err, 0 when the server has sent none.
func Code(err error) int32 {
	if e, ok := errors.AsType[*clickhouse.Exception](err); ok {
		return e.Code
	}
	return 0
}

// Short is the text of err for a log, without the URL of an HTTP request: the driver puts every
// setting of the query into it.
func Short(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return strings.ToLower(e.Op) + " to ClickHouse: " + e.Err.Error()
	}
	return err.Error()
}

// The codes that get a label of their own; others share "other", so that labels stay bounded.
var labels = map[int32]string{
	16: "16", 36: "36", 53: "53", 60: "60", 81: "81", 159: "159", 164: "164", 202: "202", 209: "209", 210: "210",
	241: "241", 242: "242", 243: "243", 252: "252", 319: "319", 394: "394", 497: "497", 516: "516", 999: "999",
}

// Label names the code of err for a metric: the code, "other", or "network" without one.
func Label(err error) string {
	code := Code(err)
	if code == 0 {
		return "network"
	}
	if l, ok := labels[code]; ok {
		return l
	}
	return "other"
}
