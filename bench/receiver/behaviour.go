package receiver

import (
	"net/http"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/time/rate"
)

// Answer is one way to treat a request.
type Answer struct {
	Status     int // 0 = 200
	Delay      time.Duration
	RetryAfter string // value of the Retry-After header, "" = none
	Body       string
	Hang       bool // never answer; wait until the peer gives up
	Reset      bool // answer with a TCP reset
}

// Behaviour is what a path does. The zero value answers 200.
type Behaviour struct {
	Answer Answer

	// Fail is the answer to the First requests of each event, and to a Share (0..1) of all
	// others, chosen by event id and request number so that runs repeat.
	Fail  Answer
	First int
	Share float64

	// Over is the answer above Rate requests per second (0 = no limit); once above it, every
	// request gets it for FallFor: a server that falls over and needs to recover.
	Rate    float64
	Over    Answer
	FallFor time.Duration
}

// Healthy answers 200.
func Healthy() Behaviour { return Behaviour{} }

// FailFirst answers status to the first n requests of each event and 200 afterwards.
func FailFirst(n, status int) Behaviour {
	return Behaviour{First: n, Fail: Answer{Status: status}}
}

// Always answers status.
func Always(status int) Behaviour { return Behaviour{Answer: Answer{Status: status}} }

// Slow answers 200 after d.
func Slow(d time.Duration) Behaviour { return Behaviour{Answer: Answer{Delay: d}} }

// Hang never answers.
func Hang() Behaviour { return Behaviour{Answer: Answer{Hang: true}} }

// Reset answers with a TCP reset.
func Reset() Behaviour { return Behaviour{Answer: Answer{Reset: true}} }

// FailShare answers status to a share (0..1) of the requests.
func FailShare(share float64, status int) Behaviour {
	return Behaviour{Share: share, Fail: Answer{Status: status}}
}

// RateLimited answers 429 with Retry-After above perSecond, and for fallFor afterwards.
func RateLimited(perSecond float64, retryAfter string, fallFor time.Duration) Behaviour {
	return Behaviour{
		Rate:    perSecond,
		Over:    Answer{Status: http.StatusTooManyRequests, RetryAfter: retryAfter},
		FallFor: fallFor,
	}
}

// script is a Behaviour at work. It is immutable but for the limiter.
type script struct {
	Behaviour
	limiter *rate.Limiter

	mu        sync.Mutex
	fallUntil time.Time
}

func newScript(b Behaviour) *script {
	s := &script{Behaviour: b}
	if b.Rate > 0 {
		s.limiter = rate.NewLimiter(rate.Limit(b.Rate), max(1, int(b.Rate/10)))
	}
	return s
}

// counts reports whether the answer depends on how often the event was seen.
func (s *script) counts() bool { return s.First > 0 || s.Share > 0 }

// pick chooses the answer to the nth request (from 1) of an event.
func (s *script) pick(id string, nth int, now time.Time) *Answer {
	if s.limiter != nil && s.over(now) {
		return &s.Over
	}
	if s.First > 0 && nth <= s.First || s.Share > 0 && chance(id, nth) < s.Share {
		return &s.Fail
	}
	return &s.Answer
}

func (s *script) over(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.fallUntil) {
		return true
	}
	if s.limiter.AllowN(now, 1) {
		return false
	}
	s.fallUntil = now.Add(s.FallFor)
	return true
}

// chance maps an event and its nth request to a fixed number in [0, 1).
func chance(id string, nth int) float64 {
	var d xxhash.Digest
	d.ResetWithSeed(uint64(nth))
	_, _ = d.WriteString(id)
	return float64(d.Sum64()>>11) / (1 << 53)
}
