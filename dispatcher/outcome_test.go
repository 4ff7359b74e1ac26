package dispatcher

import (
	"testing"
	"time"

	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/retrytiers/tier"
)

var outcomeNow = time.Unix(1_800_000_000, 0)

func defaultPolicy() Policy {
	e := endpoint.Default()
	return PolicyOf(&e)
}

func TestOutcomeOfEveryStatusClass(t *testing.T) {
	custom := defaultPolicy()
	custom.Permanent, custom.Transient = []int{404, 501}, []int{401, 410, 302}
	const retry = tier.Reason("")
	cases := []struct {
		name    string
		policy  Policy
		status  int
		attempt int
		kind    Kind
		reason  tier.Reason
	}{
		{"200", defaultPolicy(), 200, 1, Delivered, ""},
		{"204 at the last attempt", defaultPolicy(), 204, 16, Delivered, ""},
		{"299", defaultPolicy(), 299, 99, Delivered, ""},
		{"no answer", defaultPolicy(), 0, 1, RetryAt, retry},
		{"no answer, 15", defaultPolicy(), 0, 15, RetryAt, retry},
		{"no answer, last", defaultPolicy(), 0, 16, DeadLetter, tier.Exhausted},
		{"101", defaultPolicy(), 101, 5, RetryAt, retry},
		{"999", defaultPolicy(), 999, 5, RetryAt, retry},
		{"300", defaultPolicy(), 300, 1, RetryAt, retry},
		{"301, fifth", defaultPolicy(), 301, 5, DeadLetter, tier.Unclear},
		{"304, fourth", defaultPolicy(), 304, 4, RetryAt, retry},
		{"308, later", defaultPolicy(), 308, 9, DeadLetter, tier.Unclear},
		{"400", defaultPolicy(), 400, 1, RetryAt, retry},
		{"401, fourth", defaultPolicy(), 401, 4, RetryAt, retry},
		{"404, fifth", defaultPolicy(), 404, 5, DeadLetter, tier.Unclear},
		{"499, fifth", defaultPolicy(), 499, 5, DeadLetter, tier.Unclear},
		{"408, fifth", defaultPolicy(), 408, 5, RetryAt, retry},
		{"425, fifth", defaultPolicy(), 425, 5, RetryAt, retry},
		{"429, fifteenth", defaultPolicy(), 429, 15, RetryAt, retry},
		{"429, last", defaultPolicy(), 429, 16, DeadLetter, tier.Exhausted},
		{"410", defaultPolicy(), 410, 1, DeadLetter, tier.EndpointGone},
		{"500, fifteenth", defaultPolicy(), 500, 15, RetryAt, retry},
		{"503, last", defaultPolicy(), 503, 16, DeadLetter, tier.Exhausted},
		{"599", defaultPolicy(), 599, 1, RetryAt, retry},
		{"404 set permanent", custom, 404, 1, DeadLetter, tier.Permanent},
		{"501 set permanent", custom, 501, 1, DeadLetter, tier.Permanent},
		{"401 set transient", custom, 401, 15, RetryAt, retry},
		{"302 set transient", custom, 302, 15, RetryAt, retry},
		{"410 set transient", custom, 410, 1, RetryAt, retry},
		{"410 set transient, last", custom, 410, 16, DeadLetter, tier.Exhausted},
	}
	for _, c := range cases {
		state := State{Attempt: c.attempt, First: outcomeNow.Add(-time.Minute)}
		v := Decide(c.policy, state, Result{Status: c.status}, outcomeNow, 0.5)
		if v.Kind != c.kind || v.Reason != c.reason {
			t.Errorf("%s: %+v, want kind %d reason %q", c.name, v, c.kind, c.reason)
		}
		if (v.Delay > 0) != (c.kind == RetryAt) {
			t.Errorf("%s: delay %v", c.name, v.Delay)
		}
	}
}

func TestPermanentIsOverUnclear410(t *testing.T) {
	p := defaultPolicy()
	p.Permanent = nil
	if v := Decide(p, State{Attempt: 1, First: outcomeNow}, Result{Status: 410}, outcomeNow, 0.5); v.Kind != RetryAt {
		t.Errorf("410 taken off the list: %+v", v)
	}
	p.Permanent, p.Transient = []int{500}, []int{500}
	if v := Decide(p, State{Attempt: 1, First: outcomeNow}, Result{Status: 500}, outcomeNow, 0.5); v.Reason != tier.Permanent {
		t.Errorf("a status in both lists: %+v", v)
	}
}

