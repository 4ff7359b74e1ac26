package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hookline/hookline/dispatcher/signature"
)

func TestListenVerifiesAndPrints(t *testing.T) {
	t.Parallel()
	secret := signature.NewSecret()
	key, err := parseVerifyKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	private, public := signature.NewPrivate()
	verifier, err := parseVerifyKey(public)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := signature.ParseSecret(private)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	body := []byte(`{"event":"message.sent"}`)
	send := func(keys []signature.Key, with signature.Key, at time.Time, tamper bool) (string, int) {
		var out bytes.Buffer
		l := &listener{keys: keys, tolerance: 5 * time.Minute, now: func() time.Time { return now }, out: &out}
		sent := body
		if tamper {
			sent = []byte(`{}`)
		}
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/hook", bytes.NewReader(sent))
		r.Header.Set(signature.HeaderID, "evt_1")
		r.Header.Set(signature.HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
		r.Header.Set(signature.HeaderSignature, string(signature.AppendSign(nil, []signature.Key{with}, "evt_1", at.Unix(), body)))
		r.Header.Set("Webhook-Attempt", "2")
		w := httptest.NewRecorder()
		l.ServeHTTP(w, r)
		return out.String(), w.Code
	}
	f := func(name, line string, status int, wantText string, wantStatus int) {
		t.Helper()
		if status != wantStatus || !strings.Contains(line, wantText) || strings.Count(line, "\n") != 1 {
			t.Errorf("%s: %d %q", name, status, line)
		}
	}
	line, status := send([]signature.Key{key}, key, now, false)
	f("valid", line, status, " valid 200 evt_1 attempt=2", 200)
	line, status = send([]signature.Key{key, verifier}, signer, now, false)
	f("second key", line, status, " valid 200", 200)
	line, status = send([]signature.Key{key}, key, now, true)
	f("other body", line, status, " invalid 401", 401)
	line, status = send([]signature.Key{key}, key, now.Add(-10*time.Minute), false)
	f("old", line, status, "timestamp is outside the tolerance", 401)
	line, status = send(nil, key, now, false)
	f("no key", line, status, " unchecked 200", 200)
}

func TestListenRefusesBadArguments(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--addr", "0.0.0.0:1"}, {"--secret", "nope"}, {"--fail", "2"}} {
		if _, stderr, code := command(t, nil, append([]string{"listen"}, args...)...); code != exitUsage || strings.Contains(stderr, "nope") {
			t.Errorf("%v: %d %s", args, code, stderr)
		}
	}
}
