package dispatcher

import (
	"strings"
	"testing"
	"time"
)

func TestRetryAfterForms(t *testing.T) {
	now := time.Date(2026, 7, 19, 9, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	cases := []struct {
		lines []string
		want  time.Duration
	}{
		{nil, 0},
		{[]string{""}, 0},
		{[]string{"0"}, 0},
		{[]string{"120"}, 2 * time.Minute},
		{[]string{" 120\t"}, 2 * time.Minute},
		{[]string{"00120"}, 2 * time.Minute},
		{[]string{"86400"}, day},
		{[]string{"86401"}, day},
		{[]string{"9223372036854775807"}, day},
		{[]string{"9223372036854775808"}, day},
		{[]string{"99999999999999999999999999999999999999"}, day},
		{[]string{strings.Repeat("9", 1000)}, day},
		{[]string{"-1"}, 0},
		{[]string{"-99999999999999999999"}, 0},
		{[]string{"+5"}, 0},
		{[]string{"1.5"}, 0},
		{[]string{"1e3"}, 0},
		{[]string{"0x10"}, 0},
		{[]string{"5 seconds"}, 0},
		{[]string{"120, 60"}, 0},
		{[]string{"\u0661\u0662"}, 0},                                 // digits of another script
		{[]string{"Sun, 19 Jul 2026 09:02:00 GMT"}, 2 * time.Minute},  // IMF-fixdate
		{[]string{"Sunday, 19-Jul-26 09:02:00 GMT"}, 2 * time.Minute}, // RFC 850
		{[]string{"Sun Jul 19 09:02:00 2026"}, 2 * time.Minute},       // asctime
		{[]string{"Sun, 19 Jul 2026 08:00:00 GMT"}, 0},
		{[]string{"Thu, 01 Jan 1970 00:00:00 GMT"}, 0},
		{[]string{"Fri, 31 Dec 9999 23:59:59 GMT"}, day},
		{[]string{"20260719"}, day}, // digits are seconds, never a date
		{[]string{"2026-07-19T09:02:00Z"}, 0},
		{[]string{"Sun, 19 Jul 2026 25:61:00 GMT"}, 0},
		{[]string{"30", "120", "60"}, 2 * time.Minute},
		{[]string{"soon", "30"}, 30 * time.Second},
		{[]string{"-5", "Sun, 19 Jul 2026 09:01:00 GMT", "30"}, time.Minute},
	}
	for _, c := range cases {
		if got := retryAfter(c.lines, now); got != c.want {
			t.Errorf("%.60q = %v, want %v", c.lines, got, c.want)
		}
	}
}

// FuzzRetryAfter: any line gives a wait between nothing and a day.
func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"120", "-1", "Sun, 19 Jul 2026 09:02:00 GMT", "Sunday, 19-Jul-26 09:02:00 GMT", "99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if got := retryAfter([]string{line}, outcomeNow); got < 0 || got > maxRetryAfter {
			t.Fatalf("%q = %v", line, got)
		}
	})
}
