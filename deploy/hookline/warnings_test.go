package main

import (
	"strings"
	"testing"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/dispatcher/signature"
)

// TestSettingsWithoutEffectAreSaid keeps the API from promising what this version does not do,
// and from denying what it does.
func TestSettingsWithoutEffectAreSaid(t *testing.T) {
	t.Parallel()
	r := startRig(t, brokertest.Start(t), roleDispatcher)
	for _, fields := range []string{``, `,"rate_per_second":5,"when_open":"fail","max_in_flight":2,"signature":"v1a"`} {
		quiet := r.want(r.call("POST", "/v1/endpoints", `{"id":"plain","tenant":"dev","url":"http://127.0.0.1:9/x"`+fields+`}`), 201, "")
		if strings.Contains(string(quiet.body), "warnings") {
			t.Errorf("what has an effect warns: %s", quiet.body)
		}
		r.want(r.call("DELETE", "/v1/endpoints/plain", ""), 204, "")
	}
	for _, mode := range []string{"per_key", "self_ordering"} {
		a := r.want(r.call("POST", "/v1/endpoints", `{"id":"`+mode+`","tenant":"dev","url":"http://127.0.0.1:9/x","ordering":"`+mode+`","on_dead":"stop"}`), 201, "")
		for _, field := range []string{"ordering", "on_dead"} {
			if !strings.Contains(string(a.body), field+" has no effect") {
				t.Errorf("nothing is said about %s: %s", field, a.body)
			}
		}
	}
}

// A receiver of v1a verifies with the public half, which the API shows for ever: the private
// half is shown once.
func TestThePublicKeyIsShown(t *testing.T) {
	t.Parallel()
	r := startRig(t, brokertest.Start(t), roleDispatcher)
	made := r.want(r.call("POST", "/v1/endpoints", `{"id":"e","url":"http://127.0.0.1:9/x","signature":"v1a"}`), 201, "").json(t)
	private, err := signature.ParseSecret(made["secret"].(string))
	if err != nil {
		t.Fatal(err)
	}
	body := r.want(r.call("GET", "/v1/endpoints/e", ""), 200, "")
	if got := body.json(t)["public_key"]; got != private.Public() || !strings.HasPrefix(private.Public(), "whpk_") {
		t.Errorf("public key %v, want %s", got, private.Public())
	}
	r.want(r.call("PUT", "/v1/endpoints/e", string(body.body)), 200, "") // what was read can be sent back
	made = r.want(r.call("POST", "/v1/endpoints", `{"id":"f","url":"http://127.0.0.1:9/x"}`), 201, "").json(t)
	if got, ok := made["public_key"]; ok {
		t.Errorf("a v1 endpoint shows a public key: %v", got)
	}
}