func TestDelayIsFullJitter(t *testing.T) {
	p := defaultPolicy()
	for n, bound := range map[int]time.Duration{1: 2 * time.Second, 2: 4 * time.Second, 3: 8 * time.Second, 4: 16 * time.Second, 15: time.Hour} {
		for _, u := range []float64{0, 0.25, 0.999} {
			v := Decide(p, State{Attempt: n, First: outcomeNow}, Result{}, outcomeNow, u)
			if want := time.Duration(u * float64(bound)); v.Kind != RetryAt || v.Delay != want {
				t.Errorf("attempt %d, u %v: %+v, want %v", n, u, v, want)
			}
		}
	}
}

func TestRetryAfterOnlyRaisesTheDelay(t *testing.T) {
	p := defaultPolicy()
	cases := []struct{ asked, want time.Duration }{
		{0, time.Second}, {time.Millisecond, time.Second}, {time.Minute, time.Minute},
		{24 * time.Hour, 24 * time.Hour}, {1000 * time.Hour, 24 * time.Hour}, {-time.Hour, time.Second},
	}
	for _, status := range []int{0, 302, 404, 429, 500, 503} {
		for _, c := range cases {
			v := Decide(p, State{Attempt: 1, First: outcomeNow}, Result{Status: status, RetryAfter: c.asked}, outcomeNow, 0.5)
			if v.Kind != RetryAt || v.Delay != c.want {
				t.Errorf("status %d asked %v: %+v, want %v", status, c.asked, v, c.want)
			}
		}
	}
}

func TestMaxAgeEndsADelivery(t *testing.T) {
	p := defaultPolicy()
	p.MaxAge = time.Hour
	at := func(age time.Duration, r Result) Verdict {
		return Decide(p, State{Attempt: 3, First: outcomeNow.Add(-age)}, r, outcomeNow, 0.5)
	}
	if v := at(59*time.Minute, Result{Status: 500}); v.Kind != RetryAt {
		t.Errorf("in time: %+v", v)
	}
	if v := at(time.Hour, Result{Status: 500}); v.Reason != tier.Expired {
		t.Errorf("past it: %+v", v)
	}
	if v := at(time.Hour-time.Second, Result{}); v.Reason != tier.Expired {
		t.Errorf("the next attempt would be past it: %+v", v)
	}
	if v := at(time.Minute, Result{Status: 503, RetryAfter: 2 * time.Hour}); v.Reason != tier.Expired {
		t.Errorf("Retry-After leads past it: %+v", v)
	}
	if v := at(100*time.Hour, Result{Status: 200}); v.Kind != Delivered {
		t.Errorf("a late success: %+v", v)
	}
	p.MaxAttempts = 3
	if v := at(100*time.Hour, Result{}); v.Reason != tier.Exhausted {
		t.Errorf("last attempt and past it: %+v", v)
	}
}

// FuzzDecide: whatever comes in, the verdict is one of the three, a retry is never longer
// than a day or the cap and never past max age, and 2xx is always a delivery.
func FuzzDecide(f *testing.F) {
	f.Add(200, 1, int64(0), int64(0), 0.5)
	f.Add(503, 15, int64(time.Hour), int64(30*time.Second), 1.0)
	f.Fuzz(func(t *testing.T, status, n int, age, after int64, u float64) {
		p := defaultPolicy()
		age = max(min(age, int64(100*24*time.Hour)), 0)
		v := Decide(p, State{Attempt: n, First: outcomeNow.Add(-time.Duration(age))},
			Result{Status: status, RetryAfter: time.Duration(after)}, outcomeNow, u)
		success := status >= 200 && status <= 299
		if (v.Kind == Delivered) != success {
			t.Fatalf("status %d: %+v", status, v)
		}
		if v.Kind == RetryAt && (v.Delay < 0 || v.Delay > max(p.Schedule.Cap, maxRetryAfter) || time.Duration(age)+v.Delay > p.MaxAge) {
			t.Fatalf("delay %v", v.Delay)
		}
		if (v.Kind == DeadLetter) != (v.Reason != "") || v.Kind < Delivered || v.Kind > DeadLetter {
			t.Fatalf("verdict %+v", v)
		}
	})
}
