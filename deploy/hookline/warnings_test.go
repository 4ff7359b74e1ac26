package main

import (
	"strings"
	"testing"

	"github.com/hookline/hookline/deploy/local/brokertest"
)

// TestSettingsWithoutEffectAreSaid keeps the API from promising what this version does not do.
func TestSettingsWithoutEffectAreSaid(t *testing.T) {
	r := startRig(t, brokertest.Start(t), roleDispatcher)
	quiet := r.want(r.call("POST", "/v1/endpoints", `{"id":"plain","tenant":"dev","url":"http://127.0.0.1:9/x"}`), 201, "")
	if strings.Contains(string(quiet.body), "warnings") {
		t.Errorf("defaults warn: %s", quiet.body)
	}
	a := r.want(r.call("POST", "/v1/endpoints", `{"id":"e","tenant":"dev","url":"http://127.0.0.1:9/x","ordering":"per_key","rate_per_second":5,"when_open":"fail","on_dead":"stop"}`), 201, "")
	for _, field := range []string{"ordering", "rate_per_second", "when_open", "on_dead"} {
		if !strings.Contains(string(a.body), field+" has no effect") {
			t.Errorf("nothing is said about %s: %s", field, a.body)
		}
	}
}
