package event

import (
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	for in, want := range map[string]string{
		"2026-07-19T09:15:25Z": "2026-07-19T09:15:25Z", "2026-07-19t09:15:25z": "2026-07-19T09:15:25Z",
		"2026-07-19T09:15:25.5+02:00": "2026-07-19T07:15:25.5Z", "2026-07-19T09:15:25.1234567891-23:59": "2026-07-20T09:14:25.123456789Z",
		"2016-12-31T23:59:60Z": "2017-01-01T00:00:00Z", "2017-01-01T05:29:60+05:30": "2017-01-01T00:00:00Z",
		"2024-02-29T00:00:00-00:00": "2024-02-29T00:00:00Z",
	} {
		got, err := ParseTime(in)
		if err != nil || got.Format(time.RFC3339Nano) != want {
			t.Errorf("ParseTime(%q) = %s, %v; want %s", in, got.Format(time.RFC3339Nano), err, want)
		}
	}
	for _, in := range []string{"", "2026-07-19", "2026-07-19T09:15:25", "2026-07-19 09:15:25Z", "2026-07-19T9:15:25Z", "2026-07-19T09:15:25,5Z",
		"2026-07-19T09:15:25.Z", "2026-07-19T24:00:00Z", "2026-07-19T09:60:00Z", "2026-07-19T09:15:61Z", "2026-07-19T09:15:60Z", "2026-02-29T00:00:00Z",
		"2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-07-00T00:00:00Z", "2026-07-19T09:15:25+24:00", "2026-07-19T09:15:25+2:00",
		"2026-07-19T09:15:25+0200", "0001-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-07-19T09:15:25ZZ", "+026-07-19T09:15:25Z"} {
		if got, err := ParseTime(in); err == nil {
			t.Errorf("ParseTime(%q) = %v, want an error", in, got)
		}
	}
}

// FuzzParseTime: whatever both this parser and time.Parse take, they read alike.
func FuzzParseTime(f *testing.F) {
	f.Add("2026-07-19T09:15:25.123456789+02:00")
	f.Add("2016-12-31T23:59:60Z")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseTime(s)
		want, goErr := time.Parse(time.RFC3339Nano, s)
		if err == nil && goErr == nil && !got.Equal(want) {
			t.Fatalf("%q: %v, time.Parse says %v", s, got, want)
		}
	})
}
