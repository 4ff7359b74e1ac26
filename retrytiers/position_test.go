package retrytiers

import (
	"errors"
	"testing"

	"github.com/hookline/hookline/dispatcher/ledger"
)

func TestLocate(t *testing.T) {
	marks := ledger.Encode(10, ledger.Metadata{Attempts: -1, Runs: []ledger.Run{{From: 12, To: 14}, {From: 18, To: 30}}}, ledger.MaxMetadata)
	f := func(name string, committed int64, metadata string, start, end int64, want position, wantErr bool) {
		t.Helper()
		got, err := locate(committed, metadata, start, end)
		var past *errPastEnd
		if errors.As(err, &past) != wantErr {
			t.Errorf("%s: error is %v", name, err)
			return
		}
		if (got.corrupt != nil) != (want.corrupt != nil) || got.at != want.at || got.trimmed != want.trimmed || len(got.marks) != len(want.marks) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
			return
		}
		for i := range got.marks {
			if got.marks[i] != want.marks[i] {
				t.Errorf("%s: %+v, want %+v", name, got, want)
			}
		}
	}
	f("no commit", -1, "", 5, 20, position{at: 5}, false)
	f("an empty log", -1, "", 0, 0, position{at: 0}, false)
	f("a commit", 10, "", 5, 20, position{at: 10}, false)
	f("a commit at the end", 20, "", 5, 20, position{at: 20}, false)
	f("past the end", 21, "", 5, 20, position{}, true)
	f("below the start", 3, "", 5, 20, position{at: 5, trimmed: true}, false)
	f("marks", 10, marks, 5, 40, position{at: 10, marks: []ledger.Run{{From: 12, To: 14}, {From: 18, To: 30}}}, false)
	f("marks beyond the end", 10, marks, 5, 20, position{at: 10, marks: []ledger.Run{{From: 12, To: 14}, {From: 18, To: 20}}}, false)
	f("marks of another offset", 11, marks, 5, 20, position{at: 11, corrupt: errors.New("checksum")}, false)
	f("garbage", 10, "x", 5, 20, position{at: 10, corrupt: errors.New("version")}, false)
}

func TestTrimPointKeepsTheLastRecord(t *testing.T) {
	f := func(committed, end, want int64) {
		t.Helper()
		if got := trimPoint(committed, end); got != want {
			t.Errorf("trimPoint(%d, %d) = %d, want %d", committed, end, got, want)
		}
	}
	f(10, 20, 10)
	f(19, 20, 19)
	f(20, 20, 19)
	f(0, 0, -1)
}
