package ingest

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// Limit is how fast a key or a source may publish.
type Limit struct {
	// PerSecond is in events; each event of a batch counts. 0 is no limit.
	PerSecond float64
	// Burst is how many may come at once after a pause. 0 is those of one second, but at
	// least one.
	Burst int
}

const (
	maxRate  = 1e9
	maxBurst = 1 << 30
)

func (l Limit) validate() error {
	switch {
	case !(l.PerSecond >= 0 && l.PerSecond <= maxRate):
		return fmt.Errorf("rate is not from 0 to %g events a second", float64(maxRate))
	case l.Burst < 0 || l.Burst > maxBurst:
		return fmt.Errorf("burst is not from 0 to %d", maxBurst)
	}
	return nil
}

// bucket is the tokens of one key or source. nil has no end of them. A publish takes one at
// the door, before its body is read; a batch pays for the rest of its events when they are
// counted and may leave a debt, so that it need not fit into the burst.
//
// Safe for concurrent use.
type bucket struct {
	limit Limit
	lim   *rate.Limiter
}

func newBucket(l Limit) *bucket {
	if l.PerSecond <= 0 {
		return nil
	}
	burst := l.Burst
	if burst == 0 {
		burst = max(1, int(math.Ceil(l.PerSecond)))
	}
	return &bucket{limit: l, lim: rate.NewLimiter(rate.Limit(l.PerSecond), burst)}
}

// take takes the token of one event, or says when there will be one.
func (b *bucket) take(now time.Time) *problem {
	if b == nil || b.lim.AllowN(now, 1) {
		return nil
	}
	return b.refusal(now)
}

// look says what take would, without taking.
func (b *bucket) look(now time.Time) *problem {
	if b == nil || b.lim.TokensAt(now) >= 1 {
		return nil
	}
	return b.refusal(now)
}

// charge takes the tokens of n more events. It refuses only if others have left a debt since
// the door.
func (b *bucket) charge(now time.Time, n int) *problem {
	if b == nil || n <= 0 {
		return nil
	}
	if b.lim.TokensAt(now) < 0 {
		return b.refusal(now)
	}
	for burst := b.lim.Burst(); n > 0; n -= burst {
		b.lim.ReserveN(now, min(n, burst)) // not waited for: the next at the door pays
	}
	return nil
}

// refusal is a 429 that names the second in which there will be a token, if nobody else takes it.
func (b *bucket) refusal(now time.Time) *problem {
	missing := 1 - b.lim.TokensAt(now)
	wait := max(1, math.Ceil(missing/float64(b.lim.Limit())))
	return &problem{status: 429, code: codeRateLimited, header: "Retry-After", value: strconv.FormatFloat(wait, 'f', 0, 64),
		detail: "more events than this key or source may publish; nothing was accepted"}
}

// keyOptions takes "rate=N" and "burst=N" from the end of a key's line. A key with neither
// has the limit def; one with a rate has the burst of that rate.
func keyOptions(line string, def Limit) (key string, l Limit, err error) {
	words := strings.Fields(line)
	var rated, burst bool
	for ; len(words) > 1; words = words[:len(words)-1] {
		name, value, _ := strings.Cut(words[len(words)-1], "=")
		switch {
		case name == "rate" && !rated:
			if l.PerSecond, err = strconv.ParseFloat(value, 64); err != nil {
				return "", l, errors.New("rate= must be followed by a number of events a second, 0 for no limit")
			}
			rated = true
		case name == "burst" && !burst:
			if l.Burst, err = strconv.Atoi(value); err != nil {
				return "", l, errors.New("burst= must be followed by a whole number")
			}
			burst = true
		default:
			return line, l, nil // its blank will be refused
		}
	}
	if !rated {
		l.PerSecond = def.PerSecond
	}
	if !rated && !burst {
		l.Burst = def.Burst
	}
	if err := l.validate(); err != nil {
		return "", l, err
	}
	return strings.Join(words, " "), l, nil
}
