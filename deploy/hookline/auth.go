package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// tokenGate compares tokens by their hashes in constant time, so that neither content nor
// length can be timed.
type tokenGate [sha256.Size]byte

func newTokenGate(token string) tokenGate { return sha256.Sum256([]byte(token)) }

func (g tokenGate) accepts(token string) bool {
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(g[:], sum[:]) == 1
}

// open are the paths that monitoring reads without a token.
func open(path string) bool {
	return path == "/metrics" || path == "/healthz" || path == "/readyz"
}

// authorized says whether r may pass. The console, which only reads, also takes the token as
// the password of HTTP Basic: a browser can send that. Nothing that writes does, since a
// browser would add it to requests that another site makes.
func (g tokenGate) authorized(r *http.Request) bool {
	if open(r.URL.Path) {
		return true
	}
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return false
	}
	if scheme, token, ok := strings.Cut(values[0], " "); ok && strings.EqualFold(scheme, "Bearer") {
		return g.accepts(strings.TrimSpace(token))
	}
	if strings.HasPrefix(r.URL.Path, consolePath) && r.Method == http.MethodGet {
		if _, password, ok := r.BasicAuth(); ok {
			return g.accepts(password)
		}
	}
	return false
}

func (s *admin) unauthorized(w http.ResponseWriter, r *http.Request) {
	challenge := `Bearer realm="hookline"`
	if strings.HasPrefix(r.URL.Path, consolePath) {
		challenge = `Basic realm="hookline console: any user, the admin token as password", charset="UTF-8"`
	}
	w.Header().Set("WWW-Authenticate", challenge)
	s.writeError(w, r, refuse(http.StatusUnauthorized, "unauthenticated", "send the admin token: Authorization: Bearer TOKEN"))
}
