package dispatcher

import "time"

const (
	// parkMin and parkMax bound the delay of a parked delivery while its endpoint is up.
	parkMin = time.Second
	parkMax = 300 * time.Second
	// parkMemory is longer than any such park: what was not back by then is not coming here.
	parkMemory = 2 * parkMax
)

// backlog estimates what waits for one endpoint outside of this process.
type backlog struct {
	// now counts deliveries that were parked and not seen again yet, before those of the
	// span before. Copies that come back in another process, or never, are not seen here, so
	// what is older than parkMemory is forgotten.
	now, before int
	since       time.Time
	used        time.Time // last time a place was given back
}

func newBacklog(now time.Time) backlog { return backlog{since: now, used: now} }

func (b *backlog) size() int { return b.now + b.before }

func (b *backlog) parked() { b.now++ }

// returned takes note of a parked delivery that came back.
func (b *backlog) returned() {
	switch {
	case b.before > 0:
		b.before--
	case b.now > 0:
		b.now--
	}
}

// age forgets what is too old to come back.
func (b *backlog) age(now time.Time) {
	if now.Sub(b.since) >= parkMemory {
		b.before, b.now, b.since = b.now, 0, now
	}
}

// spread bounds a delay and moves it by up to a fifth, by u in [0,1).
func spread(delay time.Duration, u float64) time.Duration {
	delay = min(max(delay, parkMin), parkMax)
	return time.Duration(float64(delay) * (0.8 + 0.4*u))
}
