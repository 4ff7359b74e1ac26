package dispatcher

import "time"

const (
	// parkMin and parkMax bound the delay of a parked delivery while its endpoint is up.
	parkMin = time.Second
	parkMax = 300 * time.Second
	// parkMemory is longer than any such park: what was not back by then is not coming here.
	parkMemory = 2 * parkMax
)

// backlog estimates what waits for one endpoint outside of this process, and how fast the
// endpoint works it off.
type backlog struct {
	// now counts deliveries that were parked and not seen again yet, before those of the
	// span before. Copies that come back in another process, or never, are not seen here, so
	// what is older than parkMemory is forgotten.
	now, before int
	since       time.Time

	// done counts places given back since windowStart; rate is the drain per second of the
	// window before.
	done        int
	windowStart time.Time
	rate        float64
}

func newBacklog(now time.Time) backlog { return backlog{since: now, windowStart: now} }

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

func (b *backlog) drained(now time.Time) {
	b.done++
	if since := now.Sub(b.windowStart); since >= time.Second {
		b.rate = float64(b.done) / since.Seconds()
		b.done, b.windowStart = 0, now
	}
}

// age forgets what is too old to come back.
func (b *backlog) age(now time.Time) {
	if now.Sub(b.since) >= parkMemory {
		b.before, b.now, b.since = b.now, 0, now
	}
}

// drainTime is how long the backlog and waiting deliveries take at the rate of late, or at
// most bound a second if that is above 0.
func (b *backlog) drainTime(waiting int, bound float64) time.Duration {
	rate := max(b.rate, 0.1)
	if bound > 0 {
		rate = bound
	}
	seconds := float64(waiting+b.size()) / rate
	return time.Duration(min(seconds, parkMax.Seconds()) * float64(time.Second))
}

// spread bounds a delay and moves it by up to a fifth, by u in [0,1).
func spread(delay time.Duration, u float64) time.Duration {
	delay = min(max(delay, parkMin), parkMax)
	return time.Duration(float64(delay) * (0.8 + 0.4*u))
}
