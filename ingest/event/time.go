package event

import (
	"errors"
	"time"
)

var errTime = errors.New("not an RFC 3339 time with an offset")

// Years that every store behind us can hold (ClickHouse DateTime64). A zero year is most
// often an unset variable of the producer's.
const (
	minYear = 1900
	maxYear = 2261
)

// ParseTime reads an RFC 3339 time, in UTC. It is stricter than time.Parse, which takes a
// comma as the decimal point, one-digit hours and an offset of 24 hours, and wider where the
// RFC is: lower-case t and z, and a leap second (it becomes the following second). Digits
// beyond nanoseconds are cut. Years outside 1900 to 2261 are refused,
// as written and in UTC.
func ParseTime(s string) (time.Time, error) {
	if len(s) < len("2006-01-02T15:04:05Z") || len(s) > 64 || s[4] != '-' || s[7] != '-' || s[10]|0x20 != 't' || s[13] != ':' || s[16] != ':' {
		return time.Time{}, errTime
	}
	year, ok1 := digits(s[0:4])
	month, ok2 := digits(s[5:7])
	day, ok3 := digits(s[8:10])
	hour, ok4 := digits(s[11:13])
	minute, ok5 := digits(s[14:16])
	second, ok6 := digits(s[17:19])
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6) {
		return time.Time{}, errTime
	}
	if year < minYear || year > maxYear || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || hour > 23 || minute > 59 || second > 60 {
		return time.Time{}, errTime
	}
	nanos, rest, ok := fraction(s[19:])
	if !ok {
		return time.Time{}, errTime
	}
	offset, ok := zone(rest)
	if !ok {
		return time.Time{}, errTime
	}
	if second == 60 && (minute-offset/60)%60 != 59 && (minute-offset/60)%60 != -1 {
		return time.Time{}, errTime // a leap second ends an hour of UTC
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second-offset, nanos, time.UTC)
	if y := t.Year(); y < minYear || y > maxYear { // what Headers writes of it could not be read again
		return time.Time{}, errTime
	}
	return t, nil
}

// fraction reads ".digits" if s begins with a point, and returns what follows.
func fraction(s string) (nanos int, rest string, ok bool) {
	if s == "" || s[0] != '.' {
		return 0, s, true
	}
	scale, i := 100_000_000, 1
	for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		nanos += int(s[i]-'0') * scale
		scale /= 10
	}
	return nanos, s[i:], i > 1
}

// zone reads "Z" or "+hh:mm" and returns the offset in seconds.
func zone(s string) (int, bool) {
	if len(s) == 1 {
		return 0, s[0]|0x20 == 'z'
	}
	if len(s) != 6 || s[0] != '+' && s[0] != '-' || s[3] != ':' {
		return 0, false
	}
	h, ok1 := digits(s[1:3])
	m, ok2 := digits(s[4:6])
	if !ok1 || !ok2 || h > 23 || m > 59 {
		return 0, false
	}
	offset := h*3600 + m*60
	if s[0] == '-' {
		offset = -offset
	}
	return offset, true
}

func digits(s string) (int, bool) {
	n := 0
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, true
}

func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}
