package dispatcher

import (
	"net/http"
	"strings"
	"time"
)

// maxRetryAfter bounds what an endpoint may ask for.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads the Retry-After lines of an answer: whole seconds, or a date in one of the
// three forms of RFC 9110. It returns the longest wait of all lines, clamped to
// maxRetryAfter, and 0 for none, for a past date and for what is neither: the schedule alone
// then decides.
func retryAfter(lines []string, now time.Time) time.Duration {
	var longest time.Duration
	for _, line := range lines {
		longest = max(longest, oneRetryAfter(strings.Trim(line, " \t"), now))
	}
	return longest
}

func oneRetryAfter(value string, now time.Time) time.Duration {
	if value == "" {
		return 0
	}
	if seconds, ok := digits(value); ok {
		if seconds > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// digits reads a run of digits and saturates: it never takes them for a date, and 10^30
// seconds are a long wait, not an error.
func digits(s string) (int64, bool) {
	const tooMany = 1 << 40
	var n int64
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		if n < tooMany {
			n = n*10 + int64(s[i]-'0')
		}
	}
	return n, true
}
