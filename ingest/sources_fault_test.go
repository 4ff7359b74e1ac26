package ingest

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/hookline/hookline/ingest/source"
)

// A webhook whose event may not be in the log is not remembered: the provider sends it again,
// and then it is published. What was taken is answered even while the broker is away.
func TestWebhookOfUnknownOutcomeIsNotRemembered(t *testing.T) {
	t.Parallel()
	r, fake := startFake(t, withSources(t, sourceSettings))
	const before, body = `{"repository":{"id":1}}`, `{"repository":{"id":2}}`
	post := func(body string) answer {
		return r.do("POST", "/v1/sources/gh", body, githubHeaders("gh-secret", body, "d")...)
	}
	if a := post(before); a.status != 201 {
		t.Fatal(a)
	}
	_, release := hold(t, fake)
	begin := time.Now()
	a := post(body)
	if took := time.Since(begin); a.status != 504 || a.Code != "unknown_outcome" || took > 2*time.Second {
		t.Fatalf("after %s: %s", took, a)
	}
	documented(t, PathSources, a)
	begin = time.Now()
	a = post(body)
	if took := time.Since(begin); a.status != 503 || a.Code != "unavailable" || took > 500*time.Millisecond {
		t.Fatalf("after %s: %s", took, a)
	}
	if n, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || n < 1 {
		t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
	}
	if a := post(before); a.status != 201 {
		t.Errorf("one that was taken: %s", a)
	}
	if a := r.do("POST", "/v1/sources/gh", body, githubHeaders("other", body, "d")...); a.status != 401 {
		t.Errorf("a stranger: %s", a)
	}
	release()
	eventually(t, func() bool { return post(body).status == 201 })
	if a := post(body); a.status != 201 {
		t.Error(a)
	}
	counted := func(outcome string) float64 {
		return r.metric("hookline_ingest_source_requests_total", "outcome", outcome, "source", "gh")
	}
	if accepted, replayed := counted(outcomeAccepted), counted(outcomeReplayed); accepted != 2 || replayed != 2 {
		t.Errorf("%v accepted, %v replayed", accepted, replayed)
	}
}

func TestSourceHasALimitOfItsOwn(t *testing.T) {
	t.Parallel()
	r, _ := start(t, withSources(t, `
slow: {tenant: dev, scheme: github, secrets: [s], rate: 0.01, burst: 2}
free: {tenant: dev, scheme: github, secrets: [s]}
`))
	post := func(name string, n int, secret string) answer {
		body := fmt.Sprintf(`{"repository":{"id":%d}}`, n)
		return r.do("POST", "/v1/sources/"+name, body, githubHeaders(secret, body, strconv.Itoa(n))...)
	}
	for range 5 { // strangers and repeats use nothing up
		if a := post("slow", 1, "other"); a.Code != source.CodeBadSignature {
			t.Fatal(a)
		}
		if a := post("slow", 1, "s"); a.status != 200 {
			t.Fatal(a)
		}
	}
	if a := post("slow", 2, "s"); a.status != 200 {
		t.Error(a)
	}
	a := post("slow", 3, "s")
	if n, err := strconv.Atoi(a.header.Get("Retry-After")); a.status != 429 || a.Code != "rate_limited" || err != nil || n < 1 {
		t.Errorf("%s %v", a, a.header)
	}
	documented(t, PathSources, a)
	if a := post("slow", 2, "s"); a.status != 200 {
		t.Errorf("one that was taken: %s", a)
	}
	if a := post("free", 3, "s"); a.status != 200 {
		t.Errorf("another source: %s", a)
	}
}
