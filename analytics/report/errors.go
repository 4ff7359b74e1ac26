package report

import (
	"context"
	"errors"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// ErrUnknown is returned for a name that is no report.
var ErrUnknown = errors.New("there is no such report")

// ErrTooMuch is returned when a question needs more time or memory than one may have. Asking
// for less time or with a filter helps; asking again does not.
var ErrTooMuch = errors.New("the question takes more than one may; narrow since and until, or add a filter")

// ErrNoTables is returned when the tables are not there.
var ErrNoTables = errors.New("the tables are missing in ClickHouse; run: hookline analytics migrate")

// FieldError says which parameter was refused and why.
type FieldError struct {
	Field  string
	Detail string
	// Missing: the parameter was not given and must be.
	Missing bool
}

func (e *FieldError) Error() string { return e.Detail }

func fieldf(field, format string, args ...any) *FieldError {
	return &FieldError{Field: field, Detail: fmt.Sprintf(format, args...)}
}

// Codes of ClickHouse that say that a limit of ours was met.
var limitCodes = map[int32]bool{
	158: true, // TOO_MANY_ROWS
	159: true, // TIMEOUT_EXCEEDED
	160: true, // TOO_SLOW
	191: true, // SET_SIZE_LIMIT_EXCEEDED
	241: true, // MEMORY_LIMIT_EXCEEDED
	307: true, // TOO_MANY_BYTES
	396: true, // TOO_MANY_ROWS_OR_BYTES
}

// classify turns a failure of a query into one of the errors above, or leaves it: then
// ClickHouse is away or broken, and asking again may help.
func classify(err error) error {
	if e, ok := errors.AsType[*clickhouse.Exception](err); ok {
		switch {
		case limitCodes[e.Code]:
			return fmt.Errorf("%w (%s)", ErrTooMuch, e.Name)
		case e.Code == 60 || e.Code == 81: // UNKNOWN_TABLE, UNKNOWN_DATABASE
			return fmt.Errorf("%w (%s)", ErrNoTables, e.Name)
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("ClickHouse did not answer in time: %w", err)
	}
	return fmt.Errorf("ask ClickHouse: %w", err)
}
